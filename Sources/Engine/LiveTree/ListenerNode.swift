import PandoTree

/// One location in a ``ListenerTable``. Invariant: it has listens, or some node below it has; except for the
/// root.
///
/// Kept small: a listen makes a node for each of up to 32 keys of its path. So a node that never had two
/// children has no dictionary, and what few nodes need is in ``ListenerDetails``.
final class ListenerNode {
    /// The last key of the location; nil for the root.
    private let key: Key?
    /// The location, where the node has listens; shares the storage of one of them. Otherwise the root's.
    var path = Path.root
    /// The child, where there is one.
    private var onlyChild: ListenerNode?
    /// The children, where there are more.
    private var children: [Key: ListenerNode] = [:]
    /// Sessions with a default listen here, except for those in ``ListenerDetails/covered``.
    var defaults = SessionSet()
    /// What few nodes have; nil where it would be empty.
    private(set) var details: ListenerDetails?
    /// The index of this node's notice in the notices of the write that is in progress; -1 for none.
    var noticeIndex: Int32 = -1

    init(key: Key?) {
        self.key = key
    }

    var isEmpty: Bool { !hasChildren && !hasListeners }

    /// Whether there are listens here.
    var hasListeners: Bool { !defaults.isEmpty || details != nil }

    /// Whether the session has a default listen here, covered or not.
    func hasDefault(of session: SessionID) -> Bool {
        defaults.contains(session) || details?.covered.contains(session) ?? false
    }

    /// Whether there are nodes below.
    var hasChildren: Bool { onlyChild != nil || !children.isEmpty }

    var childCount: Int { onlyChild == nil ? children.count : 1 }

    /// The node of a child; nil where there is none. O(1).
    func child(_ key: Key) -> ListenerNode? {
        if let onlyChild { return onlyChild.key == key ? onlyChild : nil }
        return children.isEmpty ? nil : children[key]
    }

    /// Adds the node of a child that has none. O(1).
    func makeChild(_ key: Key) -> ListenerNode {
        let child = ListenerNode(key: key)
        if let first = onlyChild, let firstKey = first.key {
            children = [firstKey: first, key: child]
            onlyChild = nil
        } else if children.isEmpty {
            onlyChild = child
        } else {
            children[key] = child
        }
        return child
    }

    /// Removes the node of a child. O(1).
    func removeChild(_ key: Key) {
        if onlyChild != nil { onlyChild = nil } else { children[key] = nil }
        // As few need no dictionary.
        if children.isEmpty { children = [:] }
    }

    /// Visits the children, in no particular order.
    func forEachChild(_ body: (Key, ListenerNode) -> Void) {
        if let onlyChild, let key = onlyChild.key { body(key, onlyChild) }
        for (key, child) in children { body(key, child) }
    }

    /// Whether all children satisfy a condition; asks no further where one does not.
    func allChildren(_ condition: (ListenerNode) -> Bool) -> Bool {
        if let onlyChild { return condition(onlyChild) }
        return children.values.allSatisfy(condition)
    }

    /// Changes the details. Makes them where there are none, and removes them when they are empty.
    func changeDetails<Result>(_ body: (ListenerDetails) -> Result) -> Result {
        let details = details ?? ListenerDetails()
        self.details = details
        defer { if details.isEmpty { self.details = nil } }
        return body(details)
    }

    /// One for each distinct query.
    var views: [QueryView] { details?.views ?? [] }

    func position(of query: Query) -> Int? { details?.position(of: query) }

    /// After a window has changed: notes its new range.
    func updateRange(of view: QueryView) { details?.updateRange(of: view) }

    /// The session's default listens here become covered ones, or the other way round.
    func setCovered(_ isCovered: Bool, _ session: SessionID) {
        if isCovered {
            if defaults.remove(session) { changeDetails { _ = $0.covered.insert(session) } }
        } else if changeDetails({ $0.covered.remove(session) }) {
            defaults.insert(session)
        }
    }
}

/// What few nodes of a ``ListenerTable`` have: queries, and listens below others of their session.
final class ListenerDetails {
    /// Sessions with a default listen here and another one above, which gets the changes here, too. Where
    /// that one has ended, the next write moves the session to ``ListenerNode/defaults``
    /// (``ListenerTable/uncoverListens(of:along:_:)``): to end a listen above fifty thousand takes no
    /// longer than to end any other.
    var covered = SessionSet()
    /// One for each distinct query.
    private(set) var views: [QueryView] = []
    /// The index of each query in ``views``. Filled when there are more than ``unindexedViewLimit`` views,
    /// until there are none.
    private var positions: [Query: Int] = [:]
    static let unindexedViewLimit = 8
    /// Filled as ``positions`` is; while it is empty, each window is asked.
    private(set) var finder = WindowFinder()
    private var lastNumber = 0
    /// Children that the write in progress is about to change, with their values before it; empty between
    /// writes.
    var preimages: [(key: Key, old: Node)] = []

    var isEmpty: Bool { covered.isEmpty && views.isEmpty }

    func position(of query: Query) -> Int? {
        positions.isEmpty ? views.firstIndex { $0.query == query } : positions[query]
    }

    func append(_ view: QueryView) {
        views.append(view)
        if !positions.isEmpty {
            positions[view.query] = views.count - 1
        } else if views.count > Self.unindexedViewLimit {
            for (index, view) in views.enumerated() { positions[view.query] = index }
            for view in views.dropLast() { insertRange(of: view) }
        }
        if !positions.isEmpty { insertRange(of: view) }
    }

    private func insertRange(of view: QueryView) {
        lastNumber += 1
        insert(range(of: view, number: lastNumber))
    }

    private func range(of view: QueryView, number: Int) -> WindowRanges.Range {
        let (low, high) = view.window.reach
        return WindowRanges.Range(low: low, high: high, number: number, view: view)
    }

    private func insert(_ range: WindowRanges.Range) {
        range.view.place = (range.low, range.high, range.number)
        finder.insert(range)
    }

    private func removeRange(of view: QueryView) {
        guard let (low, high, number) = view.place.take() else { return }
        finder.remove(.init(low: low, high: high, number: number, view: view))
    }

    /// After a window has changed: notes its new range.
    func updateRange(of view: QueryView) {
        guard let place = view.place else { return }
        let range = range(of: view, number: place.number)
        guard place.low != range.low || place.high != range.high else { return }
        removeRange(of: view)
        insert(range)
    }

    /// Removes a view. The last one moves into the gap.
    func removeView(at index: Int) {
        positions[views[index].query] = nil
        removeRange(of: views[index])
        let last = views.removeLast()
        if index < views.count {
            views[index] = last
            if !positions.isEmpty { positions[last.query] = index }
        }
        if views.isEmpty {
            positions = [:]
            finder = WindowFinder()
        }
    }
}

import PandoTree

/// All listens of a database: a trie of the paths at or below which there are listens.
///
///     root ─ "rooms" ─ "a"   default listens: sessions, in the order in which they came
///                            filtered listens: one QueryView for each distinct query, with its window and
///                            its recipients (session, tag)
///
/// A write walks from the root to its path, where every listen gets the change, and then visits the listens
/// below, whose value may have changed. Its cost grows with the listens that get a push, not with all
/// listens.
///
/// `@unchecked Sendable`: a tree of class instances, owned by one ``LiveTree`` and never handed out. A tree
/// belongs to one thread and cannot be copied, so no two threads use a node at the same time.
struct ListenerTable: @unchecked Sendable {
    /// One location. Invariant: it has listens, or some node below it has; except for the root.
    ///
    /// Kept small: a listen makes a node for each of up to 32 keys of its path. So a node with one child has
    /// no dictionary, and what few nodes need is in ``NodeDetails``.
    final class TrieNode {
        /// The last key of the location; nil for the root.
        private let key: Key?
        /// The location, where the node has listens; shares the storage of one of them. Otherwise the root's.
        fileprivate(set) var path = Path.root
        /// The child, where there is one.
        private var onlyChild: TrieNode?
        /// The children, where there are more.
        private var children: [Key: TrieNode] = [:]
        /// Sessions with a default listen here, except for those in ``NodeDetails/covered``.
        var defaults = SessionSet()
        /// What few nodes have; nil where it would be empty.
        private(set) var details: NodeDetails?
        /// The index of this node's notice in the notices of the write that is in progress; -1 for none.
        var noticeIndex: Int32 = -1

        init(key: Key?) {
            self.key = key
        }

        var isEmpty: Bool { !hasChildren && !hasListeners }

        /// Whether there are listens here.
        var hasListeners: Bool { !defaults.isEmpty || details != nil }

        /// Whether there are nodes below.
        var hasChildren: Bool { onlyChild != nil || !children.isEmpty }

        var childCount: Int { onlyChild == nil ? children.count : 1 }

        /// The node of a child; nil where there is none. O(1).
        func child(_ key: Key) -> TrieNode? {
            if let onlyChild { return onlyChild.key == key ? onlyChild : nil }
            return children.isEmpty ? nil : children[key]
        }

        /// Adds the node of a child that has none. O(1).
        fileprivate func makeChild(_ key: Key) -> TrieNode {
            let child = TrieNode(key: key)
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
        fileprivate func removeChild(_ key: Key) {
            if onlyChild != nil { onlyChild = nil } else { children[key] = nil }
            // As few need no dictionary.
            if children.isEmpty { children = [:] }
        }

        /// Visits the children, in no particular order.
        func forEachChild(_ body: (Key, TrieNode) -> Void) {
            if let onlyChild, let key = onlyChild.key { body(key, onlyChild) }
            for (key, child) in children { body(key, child) }
        }

        /// Whether all children satisfy a condition; asks no further where one does not.
        func allChildren(_ condition: (TrieNode) -> Bool) -> Bool {
            if let onlyChild { return condition(onlyChild) }
            return children.values.allSatisfy(condition)
        }

        /// Changes what few nodes have.
        fileprivate func changeDetails<Result>(_ body: (NodeDetails) -> Result) -> Result {
            let details = details ?? NodeDetails()
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
        fileprivate func setCovered(_ isCovered: Bool, _ session: SessionID) {
            if isCovered {
                if defaults.remove(session) { changeDetails { _ = $0.covered.insert(session) } }
            } else if changeDetails({ $0.covered.remove(session) }) {
                defaults.insert(session)
            }
        }
    }

    /// What few nodes have: queries, and listens below others of their session.
    final class NodeDetails {
        /// Sessions with a default listen here and another one above, which gets the changes here, too. Where
        /// that one has ended, the next write moves the session to ``TrieNode/defaults``
        /// (``ListenerTable/settleCovered(of:along:_:)``): to end a listen above fifty thousand takes no
        /// longer than to end any other.
        var covered = SessionSet()
        /// One for each distinct query.
        private(set) var views: [QueryView] = []
        /// The index of each query in ``views``. Empty up to ``indexedCount`` views.
        private var positions: [Query: Int] = [:]
        static let indexedCount = 8
        /// The windows' ranges, by order. Empty up to ``indexedCount`` views: then each is asked.
        private(set) var ranges: [(order: ChildOrder, windows: WindowRanges)] = []
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
            } else if views.count > Self.indexedCount {
                for (index, view) in views.enumerated() { positions[view.query] = index }
                for view in views.dropLast() { insertRange(of: view) }
            }
            if !positions.isEmpty { insertRange(of: view) }
        }

        /// Whether windows are found by their ranges.
        var hasRanges: Bool { !ranges.isEmpty }

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
            let order = range.view.query.order
            if let index = ranges.firstIndex(where: { $0.order == order }) {
                ranges[index].windows.insert(range)
            } else {
                var windows = WindowRanges()
                windows.insert(range)
                ranges.append((order, windows))
            }
        }

        private func removeRange(of view: QueryView) {
            guard let (low, high, number) = view.place.take(),
                let index = ranges.firstIndex(where: { $0.order == view.query.order })
            else { return }
            ranges[index].windows.remove(.init(low: low, high: high, number: number, view: view))
            if ranges[index].windows.isEmpty { ranges.remove(at: index) }
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
                ranges = []
            }
        }
    }

    /// One distinct query at one location, shared by all sessions that listen through it.
    /// Invariant: there is at least one recipient.
    final class QueryView {
        let query: Query
        var window: Window
        var recipients = MemberSet<[Push.TaggedRecipient]>()
        /// Of a live aggregate; nil for a window. Then ``window`` has no children, and is only asked for its
        /// range.
        var aggregate: AggregateState?
        /// The number of the scan that is under way for the children that the window lacks, or for all of it;
        /// nil for none.
        var scan: Int?
        /// A write had more windows to update than one step may. The window is what the recipients have been
        /// sent, writes pass it by, and the scan finds what it is by then.
        var isBehind = false
        /// Since the window is behind, recipients have come that were sent what it was then: newer than what
        /// the others have.
        var hasLateRecipients = false
        /// The window's range as ``NodeDetails/ranges`` has it; nil where there are few windows.
        fileprivate(set) var place: (low: IndexPlace?, high: IndexPlace?, number: Int)?

        init(query: Query, window: Window) {
            self.query = query
            self.window = window
            if !query.aggregates.isEmpty { aggregate = AggregateState() }
        }

        /// What the recipients have been sent; nil where they have not been sent anything.
        var node: Node? {
            if let aggregate { aggregate.value } else { window.node }
        }
    }

    private(set) var root = TrieNode(key: nil)
    /// The number of views. While it is 0, writes need no preimages.
    private(set) var viewCount = 0

    init() {}

    /// Whether there are no listens. Stored, since every write reads it.
    private(set) var isEmpty = true

    // MARK: Adding and removing

    /// Adds a default listen that is not in the table. O(depth).
    /// - Parameter isCovered: Another default listen of the session is above it.
    mutating func addDefault(_ session: SessionID, at path: Path, isCovered: Bool) {
        let node = makeNode(for: path)
        if isCovered {
            node.changeDetails { _ = $0.covered.insert(session) }
        } else {
            node.defaults.insert(session)
        }
        isEmpty = false
    }

    /// Removes a default listen that is in the table. O(depth).
    mutating func removeDefault(_ session: SessionID, at path: Path) {
        withNode(at: path) { node in
            if !node.defaults.remove(session) { _ = node.changeDetails { $0.covered.remove(session) } }
        }
        isEmpty = root.isEmpty
    }

    /// Marks the session's default listens strictly below the path as covered, unless there are more nodes
    /// than `count`. O(depth + count).
    /// - Returns: false where there are more. Then nothing is marked.
    func cover(_ session: SessionID, below path: Path, atMost count: Int) -> Bool {
        guard let nodes = nodes(below: path, atMost: count) else { return false }
        for node in nodes { node.setCovered(true, session) }
        return true
    }

    /// Marks a default listen as covered. O(depth).
    func cover(_ session: SessionID, at path: Path) { node(at: path)?.setCovered(true, session) }

    /// Adds a filtered listen: a recipient of the query's view, which is made when it is the first. The view
    /// of a live aggregate has no value yet then: see ``QueryView/recompute(over:at:_:isFirst:)``.
    /// - Parameters:
    ///   - tree: The location's data, over which a new window is made.
    ///   - index: Its index in the query's order; nil where there is none.
    ///   - prepared: The window over that data, if it was made before.
    mutating func addView(
        _ key: FilteredListenKey, _ session: SessionID, over tree: Node, by index: KeptIndex? = nil,
        prepared: Window? = nil
    ) -> QueryView {
        let node = makeNode(for: key.path)
        let view: QueryView
        if let index = node.position(of: key.query) {
            view = node.views[index]
        } else {
            let isAggregate = !key.query.aggregates.isEmpty
            let window =
                prepared
                ?? Window(
                    IndexedQuery(key.query, by: isAggregate ? nil : index), over: isAggregate ? .empty : tree)
            view = QueryView(query: key.query, window: window)
            node.changeDetails { $0.append(view) }
            viewCount += 1
        }
        view.recipients.insert(Push.TaggedRecipient(session: session, tag: key.tag))
        isEmpty = false
        return view
    }

    /// Removes a filtered listen, and its view with the last recipient. O(depth).
    mutating func removeFiltered(_ key: FilteredListenKey, _ session: SessionID) {
        var removedCount = 0
        withNode(at: key.path) { node in
            guard let index = node.position(of: key.query), let view = node.details?.views[index] else {
                return
            }
            view.recipients.remove(Push.TaggedRecipient(session: session, tag: key.tag))
            guard view.recipients.isEmpty else { return }
            node.changeDetails { $0.removeView(at: index) }
            removedCount = 1
        }
        viewCount -= removedCount
        isEmpty = root.isEmpty
    }

    /// The window of a filtered listen; nil when there is none. O(depth).
    func window(of key: FilteredListenKey) -> Window? { view(of: key.query, at: key.path)?.window }

    /// What a filtered listen has been sent; nil when there is none, or nothing was sent. O(depth + window).
    func node(of key: FilteredListenKey) -> Node? { view(of: key.query, at: key.path)?.node }

    /// Whether the session has a default listen at the path, by one mark or the other. For tests.
    func hasDefault(_ session: SessionID, at path: Path) -> (isCovered: Bool, isThere: Bool) {
        guard let node = node(at: path) else { return (false, false) }
        let isCovered = node.details?.covered.contains(session) ?? false
        return (isCovered, isCovered != node.defaults.contains(session))
    }

    /// Whether the session is a recipient of the query's view. For tests.
    func hasFiltered(_ key: FilteredListenKey, _ session: SessionID) -> Bool {
        let recipient = Push.TaggedRecipient(session: session, tag: key.tag)
        return view(of: key.query, at: key.path)?.recipients.contains(recipient) ?? false
    }

    func view(of query: Query, at path: Path) -> QueryView? {
        guard let node = node(at: path) else { return nil }
        return node.position(of: query).map { node.views[$0] }
    }

    func node(at path: Path) -> TrieNode? {
        var node = root
        for key in path.keys {
            guard let next = node.child(key) else { return nil }
            node = next
        }
        return node
    }

    /// The nodes strictly below the path, in no particular order; nil when there are more than `count`.
    /// O(depth + count).
    private func nodes(below path: Path, atMost count: Int) -> [TrieNode]? {
        guard let top = node(at: path), top.hasChildren else { return [] }
        var found: [TrieNode] = []
        var next = 0
        guard top.childCount <= count else { return nil }
        top.forEachChild { found.append($1) }
        while next < found.count {
            guard found.count + found[next].childCount <= count else { return nil }
            found[next].forEachChild { found.append($1) }
            next += 1
        }
        return found
    }

    /// The node of a location that gets a listen.
    private func makeNode(for path: Path) -> TrieNode {
        var node = root
        for key in path.keys { node = node.child(key) ?? node.makeChild(key) }
        if !node.hasListeners { node.path = path }
        return node
    }

    /// Changes the node at a path, if there is one, and removes nodes that became empty.
    private func withNode(at path: Path, _ body: (TrieNode) -> Void) {
        var ancestors = [root]
        for key in path.keys {
            guard let next = ancestors[ancestors.count - 1].child(key) else { return }
            ancestors.append(next)
        }
        let node = ancestors[ancestors.count - 1]
        body(node)
        if !node.hasListeners { node.path = .root }
        while ancestors.count > 1, let last = ancestors.popLast(), last.isEmpty {
            ancestors[ancestors.count - 1].removeChild(path[ancestors.count - 1])
        }
    }

    // MARK: Covered listens

    /// Before a node's listeners get a push: its covered listens that no other one of their session is above
    /// any more become ordinary ones. O(depth × covered listens here); nothing for a node that has none.
    /// - Parameters:
    ///   - path: The node's location, or one below it.
    ///   - depth: The keys of the node's location.
    func settleCovered(of node: TrieNode, along path: Path, _ depth: Int) {
        guard let details = node.details, !details.covered.isEmpty else { return }
        var above: [TrieNode] = []
        var ancestor = root
        for index in 0..<depth {
            if ancestor.hasListeners { above.append(ancestor) }
            guard let next = ancestor.child(path[index]) else { break }
            ancestor = next
        }
        for session in details.covered.members {
            let isCovered = above.contains {
                $0.defaults.contains(session) || $0.details?.covered.contains(session) == true
            }
            if !isCovered { node.setCovered(false, session) }
        }
    }

    // MARK: Invariants

    /// Counts the nodes of the trie, the root included; for tests. Traps when a node is left that nothing
    /// needs, or when a write left its state behind. O(nodes).
    func checkInvariants() -> Int {
        var viewTotal = 0
        func check(_ node: TrieNode) -> Int {
            precondition(node === root || !node.isEmpty, "an empty node is left at \(node.path)")
            precondition(
                node.details?.preimages.isEmpty ?? true && node.noticeIndex == -1,
                "the state of a write is left at \(node.path)")
            precondition(!(node.details?.isEmpty ?? false), "empty details are left at \(node.path)")
            precondition(node.hasListeners || node.path.isRoot, "a path is left at \(node.path)")
            for (index, view) in node.views.enumerated() {
                precondition(
                    node.position(of: view.query) == index, "the index of a query is wrong at \(node.path)")
                precondition(!view.recipients.isEmpty, "a view without recipients is left at \(node.path)")
            }
            viewTotal += node.views.count
            if let details = node.details, details.hasRanges {
                let rangeTotal = details.ranges.reduce(0) { $0 + $1.windows.checkInvariants() }
                precondition(rangeTotal == node.views.count, "a window's range is missing at \(node.path)")
            }
            var count = 1
            node.forEachChild { count += check($1) }
            return count
        }
        let count = check(root)
        precondition(viewTotal == viewCount, "the number of views is wrong")
        precondition(isEmpty == root.isEmpty, "isEmpty is wrong")
        return count
    }
}

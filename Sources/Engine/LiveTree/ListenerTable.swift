import PandoTree

/// All listens of a database: a trie of the paths at or below which there are listens.
///
///     root ─ "rooms" ─ "a"   default listens: sessions, in the order in which they came
///                            filtered listens: one QueryView for each distinct query, with its window and
///                            its recipients (session, tag)
///
/// A write walks from the root to its path, where every listen gets the change, and then visits the listens
/// below, whose value may have changed. Its cost grows with the listens that get a push, not with all listens.
///
/// `@unchecked Sendable`: a tree of class instances, owned by one ``LiveTree`` and never handed out. A tree belongs
/// to one thread and cannot be copied, so no two threads use a node at the same time.
struct ListenerTable: @unchecked Sendable {
    /// One location. Invariant: it has listens, or some node below it has; except for the root.
    final class TrieNode {
        let path: Path
        var children: [Key: TrieNode] = [:]
        /// Sessions with a default listen here, where no default listen of the same session above covers it.
        var defaults = SessionSet()
        /// The number of covered default listens here. They keep the node in the trie.
        var coveredCount = 0
        /// One for each distinct query.
        var views: [QueryView] = []
        /// The index of each query in ``views``. Empty up to ``indexedCount`` views.
        private var positions: [Query: Int] = [:]
        static let indexedCount = 8
        /// The windows' ranges, by order. Empty up to ``indexedCount`` views: then each is asked.
        private(set) var ranges: [(order: ChildOrder, windows: WindowRanges)] = []
        private var lastNumber = 0

        // State of the write in progress; empty between writes.

        /// Children that the write is about to change, with their values before it.
        var preimages: [(key: Key, old: Node)] = []
        /// The index of this node's notice in the notices of the write.
        var noticeIndex: Int?

        init(path: Path) {
            self.path = path
        }

        var isEmpty: Bool {
            children.isEmpty && defaults.isEmpty && coveredCount == 0 && views.isEmpty
        }

        /// Whether a change of this location is pushed to a session. Covered listens do not count.
        var hasListeners: Bool { !defaults.isEmpty || !views.isEmpty }

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
        /// Of a live aggregate; nil for a window. Then ``window`` has no children, and is only asked for its range.
        var aggregate: AggregateState?
        /// The number of the scan that is under way for the children that the window lacks, or for all of it; nil for
        /// none.
        var scan: Int?
        /// A write had more windows to update than one step may. The window is what the recipients have been sent, writes
        /// pass it by, and the scan finds what it is by then.
        var isBehind = false
        /// Since the window is behind, recipients have come that were sent what it was then: newer than what the others have.
        var hasLateRecipients = false
        /// The window's range as ``TrieNode/ranges`` has it; nil where there are few windows.
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

    private(set) var root = TrieNode(path: .root)
    /// The number of views. While it is 0, writes need no preimages.
    private(set) var viewCount = 0

    init() {}

    /// Whether there are no listens. Stored, since every write reads it.
    private(set) var isEmpty = true

    // MARK: Adding and removing

    /// Adds a default listen that is not in the table. O(depth).
    mutating func addDefault(_ session: SessionID, at path: Path, isCovered: Bool) {
        let node = makeNode(at: path)
        if isCovered { node.coveredCount += 1 } else { node.defaults.insert(session) }
        isEmpty = false
    }

    /// Removes a default listen that is in the table. O(depth).
    mutating func removeDefault(_ session: SessionID, at path: Path, isCovered: Bool) {
        withNode(at: path) { node in
            if isCovered { node.coveredCount -= 1 } else { node.defaults.remove(session) }
            assert(node.coveredCount >= 0, "a covered listen was removed twice")
        }
        isEmpty = root.isEmpty
    }

    /// Marks a default listen as covered or as not covered. O(depth).
    mutating func setCovered(_ isCovered: Bool, _ session: SessionID, at path: Path) {
        let node = makeNode(at: path)
        if isCovered {
            node.defaults.remove(session)
            node.coveredCount += 1
        } else {
            node.coveredCount -= 1
            node.defaults.insert(session)
        }
        assert(node.coveredCount >= 0, "a listen was uncovered twice")
        isEmpty = root.isEmpty
    }

    /// Adds a filtered listen: a recipient of the query's view, which is made when it is the first. The view of a live
    /// aggregate has no value yet then: see ``QueryView/recompute(over:at:_:isFirst:)``.
    /// - Parameters:
    ///   - tree: The location's data, over which a new window is made.
    ///   - index: Its index in the query's order; nil where there is none.
    ///   - prepared: The window over that data, if it was made before.
    mutating func addView(
        _ key: FilteredListenKey, _ session: SessionID, over tree: Node, by index: KeptIndex? = nil,
        prepared: Window? = nil
    ) -> QueryView {
        let node = makeNode(at: key.path)
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
            node.append(view)
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
            guard let index = node.position(of: key.query) else { return }
            node.views[index].recipients.remove(Push.TaggedRecipient(session: session, tag: key.tag))
            guard node.views[index].recipients.isEmpty else { return }
            node.removeView(at: index)
            removedCount = 1
        }
        viewCount -= removedCount
        isEmpty = root.isEmpty
    }

    /// The window of a filtered listen; nil when there is none. O(depth).
    func window(of key: FilteredListenKey) -> Window? { view(of: key.query, at: key.path)?.window }

    /// What a filtered listen has been sent; nil when there is none, or nothing was sent. O(depth + window).
    func node(of key: FilteredListenKey) -> Node? { view(of: key.query, at: key.path)?.node }

    /// Whether the session has a default listen at the path, as far as the table knows: of covered listens it has only
    /// the number. For tests.
    func hasDefault(_ session: SessionID, at path: Path, isCovered: Bool) -> Bool {
        var node = root
        for key in path.keys {
            guard let next = node.children[key] else { return false }
            node = next
        }
        return isCovered ? node.coveredCount > 0 : node.defaults.contains(session)
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
            guard let next = node.children[key] else { return nil }
            node = next
        }
        return node
    }

    /// The locations of trie nodes strictly below the path, in no particular order; nil when there are more than
    /// `count`. O(depth + count).
    func paths(below path: Path, atMost count: Int) -> [Path]? {
        var node = root
        for key in path.keys {
            guard let next = node.children[key] else { return [] }
            node = next
        }
        var found: [Path] = []
        var remaining = [node]
        while let node = remaining.popLast() {
            guard found.count + remaining.count + node.children.count <= count else { return nil }
            for child in node.children.values {
                found.append(child.path)
                if !child.children.isEmpty { remaining.append(child) }
            }
        }
        return found
    }

    private func makeNode(at path: Path) -> TrieNode {
        var node = root
        for (depth, key) in path.keys.enumerated() {
            if let next = node.children[key] {
                node = next
            } else {
                let next = TrieNode(path: Path(Array(path.keys[...depth])))
                node.children[key] = next
                node = next
            }
        }
        return node
    }

    /// Changes the node at a path, if there is one, and removes nodes that became empty.
    private func withNode(at path: Path, _ body: (TrieNode) -> Void) {
        var ancestors = [root]
        for key in path.keys {
            guard let next = ancestors[ancestors.count - 1].children[key] else { return }
            ancestors.append(next)
        }
        body(ancestors[ancestors.count - 1])
        while ancestors.count > 1, let last = ancestors.popLast(), last.isEmpty {
            ancestors[ancestors.count - 1].children[path[ancestors.count - 1]] = nil
        }
    }

    // MARK: Invariants

    /// Counts the nodes of the trie, the root included; for tests. Traps when a node is left that nothing needs,
    /// or when a write left its state behind. O(nodes).
    func checkInvariants() -> Int {
        var viewTotal = 0
        func check(_ node: TrieNode) -> Int {
            precondition(node === root || !node.isEmpty, "an empty node is left at \(node.path)")
            precondition(
                node.preimages.isEmpty && node.noticeIndex == nil,
                "the state of a write is left at \(node.path)")
            precondition(node.coveredCount >= 0)
            for (index, view) in node.views.enumerated() {
                precondition(
                    node.position(of: view.query) == index, "the index of a query is wrong at \(node.path)")
                precondition(!view.recipients.isEmpty, "a view without recipients is left at \(node.path)")
            }
            viewTotal += node.views.count
            if node.hasRanges {
                let rangeTotal = node.ranges.reduce(0) { $0 + $1.windows.checkInvariants() }
                precondition(rangeTotal == node.views.count, "a window's range is missing at \(node.path)")
            }
            return node.children.values.reduce(1) { $0 + check($1) }
        }
        let count = check(root)
        precondition(viewTotal == viewCount, "the number of views is wrong")
        precondition(isEmpty == root.isEmpty, "isEmpty is wrong")
        return count
    }
}

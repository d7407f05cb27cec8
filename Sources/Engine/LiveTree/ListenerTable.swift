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
    private(set) var root = ListenerNode(key: nil)
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
    /// of a live aggregate has no value yet then: see ``QueryView/recompute(over:_:isFirst:hasTime:)``.
    /// - Parameters:
    ///   - tree: The location's data, over which a new window is made.
    ///   - index: Its index in the query's order; nil where there is none.
    ///   - prepared: The window over that data, if it was made before.
    ///   - sweep: The last one that a new view is up to date with (``QueryView/checkedSweep``).
    mutating func addView(
        _ key: FilteredListenKey, _ session: SessionID, over tree: Node, by index: KeptIndex? = nil,
        prepared: Window? = nil, sweep: Int = 0
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
            view = QueryView(query: key.query, at: key.path, window: window)
            view.checkedSweep = sweep
            node.changeDetails { $0.append(view) }
            viewCount += 1
        }
        view.add(Push.TaggedRecipient(session: session, tag: key.tag))
        isEmpty = false
        return view
    }

    /// Removes a filtered listen, and its view with the last recipient. O(depth).
    /// - Returns: The view, without recipients if it was removed; nil where there is none.
    mutating func removeFiltered(_ key: FilteredListenKey, _ session: SessionID) -> QueryView? {
        var left: QueryView?
        withNode(at: key.path) { node in
            guard let index = node.position(of: key.query), let view = node.details?.views[index] else {
                return
            }
            left = view
            view.remove(Push.TaggedRecipient(session: session, tag: key.tag))
            guard view.recipients.isEmpty else { return }
            node.changeDetails { $0.removeView(at: index) }
        }
        if left?.recipients.isEmpty == true { viewCount -= 1 }
        isEmpty = root.isEmpty
        return left
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

    /// The number of keys of the highest default listen of the session at the path or above it; nil where
    /// there is none. Each key is looked up once. O(bytes of the keys).
    func depthOfHighestDefault(of session: SessionID, along path: Path) -> Int? {
        var node = root
        for depth in 0...path.count {
            if node.hasDefault(of: session) { return depth }
            guard depth < path.count, let next = node.child(path[depth]) else { return nil }
            node = next
        }
        return nil
    }

    /// Whether the session has a default listen strictly above the path. O(bytes of the keys).
    func hasDefault(of session: SessionID, above path: Path) -> Bool {
        depthOfHighestDefault(of: session, along: path).map { $0 < path.count } ?? false
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

    func node(at path: Path) -> ListenerNode? {
        var node = root
        for key in path.keys {
            guard let next = node.child(key) else { return nil }
            node = next
        }
        return node
    }

    /// The nodes strictly below the path, in no particular order; nil when there are more than `count`.
    /// O(depth + count).
    private func nodes(below path: Path, atMost count: Int) -> [ListenerNode]? {
        guard let top = node(at: path), top.hasChildren else { return [] }
        var found: [ListenerNode] = []
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
    private func makeNode(for path: Path) -> ListenerNode {
        var node = root
        for key in path.keys { node = node.child(key) ?? node.makeChild(key) }
        if !node.hasListeners { node.path = path }
        return node
    }

    /// Changes the node at a path, if there is one, and removes nodes that became empty.
    private func withNode(at path: Path, _ body: (ListenerNode) -> Void) {
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

    /// Different live aggregates at one location; our own limit. A write there may change each of them.
    static let aggregateLimit = 256

    /// Whether a live aggregate may be added: it is there for another session, or there are few others.
    func hasSpace(forAggregate query: Query, at path: Path) -> Bool {
        guard let node = node(at: path), node.views.count >= Self.aggregateLimit else { return true }
        return node.position(of: query) != nil
            || node.views.count(where: { $0.aggregate != nil }) < Self.aggregateLimit
    }

    /// Whether a session may listen to a query under a tag: it does so already, or under few others.
    func hasSpace(forTag tag: Int64, of query: Query, at path: Path, in session: SessionID) -> Bool {
        guard let view = view(of: query, at: path),
            view.tagCount(of: session) >= SessionListens.tagLimit
        else { return true }
        return view.recipients.contains(Push.TaggedRecipient(session: session, tag: tag))
    }

    // MARK: Writes

    /// Before a change: stores, at each node with views on the way to it, the child that the change is in,
    /// with its value before. Costs nothing while there are no views.
    func capturePreimages(at path: Path, in tree: Node) {
        guard viewCount > 0 else { return }
        var node = root
        var value = tree
        for key in path.keys {
            let child = value[key]
            // A merge often names one child several times in a row.
            if let details = node.details, !details.views.isEmpty, details.preimages.last?.key != key {
                details.preimages.append((key, child))
            }
            guard let next = node.child(key) else { return }
            node = next
            value = child
        }
    }

    /// Whether all nodes below one may be visited. Stops counting where they may not. Recursion as deep as
    /// the trie.
    /// - Parameter left: Nodes that may still be visited; negative where there are more.
    func mayVisitAll(below node: ListenerNode, _ left: inout Int) -> Bool {
        left -= node.childCount
        guard left >= 0 else { return false }
        return node.allChildren { mayVisitAll(below: $0, &left) }
    }

    /// Calls `body` for each order of windows at a location and below, where a new value has many children.
    /// - Complexity: O(nodes of the trie there).
    func forEachOrder(
        at location: ListenerNode, over node: Node, ofMoreThan childCount: Int,
        _ body: (ChildOrder, Path, Node) -> Void
    ) {
        func visit(_ location: ListenerNode, _ node: Node) {
            if !location.views.isEmpty, node.children.count > childCount {
                for view in location.views { body(view.query.order, location.path, node) }
            }
            location.forEachChild { key, child in
                let node = node[key]
                if !node.isEmpty { visit(child, node) }
            }
        }
        visit(location, node)
    }

    /// Calls `body` for each order of windows at the locations from one to another below it, with their data.
    /// - Complexity: O(depth + listens at these locations).
    func forEachOrder(from base: Path, to path: Path, in tree: Node, _ body: (ChildOrder, Path, Node) -> Void)
    {
        guard viewCount > 0 else { return }
        var (location, node) = (root, tree)
        for depth in 0...path.count {
            if depth >= base.count {
                for view in location.views { body(view.query.order, location.path, node) }
            }
            guard depth < path.count, let next = location.child(path[depth]) else { return }
            (location, node) = (next, node[path[depth]])
        }
    }

    // MARK: Covered listens

    /// Before a node's listeners get a push: its covered listens that no other one of their session is above
    /// any more become ordinary ones. O(depth × covered listens here); nothing for a node that has none.
    /// - Parameters:
    ///   - path: The node's location, or one below it.
    ///   - depth: The keys of the node's location.
    func uncoverListens(of node: ListenerNode, along path: Path, _ depth: Int) {
        guard let details = node.details, !details.covered.isEmpty else { return }
        var above: [ListenerNode] = []
        var ancestor = root
        for index in 0..<depth {
            if ancestor.hasListeners { above.append(ancestor) }
            guard let next = ancestor.child(path[index]) else { break }
            ancestor = next
        }
        for session in details.covered.members {
            if !above.contains(where: { $0.hasDefault(of: session) }) { node.setCovered(false, session) }
        }
    }

    // MARK: Invariants

    /// Counts the nodes of the trie, the root included; for tests. Traps when a node is left that nothing
    /// needs, or when the state of a write is left. O(nodes).
    func checkInvariants() -> Int {
        var viewTotal = 0
        func check(_ node: ListenerNode) -> Int {
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
                view.checkInvariants()
            }
            viewTotal += node.views.count
            if let details = node.details, !details.finder.isEmpty {
                let rangeTotal = details.finder.checkInvariants()
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

import PandoTree

// Which pushes a write causes (realtime §6.4, §6.5, §7.5, §17.1).
//
//     at or above the change   every listen gets the change itself: one push, shared by all of them
//     below the change         a listen whose value differs gets its own new value. A large value is not compared: its
//                              listens get it even if it is equal
//     filtered                 the window is updated; the listen gets the difference, as one message
//
// Where very many listens are below a change, that part is left to `ListenRegistry+Pushes.swift`.
//
// A write of several changes stays one message for each listen, so that no client sees half of it. The
// changes here are those of `PushLocations.swift`: none names a priority, and none is at or below another.

/// Collects the pushes of one write. What it reads (the listener table, the data after the write, the
/// indexes) is given to each call and not stored: to store it would count its references for each write.
struct FanOut {
    /// Nodes of the listener trie that may still be visited below changes (``ListenerSearch/nodesLeft``).
    private var nodesLeft: Int
    var pushes: [Push] = []
    /// The location whose query views, and those below it, are left to a later sweep: the write touches more
    /// than it may mark. Nil for none.
    var sweptBase: Path?
    /// Changes with too many nodes below them; none of these was visited.
    private(set) var unvisited: [Alteration] = []

    /// - Parameter visitedNodeCount: The most nodes that are visited below the changes.
    init(visitingAtMost visitedNodeCount: Int) { nodesLeft = visitedNodeCount }

    /// Adds the pushes of one change that was just done. Order: the shared one, then windows from the root
    /// down, then the listens below in the order of keys.
    /// - Parameters:
    ///   - mergeBase: The location that the writer of a merge named; nil unless the write is a merge.
    ///   - old: The value at the change's path before.
    mutating func add(
        _ change: Change, mergeBase: Path?, old: Node, _ table: ListenerTable, _ tree: Node,
        _ updater: ViewUpdater
    ) {
        var shared = Push(body: .overwrite(change.path, change.node), mergeBase: mergeBase)
        var node = table.root
        var depth = 0
        while true {
            if node.details != nil {
                table.uncoverListens(of: node, along: change.path, depth)
                updateViews(
                    of: node, inside: [change], isWhole: depth == change.path.count, tree, updater)
            }
            if !node.defaults.isEmpty { shared.recipients.append(node.defaults.members) }
            guard depth < change.path.count, let next = node.child(change.path[depth]) else { break }
            node = next
            depth += 1
        }
        if !shared.recipients.isEmpty { addFirst(consume shared) }
        guard depth == change.path.count else { return }
        addListeners(below: node, at: change.path, old: old, new: change.node, table, tree, updater)
    }

    /// Adds the pushes of the listens strictly below a change whose value differs.
    mutating func addListeners(
        below node: ListenerNode, at path: Path, old: Node, new: Node, _ table: ListenerTable, _ tree: Node,
        _ updater: ViewUpdater
    ) {
        for (node, value) in listeners(below: node, at: path, old: old, new: new) {
            addWhole(Change(path: node.path, node: value), to: node, table, tree, updater)
        }
    }

    /// Adds the pushes of several changes that were just done at once. Order: the shared one, then by change,
    /// from the root down, then the listens below in the order of keys.
    /// - Parameters:
    ///   - olds: The values at each change's path before.
    ///   - base: The location that the writer named. A shared merge is relative to it.
    mutating func add(
        _ changes: [Change], olds: [Node], base: Path, _ table: ListenerTable, _ tree: Node,
        _ updater: ViewUpdater
    ) {
        precondition(changes.count == olds.count)
        var shared: Push?
        for notice in notices(of: changes, olds, table) {
            let node = notice.node
            if let newValue = notice.newValue {
                addWhole(newValue, to: node, table, tree, updater)
                continue
            }
            let getsAllChanges = notice.changes.count == changes.count
            // All listens that get every change, at or above the writer's base, share one message.
            let isShared = getsAllChanges && node.path.contains(base)
            if isShared, !node.defaults.isEmpty {
                shared = shared ?? Push(body: message(changes, base: base))
                shared?.recipients.append(node.defaults.members)
            }
            if isShared, node.views.isEmpty { continue }
            let inside = getsAllChanges ? changes : notice.changes.map { changes[$0] }
            if !isShared, !node.defaults.isEmpty {
                pushes.append(
                    Push(body: message(inside, base: node.path), recipients: [node.defaults.members]))
            }
            // Several changes are all below the node. A change at the node itself is its only one.
            updateViews(
                of: node, inside: inside, isWhole: inside[0].path.count == node.path.count, tree, updater)
        }
        if let shared { addFirst(shared) }
    }

    /// Adds the pushes of a node whose whole value is new, because of a change above it.
    private mutating func addWhole(
        _ value: Change, to node: ListenerNode, _ table: ListenerTable, _ tree: Node, _ updater: ViewUpdater
    ) {
        table.uncoverListens(of: node, along: value.path, value.path.count)
        if !node.defaults.isEmpty {
            pushes.append(
                Push(body: .overwrite(value.path, value.node), recipients: [node.defaults.members]))
        }
        updateViews(of: node, inside: [], isWhole: true, tree, updater)
    }

    /// Adds the push that comes before all others. Moved: mostly it is the only one.
    mutating func addFirst(_ push: consuming Push) {
        if pushes.isEmpty { pushes = [consume push] } else { pushes.insert(consume push, at: 0) }
    }

    /// One change is an overwrite; several are one merge (§17.1).
    func message(_ changes: [Change], base: Path) -> Push.Body {
        if changes.count == 1 { return .overwrite(changes[0].path, changes[0].node) }
        return .merge(base, changes.map { Push.Entry(path: base.relative($0.path), node: $0.node) })
    }

    // MARK: Finding the listens

    /// What a write of several changes does to one node with listeners.
    private struct Notice {
        let node: ListenerNode
        /// Indexes of the changes at or below the node.
        var changes: [Int] = []
        /// The node's own new value, where a change above it altered that. Then ``changes`` is empty.
        var newValue: Change?
    }

    private mutating func notices(
        of changes: [Change], _ olds: [Node], _ table: ListenerTable
    ) -> [Notice] {
        var notices: [Notice] = []
        func index(of node: ListenerNode) -> Int {
            if node.noticeIndex >= 0 { return Int(node.noticeIndex) }
            node.noticeIndex = Int32(notices.count)
            notices.append(Notice(node: node))
            return notices.count - 1
        }
        for (number, change) in changes.enumerated() {
            var node = table.root
            var depth = 0
            while true {
                if node.hasListeners {
                    table.uncoverListens(of: node, along: change.path, depth)
                    notices[index(of: node)].changes.append(number)
                }
                guard depth < change.path.count, let next = node.child(change.path[depth]) else { break }
                node = next
                depth += 1
            }
            guard depth == change.path.count else { continue }
            let below = listeners(below: node, at: change.path, old: olds[number], new: change.node)
            for (node, value) in below {
                notices[index(of: node)].newValue = Change(path: node.path, node: value)
            }
        }
        for notice in notices {
            notice.node.noticeIndex = -1
            assert(notice.newValue == nil || notice.changes.isEmpty, "one change is at or below another")
        }
        return notices
    }

    /// The nodes strictly below `node` that have listeners and whose value has changed, with that value, in
    /// the order of keys. Large equal values are not compared to the end, and count as changed. Where there
    /// are too many nodes: none, and the change is noted in ``unvisited``.
    private mutating func listeners(
        below node: ListenerNode, at path: Path, old: Node, new: Node
    ) -> [(ListenerNode, Node)] {
        guard node.hasChildren else { return [] }
        var search = ListenerSearch(visitingAtMost: nodesLeft)
        let isComplete = search.findListeners(below: node, old: old, new: new, path.keyByteCount)
        nodesLeft = search.nodesLeft
        guard isComplete else {
            unvisited.append(Alteration(path: path, old: old, new: new))
            return []
        }
        return search.found
    }
}

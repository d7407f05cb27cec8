import PandoTree

extension FanOut {
    /// Adds the pushes of changes that were just done as one. Listens at their base and above share one push.
    /// A listen between base and location gets the changes relative to itself, one below the location its new
    /// value. Order: as for one change.
    /// - Parameters:
    ///   - result: What they have made of the location above all of them.
    ///   - old: The data of this location before.
    /// - Complexity: O(listens that get a push), and O(changes) where there are listens between base and
    ///   location.
    mutating func add(
        _ joined: JoinedChanges, _ result: JoinedChanges.Result, old: Node, _ table: ListenerTable,
        _ tree: Node, _ indexes: IndexCatalog
    ) {
        let change = result.change
        var shared = Push(body: joined.body)
        if joined.pushed.count == 1 { shared.mergeBase = joined.base }
        var node = table.root
        var depth = 0
        while true {
            table.settleCovered(of: node, along: change.path, depth)
            if !node.defaults.isEmpty {
                if depth <= joined.base.count {
                    shared.recipients.append(node.defaults.members)
                } else {
                    pushes.append(
                        Push(
                            body: message(joined.pushed, base: node.path),
                            recipients: [node.defaults.members]))
                }
            }
            if node.details != nil {
                updateViews(
                    of: node, inside: [change], afterRemovals: result.afterRemovals,
                    isWhole: depth == change.path.count, tree, indexes)
            }
            guard depth < change.path.count, let next = node.child(change.path[depth]) else { break }
            node = next
            depth += 1
        }
        if depth == change.path.count {
            addListeners(below: node, at: change.path, old: old, new: change.node, table, tree, indexes)
        }
        if !shared.recipients.isEmpty { addFirst(shared) }
    }
}

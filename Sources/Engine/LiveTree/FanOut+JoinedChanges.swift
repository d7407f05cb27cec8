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
        _ tree: Node, _ updater: ViewUpdater
    ) {
        let change = result.change
        var shared = Push(body: joined.body)
        if joined.pushed.count == 1 { shared.mergeBase = joined.base }
        var node = table.root
        var depth = 0
        while true {
            table.uncoverListens(of: node, along: change.path, depth)
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
                let isWhole = depth == change.path.count
                updateViews(
                    of: node, inside: [change], afterRemovals: result.afterRemovals, isWhole: isWhole,
                    amongOnly: isWhole ? Self.alteredChildren(by: result, old, of: node) : nil, tree, updater)
            }
            guard depth < change.path.count, let next = node.child(change.path[depth]) else { break }
            node = next
            depth += 1
        }
        if depth == change.path.count {
            addListeners(below: node, at: change.path, old: old, new: change.node, table, tree, updater)
        }
        if !shared.recipients.isEmpty { addFirst(shared) }
    }

    /// Values of children, by orders of windows, that are looked at to find the windows that changes of many
    /// children touch: some milliseconds.
    private static let examinedValueLimit = 1 << 13

    /// The children that joined changes may have altered at their location. Nil where these are so many that
    /// all of its windows are updated instead.
    private static func alteredChildren(
        by result: JoinedChanges.Result, _ old: Node, of node: ListenerNode
    ) -> [ChildChange]? {
        guard let details = node.details, !details.views.isEmpty else { return nil }
        let orderCount =
            details.finder.isEmpty ? Set(details.views.map(\.query.order)).count : details.finder.orderCount
        guard result.keys.count <= examinedValueLimit / orderCount else { return nil }
        return result.keys.map { ChildChange(key: $0, old: old[$0], new: result.change.node[$0]) }
    }
}

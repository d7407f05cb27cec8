import PandoTree

// Indexes that are prepared for a write, of the data that it brings: for which orders, and which one is used.

extension IndexCatalog {
    /// Calls `body` for each order of indexes at a location and below, where a new value has many children.
    /// - Complexity: O(indexes there).
    func forEachOrder(
        at path: Path, over node: Node, ofMoreThan childCount: Int, _ body: (ChildOrder, Path, Node) -> Void
    ) {
        guard hasIndexes, let location = locations[path] else { return }
        func visit(_ location: IndexLocation, _ node: Node) {
            if node.children.count > childCount {
                for slot in location.slots { body(slot.order, location.path, node) }
            }
            for (key, child) in location.children {
                let node = node[key]
                if !node.isEmpty { visit(child, node) }
            }
        }
        visit(location, node)
    }

    /// Calls `body` for each order of indexes at the locations from one to another below it, with their data.
    /// - Complexity: O(depth + indexes at these locations).
    func forEachOrder(from base: Path, to path: Path, in tree: Node, _ body: (ChildOrder, Path, Node) -> Void)
    {
        guard hasIndexes else { return }
        var (location, node) = (locations.root, tree)
        for depth in 0...path.count {
            if depth >= base.count {
                for slot in location.slots { body(slot.order, location.path, node) }
            }
            guard depth < path.count, let next = location.children[path[depth]] else { return }
            (location, node) = (next, node[path[depth]])
        }
    }

    /// The index of a location's new data that was made before the write; nil where there is none.
    /// - Complexity: O(changes between the two × log n), bounded: server values are in the written data only.
    func preparedIndex(_ order: ChildOrder, at path: Path, over node: Node) -> KeptIndex? {
        guard let found = prepared.first(where: { $0.index.order == order && $0.path == path }) else {
            return nil
        }
        return found.index.following(found.node, to: node, atMost: Self.preparedDifferenceLimit)
    }

    private static let preparedDifferenceLimit = 8192

    /// The index of a location after a write that has replaced it, for a window. O(depth), and with a
    /// prepared index O(changes × log n).
    func indexAfterReplacement(_ order: ChildOrder, at path: Path, over node: Node) -> KeptIndex? {
        readyIndex(order, at: path) ?? (prepared.isEmpty ? nil : preparedIndex(order, at: path, over: node))
    }
}

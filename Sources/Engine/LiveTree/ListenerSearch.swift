import PandoTree

/// Finds the nodes of the listener trie strictly below a change whose value has changed, with that value, in
/// the order of keys.
///
/// At each location, the search visits the nodes below it or the children of the data, before and after, as
/// one or the other are fewer: where there is no data, no listen has changed. So a small value in place of
/// another takes no longer above fifty thousand listens than above one.
struct ListenerSearch {
    /// Nodes that may still be visited; negative where there are more. Each ``keyByteCountPerNode`` bytes of
    /// a key, and of the path of a listener, count as a further node.
    private(set) var nodesLeft: Int
    /// Nodes of the data that may still be compared.
    private var comparedLeft = Node.comparedNodeLimit
    private(set) var found: [(ListenerNode, Node)] = []

    /// Bytes of keys that take about as long as to visit a node: to look one up, and to print it.
    private static let keyByteCountPerNode = 64

    init(visitingAtMost nodeCount: Int) { nodesLeft = nodeCount }

    private struct Differing {
        let key: Key
        let node: ListenerNode
        let before: Node
        let after: Node
    }

    /// Adds the nodes below one to ``found``. Large equal values are not compared to the end, and count as
    /// changed. Recursion as deep as the trie: at most ``Limits/pathDepth``.
    /// - Parameter pathByteCount: Bytes of the keys from the root to the node.
    /// - Returns: false where there are more nodes than may be visited.
    mutating func findListeners(
        below node: ListenerNode, old: Node, new: Node, _ pathByteCount: Int
    ) -> Bool {
        guard node.hasChildren else { return true }
        let (olds, news) = (old.children, new.children)
        let childCount = olds.count + news.count
        guard childCount > 0 else { return true }
        nodesLeft -= min(childCount, node.childCount)
        guard nodesLeft >= 0 else { return false }
        var differing: [Differing] = []
        if node.childCount <= childCount {
            node.forEachChild { compare($0, $1, olds, news, &differing) }
        } else {
            for child in news.entries {
                if let node = node.child(child.key) { compare(child.key, node, olds, news, &differing) }
            }
            for child in olds.entries where news[child.key].isEmpty {
                if let node = node.child(child.key) { compare(child.key, node, olds, news, &differing) }
            }
        }
        guard nodesLeft >= 0 else { return false }
        // The order of a hash table would differ from machine to machine.
        if differing.count > 1 { differing.sort { $0.key < $1.key } }
        for child in differing {
            let pathByteCount = pathByteCount + child.key.utf8Count
            if child.node.hasListeners {
                nodesLeft -= pathByteCount / Self.keyByteCountPerNode
                found.append((child.node, child.after))
            }
            guard nodesLeft >= 0,
                findListeners(below: child.node, old: child.before, new: child.after, pathByteCount)
            else { return false }
        }
        return true
    }

    /// Adds a node below that differs. Does nothing more where there are more nodes than may be visited.
    private mutating func compare(
        _ key: Key, _ node: ListenerNode, _ olds: Children, _ news: Children, _ differing: inout [Differing]
    ) {
        guard nodesLeft >= 0 else { return }
        nodesLeft -= key.utf8Count / Self.keyByteCountPerNode
        let (before, after) = (olds[key], news[key])
        guard !before.isEqual(to: after, visiting: &comparedLeft) else { return }
        differing.append(Differing(key: key, node: node, before: before, after: after))
    }
}

import PandoTree

/// The hash of the snapshot that was hashed last: many clients that reconnect to one large location need the
/// same.
package struct HashMemo {
    private var last: (node: Node, hash: String)?

    package init() {}

    /// The simple hash of a node. O(size), unless it is the snapshot that was hashed last.
    package mutating func hash(of node: Node) -> String {
        if let last, last.node.isSameSnapshot(as: node) { return last.hash }
        let hash = node.hash
        last = (node, hash)
        return hash
    }
}

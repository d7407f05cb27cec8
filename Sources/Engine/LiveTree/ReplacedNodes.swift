import PandoTree

/// Large nodes that commits have taken out of the tree. To free a million children takes a tenth of a second,
/// so the caller may have another thread release them.
struct ReplacedNodes: Sendable {
    private var nodes: [Node] = []

    /// A node that prints to more bytes is not freed at once: it takes some twenty microseconds.
    private static let inlineFreeByteCount = 16 << 10

    /// Stores a node that is no longer in the tree, if it is large.
    mutating func store(_ node: consuming Node) {
        // Most nodes are leaves. A leaf is freed at once, whatever its size.
        switch node {
        case .object, .prioritized:
            if node.isHeavier(than: Self.inlineFreeByteCount) { nodes.append(node) }
        case .empty, .boolean, .integer, .double, .string: break
        }
    }

    /// Removes and returns all nodes; nil for none.
    mutating func removeAll() -> [Node]? { nodes.isEmpty ? nil : exchange(&nodes, with: []) }
}

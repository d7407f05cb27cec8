import PandoTree

/// Nodes in the form that the log has them in, printed ahead of the command that writes them: a million nodes
/// print in forty milliseconds, for which a host need not keep others waiting. A node is found by its
/// snapshot (``Node/isSameSnapshot(as:)``), so what turned out differently is printed anew.
package struct PrintedNodes: Sendable {
    /// In the order of the writes; each is looked for behind the one found before it.
    private var nodes: [(node: Node, json: [UInt8])] = []
    private var next = 0
    /// Nodes behind the last one that was found.
    package var unusedCount: Int { nodes.count - next }

    /// Printed bytes from which on it is worth it to print a node ahead: what prints in a tenth of a
    /// millisecond.
    package static let leastByteCount = 32 << 10

    /// Prints those that ``isLarge(_:)``. O(size of all).
    package init(_ nodes: [Node]) {
        for node in nodes where Self.isLarge(node) {
            var json: [UInt8] = []
            json.append(json: node)
            self.nodes.append((node, json))
        }
    }

    /// Whether a node is printed ahead. Of leaves only strings are large, and those print within
    /// milliseconds.
    package static func isLarge(_ node: Node) -> Bool { !node.isLeaf && node.isHeavier(than: leastByteCount) }

    /// How many nodes of the writes may be left out between two that are asked for, since they change
    /// nothing.
    private static let omissionLimit = 64

    /// The text of a node; nil when it is not among these, or was asked for out of order. O(1).
    mutating func json(of node: Node) -> [UInt8]? {
        let end = min(next + Self.omissionLimit + 1, nodes.count)
        guard let index = (next..<end).first(where: { nodes[$0].node.isSameSnapshot(as: node) }) else {
            return nil
        }
        next = index + 1
        return nodes[index].json
    }
}

import PandoTree

/// Nodes as the journal stores them, printed before the command that writes them is executed: a million nodes
/// print in forty milliseconds, which another thread can spend. A node is found by its snapshot
/// (``Node/isSameSnapshot(as:)``), so a value that the command resolved differently is printed anew.
package struct PrintedNodes: Sendable {
    /// In the order of the writes. Each search begins behind the node found before.
    private var nodes: [(node: Node, json: [UInt8])] = []
    private var next = 0
    /// The whole record of a merge of many paths.
    private var record: [UInt8]?
    /// Nodes behind the last one that was found.
    package var unusedCount: Int { nodes.count - next }

    /// A node that prints to more bytes is printed ahead: it takes a tenth of a millisecond.
    package static let leastByteCount = 32 << 10

    /// Prints those nodes that are large. O(size of all).
    package init(_ nodes: [Node]) {
        for node in nodes where Self.isLarge(node) {
            var json: [UInt8] = []
            json.append(json: node)
            self.nodes.append((node, json))
        }
    }

    /// The whole record of a write.
    init(record: [UInt8]) { self.record = record }

    /// Moves the record out; nil where there is none.
    mutating func takeRecord() -> [UInt8]? { record.take() }

    /// Whether a node is printed ahead. No leaf is: the largest string prints within milliseconds.
    package static func isLarge(_ node: Node) -> Bool { !node.isLeaf && node.isHeavier(than: leastByteCount) }

    /// Nodes that a search may skip, because their writes changed nothing.
    private static let omissionLimit = 64

    /// The printed text of a node; nil when it was not printed ahead, or the search has passed it. O(1).
    mutating func json(of node: Node) -> [UInt8]? {
        let end = min(next + Self.omissionLimit + 1, nodes.count)
        guard let index = (next..<end).first(where: { nodes[$0].node.isSameSnapshot(as: node) }) else {
            return nil
        }
        next = index + 1
        return nodes[index].json
    }
}

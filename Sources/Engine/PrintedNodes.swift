import PandoBytes
import PandoTree

/// Nodes as the journal stores them, printed before the command that writes them is executed: a million nodes
/// print in forty milliseconds, which another thread can spend. A node is found by its snapshot
/// (``Node/isSameSnapshot(as:)``), so a value that the command resolved differently is printed anew.
///
/// What was printed is not copied into the record either, but inserted there (``takeInsertions()``).
package struct PrintedNodes: Sendable {
    /// In the order of the writes. Each search begins after the node found before.
    private var nodes: [(node: Node, json: [UInt8])] = []
    private var next = 0
    /// The whole record of a merge of many paths.
    private var record: [UInt8]?
    /// What belongs into the record that is being appended.
    private var insertions: [ByteInsertion] = []
    /// Nodes after the last one that was found.
    package var unusedCount: Int { nodes.count - next }

    /// Lighter nodes are not printed ahead, and not searched.
    private let leastByteCount: Int

    /// The least weight of a node that is printed ahead: it takes a tenth of a millisecond. Many lighter ones
    /// of a large request would take long together.
    /// - Parameter requestByteCount: Bytes of the whole request.
    package static func leastByteCount(ofRequestWith requestByteCount: Int = 0) -> Int {
        requestByteCount > 1 << 20 ? 1 << 10 : 32 << 10
    }

    /// Prints the nodes that have at least this weight. O(size of all).
    package init(_ nodes: [Node], heavierThan leastByteCount: Int = leastByteCount()) {
        self.leastByteCount = leastByteCount
        for node in nodes where node.isHeavier(than: leastByteCount) {
            var json: [UInt8] = []
            json.append(json: node)
            self.nodes.append((node, json))
        }
    }

    /// The whole record of a write.
    init(record: [UInt8]) {
        leastByteCount = Self.leastByteCount()
        self.record = record
    }

    /// Inserts the whole record into a payload that has `offset` bytes so far.
    /// - Returns: Whether there is one.
    mutating func insertRecord(at offset: Int) -> Bool {
        guard let record = record.take() else { return false }
        insertions.append(ByteInsertion(record, at: offset))
        return true
    }

    /// What belongs into the payload of the record that was appended last, by offset; empty for most records.
    package mutating func takeInsertions() -> [ByteInsertion] {
        defer { insertions = [] }
        return insertions
    }

    /// Inserts the printed text of a node into a payload that has `offset` bytes so far.
    /// - Returns: How many bytes it has; nil when it was not printed ahead, or the search has passed it.
    /// - Complexity: O(nodes that are passed), and less than what printing it takes.
    mutating func insert(_ node: Node, at offset: Int) -> Int? {
        guard next < nodes.count, node.isHeavier(than: leastByteCount),
            let index = nodes[next...].firstIndex(where: { $0.node.isSameSnapshot(as: node) })
        else { return nil }
        next = index + 1
        let json = nodes[index].json
        nodes[index].json = []
        insertions.append(ByteInsertion(json, at: offset))
        return json.count
    }
}

/// Nodes that may still be read.
struct NodeBudget {
    var left: Int

    /// - Throws: ``MalformedJSON/tooManyNodes(byteOffset:)`` when fewer are left.
    mutating func charge(_ nodeCount: Int, at byteOffset: Int) throws(MalformedJSON) {
        left -= nodeCount
        guard left >= 0 else { throw .tooManyNodes(byteOffset: byteOffset) }
    }
}

import PandoTree

extension WritePreparation {
    /// Rules and indexes for a node take about this many times as long as printing it.
    private static let costRelativeToPrinting = 16

    /// Whether the preparation takes longer than to print so many bytes, or to visit so many children, about.
    /// - Complexity: O(`byteLimit`), at most.
    package func isHeavier(than byteLimit: Int, _ childLimit: Int) -> Bool {
        // The data that is replaced must be measured up to this limit.
        if let limit = request.replacedByteLimit, limit > byteLimit { return true }
        var left = byteLimit / Self.costRelativeToPrinting
        for write in request.writes {
            left -= write.target.path.keys.reduce(4) { $0 + $1.utf8Count + 4 }
            if left < 0 || write.draft.node.weigh(&left) { return true }
        }
        return builds.contains { $0.node.children.count > childLimit }
    }
}

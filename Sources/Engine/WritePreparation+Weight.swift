import PandoTree

extension WritePreparation {
    /// How many times as long it takes to evaluate rules for a node, and to order it, as to print it.
    private static let costOfPrinting = 16

    /// Whether the preparation takes longer than to print so many bytes, or to visit so many children, about.
    /// - Complexity: O(`byteLimit`), at most.
    package func isHeavier(than byteLimit: Int, _ childLimit: Int) -> Bool {
        if let replacedByteLimit, replacedByteLimit > byteLimit { return true }
        var left = byteLimit / Self.costOfPrinting
        for write in writes {
            left -= write.target.path.keys.reduce(4) { $0 + $1.utf8Count + 4 }
            if left < 0 || write.draft.node.weigh(&left) { return true }
        }
        return builds.contains { $0.node.children.count > childLimit }
    }
}

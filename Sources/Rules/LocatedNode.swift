import PandoTree

/// A node that a rule reads, and where it is.
struct LocatedNode {
    var node: Node
    var isAfter = false
    /// Nil where that is not known, or so deep that no data can be there, before and after any write.
    var keys: [Key]?

    mutating func append(_ key: Key) {
        guard let count = keys?.count else { return }
        if count <= Limits.pathDepth { keys?.append(key) } else { keys = nil }
    }
}

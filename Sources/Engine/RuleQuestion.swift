import PandoTree

/// The access that a command needs.
package enum RuleQuestion: Sendable {
    case read(Path, Query?)
    /// - after: The tree as the write would leave it.
    case write([Path], after: Node)
}

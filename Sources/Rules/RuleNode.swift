import PandoBytes
import PandoTree

/// What the rules say about one location, and by name or wildcard about those below it (rules
/// §1.2).
///
/// Always true: no deeper than ``RulesLimits/pathDepth`` from the root, and no wildcard's name occurs twice
/// on the way to it, so walking down or binding names needs no further care.
package final class RuleNode: Sendable {
    package struct Wildcard: Sendable {
        /// With its `$`: how expressions spell it.
        package let name: Text
        package let node: RuleNode
    }

    package let read: RuleExpression?
    package let write: RuleExpression?
    package let validate: RuleExpression?
    /// What children here may be ordered by besides key and priority: `.value` and `.child` only.
    package let indexes: Set<Index>
    package let children: [Key: RuleNode]
    /// The same in the order of their keys, for whoever visits all.
    let childrenInOrder: [(key: Key, node: RuleNode)]
    package let wildcard: Wildcard?
    /// There is a `.validate` below this node.
    let hasValidateBelow: Bool
    /// False when no `.validate` below this node can refuse anything, whatever the data.
    package let mayRefuseBelow: Bool

    init(_ parts: Parts) {
        read = parts.read
        write = parts.write
        validate = parts.validate
        indexes = parts.indexes
        children = parts.children
        childrenInOrder = parts.children.map { ($0.key, $0.value) }.sorted { $0.key < $1.key }
        wildcard = parts.wildcard
        hasValidateBelow =
            parts.wildcard?.node.hasValidate ?? false || parts.children.values.contains { $0.hasValidate }
        mayRefuseBelow =
            parts.wildcard?.node.mayRefuse ?? false || parts.children.values.contains { $0.mayRefuse }
    }

    /// False when neither this node's `.validate` nor one below it can refuse anything.
    package var mayRefuse: Bool {
        mayRefuseBelow || validate.map { $0.constant != true } ?? false
    }

    /// This node or one below it has a `.validate`.
    var hasValidate: Bool { validate != nil || hasValidateBelow }

    /// The rules for a child: those of its name, or else the wildcard's. A literal child hides the wildcard
    /// completely (§2.1). O(1).
    package subscript(key: Key) -> RuleNode? {
        children[key] ?? wildcard?.node
    }

    /// A node as it is being read.
    struct Parts {
        var read: RuleExpression?
        var write: RuleExpression?
        var validate: RuleExpression?
        var indexes: Set<Index> = []
        var children: [Key: RuleNode] = [:]
        var wildcard: Wildcard?
    }
}

/// The value of a `.read`, `.write` or `.validate`.
package struct RuleExpression: Sendable {
    /// The expression, with the string's escapes resolved; `true` or `false` for a JSON boolean.
    package let text: Text
    /// The bytes of the source it stands in, the quotes included. ``Ruleset/position(ofText:in:)`` maps one
    /// to the other.
    package let literal: Range<Int>
    /// What it says when it says the same of everything; nil for what has to be evaluated.
    package let constant: Bool?
    /// What evaluates it; nil for a constant.
    let program: RuleProgram?
    /// Its place among the rules of the document.
    let number: Int
}

import PandoBytes
import PandoTree

/// The rules for one location, and by key or wildcard for the locations below it (rules §1.2).
///
/// Always true: no deeper than ``RulesLimits/pathDepth`` from the root, and no name of a wildcard occurs
/// twice on the path to it.
package final class RuleNode: Sendable {
    package struct Wildcard: Sendable {
        /// With its `$`, as in expressions.
        package let name: Text
        package let node: RuleNode
    }

    package let read: RuleExpression?
    package let write: RuleExpression?
    package let validate: RuleExpression?
    /// The indexes of the children here, besides key and priority: only `.value`, `.child` and `.compound`.
    package let indexes: Set<ChildOrder>
    package let children: [Key: RuleNode]
    /// The same in the order of keys.
    let childrenInOrder: [(key: Key, node: RuleNode)]
    package let wildcard: Wildcard?
    /// Whether there is a `.validate` below this node.
    let hasValidateBelow: Bool
    /// False when no `.validate` below this node can refuse anything, whatever the data.
    package let mayRefuseBelow: Bool
    /// Whether a rule of this node or below it searches or changes texts, which takes as long as they are.
    package let searchesTexts: Bool

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
        searchesTexts =
            [parts.read, parts.write, parts.validate].contains { $0?.program?.searchesTexts ?? false }
            || parts.wildcard?.node.searchesTexts ?? false
            || parts.children.values.contains { $0.searchesTexts }
    }

    /// False when neither this node's `.validate` nor one below it can refuse anything.
    package var mayRefuse: Bool {
        mayRefuseBelow || validate.map { $0.constant != true } ?? false
    }

    /// This node or one below it has a `.validate`.
    var hasValidate: Bool { validate != nil || hasValidateBelow }

    /// The rules for a child: those for its key, or else those of the wildcard. A literal child hides the
    /// wildcard completely (§2.1). O(1).
    package subscript(key: Key) -> RuleNode? {
        children[key] ?? wildcard?.node
    }

    /// The parts of a node that is being loaded.
    struct Parts {
        var read: RuleExpression?
        var write: RuleExpression?
        var validate: RuleExpression?
        var indexes: Set<ChildOrder> = []
        var children: [Key: RuleNode] = [:]
        var wildcard: Wildcard?
    }
}

/// The value of a `.read`, `.write` or `.validate`.
package struct RuleExpression: Sendable {
    /// The expression, with escapes resolved; `true` or `false` for a JSON boolean.
    package let text: Text
    /// The range in the source, with the quotes. ``Ruleset/position(ofText:in:)`` maps offsets of the text to
    /// it.
    package let literal: Range<Int>
    /// The value of a constant; nil for an expression that has to be evaluated.
    package let constant: Bool?
    /// The compiled expression; nil for a constant.
    let program: RuleProgram?
    /// The index among the rules of the document.
    let number: Int
}

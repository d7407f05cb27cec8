import PandoBytes
import PandoTree

/// What the rules say about one location, and by name or wildcard about those below it (security-rules.md
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
    package let wildcard: Wildcard?
    /// False when no `.validate` below this node can refuse anything, whatever the data.
    package let mayRefuseBelow: Bool

    init(_ parts: Parts) {
        read = parts.read
        write = parts.write
        validate = parts.validate
        indexes = parts.indexes
        children = parts.children
        wildcard = parts.wildcard
        mayRefuseBelow =
            parts.wildcard?.node.mayRefuse ?? false || parts.children.values.contains { $0.mayRefuse }
    }

    /// False when neither this node's `.validate` nor one below it can refuse anything.
    package var mayRefuse: Bool {
        mayRefuseBelow || validate.map { $0.constant != true } ?? false
    }

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

/// The value of a `.read`, `.write` or `.validate`, as it was written.
package struct RuleExpression: Sendable {
    /// The expression, with the string's escapes resolved; `true` or `false` for a JSON boolean.
    package let text: Text
    /// The bytes of the source it stands in, the quotes included. ``Ruleset/position(ofText:in:)`` maps one
    /// to the other.
    package let literal: Range<Int>
    /// What it says when it is nothing but `true` or `false`; nil for what has to be evaluated.
    package let constant: Bool?

    init(text: Text, literal: Range<Int>) {
        self.text = text
        self.literal = literal
        let words = text.string.utf8.split { $0 == 0x20 || (0x09...0x0D).contains($0) }
        switch words.count == 1 ? String(Substring(words[0])) : nil {
        case "true": constant = true
        case "false": constant = false
        default: constant = nil
        }
    }
}

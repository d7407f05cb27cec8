import PandoBytes
import PandoTree

/// The rules of one database: the uploaded document, and its parsed rules.
///
/// A value of two references, which never changes.
package struct Ruleset: Sendable {
    package let source: RulesSource
    package let root: RuleNode

    /// Loads a rules document.
    /// - Throws: ``InvalidRules`` with every problem that was found.
    /// - Complexity: O(bytes); at most ``RulesLimits/sourceByteCount`` of them.
    package init(loading bytes: [UInt8]) throws(InvalidRules) {
        try self.init(RulesSource(bytes))
    }

    /// Loads a rules document.
    /// - Throws: ``InvalidRules`` with every problem that was found.
    /// - Complexity: O(bytes).
    package init(_ source: RulesSource) throws(InvalidRules) {
        self.source = source
        root = try RulesLoader.load(source)
    }

    /// Calls `body` with the rules for each location from the root to `path`, and the number of keys above
    /// it, until there are no more rules or `body` returns false. O(depth).
    func walk(to path: Path, _ body: (RuleNode, Int) -> Bool) {
        var node = root
        var level = 0
        while body(node, level), level < path.count, let next = node[path[level]] {
            node = next
            level += 1
        }
    }

    /// The rules for this location; nil when there are none. O(depth).
    package func node(at path: Path) -> RuleNode? {
        var result: RuleNode?
        walk(to: path) { node, level in
            if level == path.count { result = node }
            return true
        }
        return result
    }

    /// Whether the children at `path` may be queried in this order. Keys and priorities need no index.
    /// Children and values need an `.indexOn` at this location, spelled literally or with wildcards (§10,
    /// rest §5.1). O(depth).
    package func hasIndex(_ order: ChildOrder, at path: Path) -> Bool {
        switch order {
        case .key, .priority: true
        case .value, .child, .compound: node(at: path)?.indexes.contains(order) ?? false
        }
    }

    /// The position in the source of byte `utf8Offset` of a rule's text. O(source).
    package func position(ofText utf8Offset: Int, in expression: RuleExpression) -> SourcePosition {
        source.position(at: source.offset(ofText: utf8Offset, in: expression.literal))
    }
}

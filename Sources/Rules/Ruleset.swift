import PandoBytes
import PandoTree

/// The rules of one database: the document as it was uploaded, and what it says.
///
/// A value of two references: a copy costs nothing, and a loaded ruleset never changes.
package struct Ruleset: Sendable {
    package let source: RulesSource
    package let root: RuleNode

    /// Reads a rules document.
    /// - Throws: ``InvalidRules`` with every problem that can be found.
    /// - Complexity: O(bytes); at most ``RulesLimits/sourceByteCount`` of them.
    package init(loading bytes: [UInt8]) throws(InvalidRules) {
        try self.init(RulesSource(bytes))
    }

    package init(_ source: RulesSource) throws(InvalidRules) {
        self.source = source
        root = try RulesLoader.load(source)
    }

    /// Visits the rules for each location from the root to `path`, with how many keys lie above it, until
    /// they end or `body` says false. O(depth).
    func walk(to path: Path, _ body: (RuleNode, Int) -> Bool) {
        var node = root
        var level = 0
        while body(node, level), level < path.count, let next = node[path[level]] {
            node = next
            level += 1
        }
    }

    /// The rules for exactly this location, if there are any.
    package func node(at path: Path) -> RuleNode? {
        var result: RuleNode?
        walk(to: path) { node, level in
            if level == path.count { result = node }
            return true
        }
        return result
    }

    /// May the children at `path` be queried in this order? Keys and priorities need no index; children and
    /// values need an `.indexOn` at that very location, written out or under wildcards (§10, rest
    /// §5.1).
    package func hasIndex(_ index: Index, at path: Path) -> Bool {
        switch index {
        case .key, .priority: true
        case .value, .child: node(at: path)?.indexes.contains(index) ?? false
        }
    }

    /// The place in the source of byte `utf8Offset` of a rule's text: where a problem in it is reported.
    package func position(ofText utf8Offset: Int, in expression: RuleExpression) -> SourcePosition {
        source.position(at: source.offset(ofText: utf8Offset, in: expression.literal))
    }
}

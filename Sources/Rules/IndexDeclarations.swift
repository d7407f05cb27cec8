import PandoTree

/// The indexes that rules declare with `.indexOn` (rules §10), without the rules beside them: for a location,
/// and by key or wildcard for the locations below it.
package final class IndexDeclarations: Sendable {
    /// The orders of the children here. Only `.value`, `.child` and `.compound`.
    package let orders: Set<ChildOrder>
    private let children: [Key: IndexDeclarations]
    private let wildcard: IndexDeclarations?

    /// The declarations of a database's rules; nil where there are none. O(rules).
    package convenience init?(_ access: Access) {
        guard case .loaded(let rules) = access else { return nil }
        self.init(rules.root)
        if isEmpty { return nil }
    }

    /// Recursion no deeper than ``RulesLimits/pathDepth``.
    private init(_ rules: RuleNode) {
        orders = rules.indexes
        let wildcard = rules.wildcard.map { IndexDeclarations($0.node) }.flatMap { $0.isEmpty ? nil : $0 }
        self.wildcard = wildcard
        // A literal child hides the wildcard, also where it declares nothing (rules §2.1).
        children = rules.children.mapValues(IndexDeclarations.init)
            .filter { wildcard != nil || !$0.value.isEmpty }
    }

    private var isEmpty: Bool { orders.isEmpty && wildcard == nil && children.isEmpty }

    /// The declarations for a child; nil where there are none at or below it. O(1).
    package subscript(key: Key) -> IndexDeclarations? { children[key] ?? wildcard }

    /// The declarations at a path; nil where there are none at or below it. O(depth).
    package subscript(path: Path) -> IndexDeclarations? {
        var found: IndexDeclarations? = self
        for key in path.keys {
            guard let next = found?[key] else { return nil }
            found = next
        }
        return found
    }

    /// Calls `body` for each location of a tree for which indexes are declared, until it returns false.
    /// - Parameters:
    ///   - node: What is at `path`, to which these declarations belong.
    ///   - body: Gets the path, the orders and the location's data.
    /// - Returns: false when `body` has returned false.
    /// - Complexity: O(children of all nodes that a wildcard stands for).
    @discardableResult
    package func forEachLocation(
        in node: Node, at path: Path, _ body: (Path, Set<ChildOrder>, Node) -> Bool
    ) -> Bool {
        if !orders.isEmpty, !body(path, orders, node) { return false }
        if let wildcard {
            return node.children.forEach { key, child in
                // Of leaves nothing is indexed.
                guard case .object = child.withoutPriority else { return true }
                return (children[key] ?? wildcard).forEachLocation(in: child, at: path.appending(key), body)
            }
        }
        for (key, declarations) in children.sorted(by: { $0.key < $1.key }) {
            guard declarations.forEachLocation(in: node[key], at: path.appending(key), body) else {
                return false
            }
        }
        return true
    }
}

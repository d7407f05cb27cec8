import PandoBytes

/// A value of the tree: nothing, a leaf, or an object of children. Leaves and objects may have a priority.
///
///     Node      ┌──────────────────────────────┬─────┐
///               │ payload                8…16  │ tag │   16 bytes: the tag is in bits that no payload uses
///               └──────────────────────────────┴─────┘
///     object    payload is one reference to a persistent B-tree (``Children``)
///     prioritized   payload is one reference to a box: nodes without a priority, most of them, pay nothing for it
///
/// A node is a value: a copy is a snapshot in O(1). A writer copies only the pages between the root and what
/// it changes, and only while a snapshot shares them.
///
/// Always true: no object is empty, no child is `.empty`, a `.prioritized` holds a leaf or an object, and a
/// number with an integral value within ±2^63 is an `.integer` (§8.5). So equal values have equal
/// representations.
package enum Node: Sendable {
    case empty
    case boolean(Bool)
    case integer(Int64)
    /// Finite; never integral within ±2^63.
    case double(Double)
    case string(Text)
    case object(Children)
    case prioritized(Prioritized)

    /// A node with a priority.
    package final class Prioritized: Sendable {
        package let priority: Priority
        /// A leaf or an object, without a priority of its own.
        package let node: Node

        fileprivate init(_ priority: Priority, _ node: Node) {
            self.priority = priority
            self.node = node
        }
    }
}

extension Node {
    /// A finite number in its one representation (§8.5): integral doubles within ±2^63 become integers, −0
    /// becomes 0.
    package static func number(_ value: Double) -> Node {
        // ±2^63 are exact doubles; the upper one is not an Int64.
        guard value >= -0x1p63, value < 0x1p63, value == value.rounded(.towardZero) else {
            return .double(value)
        }
        return .integer(Int64(value))
    }

    /// An object of these children, or `.empty` when there are none.
    package static func children(_ children: consuming Children) -> Node {
        children.isEmpty ? .empty : .object(children)
    }

    /// Whether it is nothing.
    package var isEmpty: Bool {
        if case .empty = self { true } else { false }
    }

    /// Whether it is a boolean, number or string, with or without priority.
    package var isLeaf: Bool {
        switch withoutPriority {
        case .empty, .object, .prioritized: false
        case .boolean, .integer, .double, .string: true
        }
    }

    /// nil without a priority.
    package var priority: Priority? {
        if case .prioritized(let box) = self { box.priority } else { nil }
    }

    /// The same value without its priority. O(1).
    package var withoutPriority: Node {
        if case .prioritized(let box) = self { box.node } else { self }
    }

    /// The same value with another priority, or without one for nil. `.empty` stays `.empty` (§8.1).
    package func with(priority: Priority?) -> Node {
        let bare = withoutPriority
        guard let priority, !bare.isEmpty else { return bare }
        return .prioritized(Prioritized(priority, bare))
    }

    /// The children; none for a leaf or nothing.
    package var children: Children {
        if case .object(let children) = withoutPriority { children } else { Children() }
    }

    /// The child with this key, or `.empty`. O(log n).
    package subscript(key: Key) -> Node {
        switch self {
        case .object(let children): children[key]
        case .prioritized(let box): box.node[key]
        default: .empty
        }
    }

    /// The node at a path below this one, or `.empty`. O(depth × log n).
    package subscript(path: Path) -> Node { withNode(at: path.keys.span, from: 0, ()) { node, _ in node } }

    /// Whether the node at a path is equal (``isEqualWithinLimit(to:)``). O(depth × log n), and the
    /// comparison.
    package func holds(_ node: Node, at path: Path) -> Bool {
        withNode(at: path.keys.span, from: 0, node) { $0.isEqualWithinLimit(to: $1) }
    }

    /// As ``holds(_:at:)``, where several comparisons have one limit.
    /// - Parameter left: Nodes that may still be compared.
    package func holds(_ node: Node, at path: Path, visiting left: inout Int) -> Bool {
        switch node {
        case .object, .prioritized, .string: self[path].isEqual(to: node, visiting: &left)
        default: holds(node, at: path)
        }
    }

    /// Calls `body` with the node at the path `keys[depth...]` below this one, or with `.empty`. No reference
    /// is counted above it.
    /// - Parameter context: Passed to `body`. A closure's captures would be retained on every level.
    func withNode<Context, Result>(
        at keys: Span<Key>, from depth: Int, _ context: Context, _ body: (Node, Context) -> Result
    ) -> Result {
        if depth == keys.count { return body(self, context) }
        switch self {
        case .object(let children): return children.root.withNode(at: keys, from: depth, context, body)
        case .prioritized(let box): return box.node.withNode(at: keys, from: depth, context, body)
        default: return body(.empty, context)
        }
    }

    /// Whether both are equal, in bounded time: objects of more than ``comparedNodeLimit`` nodes are not
    /// compared, and give false unless they are the same snapshot; 1 KiB of text counts as a node. For
    /// callers that only do unneeded work when equal nodes give false.
    package func isEqualWithinLimit(to other: Node) -> Bool {
        var left = Self.comparedNodeLimit
        return isEqual(to: other, visiting: &left)
    }

    /// As ``isEqualWithinLimit(to:)``, where several comparisons have one limit.
    /// - Parameter left: Nodes that may still be compared; negative afterwards where there were more.
    package func isEqual(to other: Node, visiting left: inout Int) -> Bool {
        switch (self, other) {
        case (.object(let a), .object(let b)) where a.count == b.count: break
        case (.prioritized, .prioritized): break
        case (.string(let a), .string(let b)) where a.utf8Count == b.utf8Count: break
        default: return self == other
        }
        if isSameSnapshot(as: other) { return true }
        return left >= 0 && countNodes(&left) && self == other
    }

    /// Most nodes of an object that ``isEqualWithinLimit(to:)`` compares: about a millisecond. As text it is
    /// more than the longest string (realtime §8.6).
    package static let comparedNodeLimit = 1 << 14

    /// Subtracts the number of nodes below this one, and the KiB of all texts, from `left`.
    /// - Returns: false when there are more; then not all are counted.
    private func countNodes(_ left: inout Int) -> Bool {
        switch self {
        case .object(let children):
            left -= children.count
            return left >= 0 && children.forEach { _, child in child.countNodes(&left) }
        case .prioritized(let box):
            left -= box.priority.weight >> 10
            return left >= 0 && box.node.countNodes(&left)
        case .string(let text):
            left -= text.utf8Count >> 10
            return left >= 0
        case .empty, .boolean, .integer, .double: return true
        }
    }

    /// Whether both are the same snapshot: no write was made between them. True where both are empty, and for
    /// copies of one string; false for numbers and booleans, which have no storage to compare. O(1).
    /// - Precondition: The caller has kept both, so that neither was changed in place.
    package func isSameSnapshot(as other: Node) -> Bool {
        switch (self, other) {
        case (.empty, .empty): true
        case (.object(let a), .object(let b)): a.sharesStorage(with: b)
        case (.string(let a), .string(let b)): a.isCopy(of: b)
        case (.prioritized(let a), .prioritized(let b)): a === b
        default: false
        }
    }

    /// A number's value as a double, which order and hashes use (§8.5); nil for other nodes.
    package var doubleValue: Double? {
        switch withoutPriority {
        case .integer(let value): Double(value)
        case .double(let value): value
        default: nil
        }
    }
}

extension Node: Equatable {
    /// Deep equality. O(1) where both sides share the same page, O(size) otherwise.
    package static func == (left: Node, right: Node) -> Bool {
        switch (left, right) {
        case (.empty, .empty): true
        case (.boolean(let a), .boolean(let b)): a == b
        case (.integer(let a), .integer(let b)): a == b
        case (.double(let a), .double(let b)): a == b
        case (.string(let a), .string(let b)): a == b
        case (.object(let a), .object(let b)): a == b
        case (.prioritized(let a), .prioritized(let b)):
            a === b || (a.priority == b.priority && a.node == b.node)
        default: false
        }
    }
}

import PandoBytes

/// A value of the tree: nothing, a leaf, or an object of children; leaves and objects may carry a priority.
///
///     Node      ┌──────────────────────────────┬─────┐
///               │ payload                8…16  │ tag │   16 bytes: the tag is in bits that no payload uses
///               └──────────────────────────────┴─────┘
///     object    payload is one reference to a persistent B-tree (``Children``)
///     prioritized   payload is one reference to a box: priorities are rare, and cost nothing where there are none
///
/// A node is a value: copying one is a snapshot in O(1), and a writer copies only the pages between the root
/// and what it changes, and only while somebody else holds them.
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

    package var isEmpty: Bool {
        if case .empty = self { true } else { false }
    }

    /// True for a boolean, number or string, with or without priority.
    package var isLeaf: Bool {
        switch withoutPriority {
        case .empty, .object, .prioritized: false
        case .boolean, .integer, .double, .string: true
        }
    }

    package var priority: Priority? {
        if case .prioritized(let box) = self { box.priority } else { nil }
    }

    package var withoutPriority: Node {
        if case .prioritized(let box) = self { box.node } else { self }
    }

    /// The same value with another priority. Nothing stays nothing (§8.1).
    package func with(priority: Priority?) -> Node {
        let bare = withoutPriority
        guard let priority, !bare.isEmpty else { return bare }
        return .prioritized(Prioritized(priority, bare))
    }

    /// The children; none for a leaf or nothing.
    package var children: Children {
        if case .object(let children) = withoutPriority { children } else { Children() }
    }

    /// The child of that name, or `.empty`. O(log n).
    package subscript(key: Key) -> Node {
        switch self {
        case .object(let children): children[key]
        case .prioritized(let box): box.node[key]
        default: .empty
        }
    }

    /// The node at a path below this one, or `.empty`. O(depth × log n).
    package subscript(path: Path) -> Node { withNode(at: path.keys.span, from: 0, ()) { node, _ in node } }

    /// Whether the node at a path is found equal (``isFoundEqual(to:)``), without a copy of it. O(depth × log
    /// n), and the comparison.
    package func holds(_ node: Node, at path: Path) -> Bool {
        withNode(at: path.keys.span, from: 0, node) { $0.isFoundEqual(to: $1) }
    }

    /// Lends what `keys` name below this node from one of them on, or `.empty`. Nothing on the way is
    /// counted.
    /// - Parameter context: What `body` works with: what a closure captures would be counted anew on every
    ///   level.
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

    /// Equality that costs a bounded time: objects of more than ``comparedNodeLimit`` nodes are not compared,
    /// and count as different unless they are the same snapshot. For who must not wait, and loses little by
    /// doing twice what is done.
    package func isFoundEqual(to other: Node) -> Bool {
        switch (self, other) {
        case (.object(let a), .object(let b)) where a.count == b.count: break
        case (.prioritized, .prioritized): break
        default: return self == other
        }
        if isSameSnapshot(as: other) { return true }
        var left = Self.comparedNodeLimit
        return countNodes(&left) && self == other
    }

    /// Nodes of an object that ``isFoundEqual(to:)`` compares: what takes a millisecond.
    package static let comparedNodeLimit = 1 << 14

    /// Takes from `left` the nodes below this one.
    /// - Returns: false when there are more: the rest is not counted.
    private func countNodes(_ left: inout Int) -> Bool {
        guard case .object(let children) = withoutPriority else { return true }
        left -= children.count
        return left >= 0 && children.forEach { _, child in child.countNodes(&left) }
    }

    /// True when both are one and the same snapshot: nothing has changed in between, nor been changed back.
    /// Leaves are not told apart by where they are kept, so only objects are ever the same. O(1).
    /// - Precondition: Both are held, so that neither was changed in place.
    package func isSameSnapshot(as other: Node) -> Bool {
        switch (self, other) {
        case (.object(let a), .object(let b)): a.sharesStorage(with: b)
        case (.prioritized(let a), .prioritized(let b)): a === b && !a.node.isLeaf
        default: false
        }
    }

    /// A number's value as a double, as order and hashes see it (§8.5); nil for everything else.
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

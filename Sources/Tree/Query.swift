import PandoBytes

/// What a query orders children by (realtime §7.1, §7.3).
package enum Index: Hashable, Sendable {
    case priority
    case key
    case value
    /// The node at this path below each child.
    case child(Path)
}

/// A bound's key: a real one, or one of the two infinities that the SDKs spell as sentinels (§7.1).
package enum BoundKey: Hashable, Sendable {
    case lowest
    case key(Key)
    case highest

    package static func compare(_ left: BoundKey, _ right: BoundKey) -> Int {
        switch (left, right) {
        case (.key(let a), .key(let b)): Key.compare(a, b)
        case (.lowest, .lowest), (.highest, .highest): 0
        case (.lowest, _), (_, .highest): -1
        case (.highest, _), (_, .lowest): 1
        }
    }
}

/// One end of a query's range: a place in the order of (index value, key) pairs.
package struct Bound: Hashable, Sendable {
    /// Nothing, a boolean, number or string: compared as index values are. Not looked at under the key index.
    package var value: Node
    package var key: BoundKey
    /// False leaves out the child that sits exactly on the bound.
    package var isInclusive: Bool

    package init(value: Node, key: BoundKey, isInclusive: Bool) {
        self.value = value
        self.key = key
        self.isInclusive = isInclusive
    }

    package static func == (left: Bound, right: Bound) -> Bool {
        left.value == right.value && left.key == right.key && left.isInclusive == right.isInclusive
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(key)
        hasher.combine(isInclusive)
    }
}

/// A filter over the children of one location, in canonical form: two spellings of one filter are equal (§7).
package struct Query: Hashable, Sendable {
    /// Which end of the range a limit keeps.
    package enum Anchor: Hashable, Sendable { case first, last }

    package struct Limit: Hashable, Sendable {
        package var count: Int
        package var anchor: Anchor

        package init(count: Int, anchor: Anchor) {
            self.count = count
            self.anchor = anchor
        }
    }

    package var index: Index
    package var start: Bound?
    package var end: Bound?
    package var limit: Limit?

    package init(index: Index = .priority, start: Bound? = nil, end: Bound? = nil, limit: Limit? = nil) {
        self.index = index
        self.start = start
        self.end = end
        self.limit = limit
    }

    /// Whether the query looks at more than `count` children of a node: at all of them, unless it goes by
    /// key, where it stops with its limit. O(1).
    package func visits(moreThan count: Int, of node: Node) -> Bool {
        if index == .key, let limit, limit.count <= count { return false }
        return node.children.count > count
    }

    /// True when every child passes, in whatever order: a default listen in disguise (§4.2).
    package var loadsAllData: Bool { start == nil && end == nil && limit == nil }
}

extension Query {
    /// What the query orders `child` by.
    package func indexValue(of child: Node) -> Node {
        switch index {
        case .key: .empty
        case .value: child.withoutPriority
        case .priority: child.priority?.node ?? .empty
        case .child(let path): child[path].withoutPriority
        }
    }

    /// The order of (index value, key) pairs (§7.3).
    package func compare(_ left: (value: Node, key: Key), _ right: (value: Node, key: Key)) -> Int {
        let order = index == .key ? 0 : Self.compareIndexValues(left.value, right.value)
        return order != 0 ? order : Key.compare(left.key, right.key)
    }

    /// True when the pair is at or after the start and at or before the end (§7.4).
    package func contains(value: Node, key: Key) -> Bool {
        if let start {
            let order = compare(value, key, to: start)
            guard order > 0 || (order == 0 && start.isInclusive) else { return false }
        }
        if let end {
            let order = compare(value, key, to: end)
            guard order < 0 || (order == 0 && end.isInclusive) else { return false }
        }
        return true
    }

    private func compare(_ value: Node, _ key: Key, to bound: Bound) -> Int {
        let order = index == .key ? 0 : Self.compareIndexValues(value, bound.value)
        return order != 0 ? order : BoundKey.compare(.key(key), bound.key)
    }

    /// Nothing, false, true, numbers, strings, objects (§7.3). Numbers as doubles (§8.5): were integers
    /// beyond 2^53 told apart, but not from the double both round to, this were no order.
    package static func compareIndexValues(_ left: Node, _ right: Node) -> Int {
        switch (left, right) {
        case (.string(let a), .string(let b)): return Text.compare(a, b)
        case (.boolean(let a), .boolean(let b)): return a == b ? 0 : a ? 1 : -1
        default:
            let (a, b) = (rank(left), rank(right))
            if a != b { return a - b }
            guard let x = left.doubleValue, let y = right.doubleValue else { return 0 }
            return x < y ? -1 : x > y ? 1 : 0
        }
    }

    private static func rank(_ value: Node) -> Int {
        switch value {
        case .empty: 0
        case .boolean: 1
        case .integer, .double: 2
        case .string: 3
        case .object: 4
        case .prioritized(let box): rank(box.node)
        }
    }
}

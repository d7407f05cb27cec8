import PandoBytes

/// By what a query orders children (realtime §7.1, §7.3).
package enum ChildOrder: Hashable, Sendable {
    case priority
    case key
    case value
    /// By the node at this path below each child.
    case child(Path)
    /// By the nodes at several paths below each child, one after the other (§7.6): all but the last in
    /// ascending order, since queries fix their values. From two up to ``Limits/orderFieldCount``, all
    /// different.
    case compound([Path])

    /// The value by which a child is ordered, without its priority. `.empty` where there is none, and with
    /// the key index. O(depth × log n).
    package func value(of child: Node) -> Node {
        switch self {
        case .key: .empty
        case .value: child.withoutPriority
        case .priority: child.priority?.node ?? .empty
        case .child(let path): child[path].withoutPriority
        case .compound(let paths): CompoundValue.value(of: child, by: paths)
        }
    }

    /// Parses a declaration of several fields, `country+score` (rules §10). All but the last are in any
    /// order.
    /// - Throws: ``InvalidData`` for fewer than two fields or more than ``Limits/orderFieldCount``, one that
    ///   is named twice, and one that is no path of a child.
    package init(compound name: Text) throws(InvalidData) {
        var fields: [Path] = []
        for part in name.string.utf8.split(separator: UInt8(ascii: "+"), omittingEmptySubsequences: false) {
            fields.append(try Path(field: Text(String(Substring(part)))))
            guard fields.count <= Limits.orderFieldCount else {
                throw .query("at most \(Limits.orderFieldCount) fields")
            }
        }
        guard fields.count > 1 else { throw .query("at least two fields") }
        guard Set(fields).count == fields.count else { throw .query("a field is named twice") }
        self = .compound(fields.dropLast().sorted() + [fields[fields.count - 1]])
    }

    /// As rules declare it (rules §10): `a/b`, `.value`, `country+score`. Nil for the key index, and for the
    /// one by priority, which need no declaration.
    package var declaredName: String? {
        switch self {
        case .key, .priority: nil
        case .value: ".value"
        case .child(let path): path.wireText
        case .compound(let paths): paths.map(\.wireText).joined(separator: "+")
        }
    }
}

/// A bound's key: a key, or one of the two sentinels of the SDKs for before and after all keys (§7.1).
package enum BoundKey: Hashable, Sendable {
    case lowest
    case key(Key)
    case highest

    /// Negative, zero or positive.
    package static func compare(_ left: BoundKey, _ right: BoundKey) -> Int {
        switch (left, right) {
        case (.key(let a), .key(let b)): Key.compare(a, b)
        case (.lowest, .lowest), (.highest, .highest): 0
        case (.lowest, _), (_, .highest): -1
        case (.highest, _), (_, .lowest): 1
        }
    }
}

/// One end of a query's range: a position in the order of (index value, key) pairs.
package struct Bound: Hashable, Sendable {
    /// Nothing, a boolean, number or string; compared as index values are. Not used with the key index.
    package var value: Node
    /// Decides between children with that value.
    package var key: BoundKey
    /// Whether the child exactly at the bound is in the range.
    package var isInclusive: Bool

    package init(value: Node, key: BoundKey, isInclusive: Bool) {
        self.value = value
        self.key = key
        self.isInclusive = isInclusive
    }

    package static func == (left: Bound, right: Bound) -> Bool {
        left.value == right.value && left.key == right.key && left.isInclusive == right.isInclusive
    }

    /// Includes the value: clients listen with as many values as they like (`startAt(now)`), and all that
    /// differ in it alone must not share a hash.
    package func hash(into hasher: inout Hasher) {
        switch value {
        case .boolean(let value): hasher.combine(value)
        case .integer(let value): hasher.combine(value)
        case .double(let value): hasher.combine(value)
        case .string(let value): hasher.combine(value)
        case .empty, .object, .prioritized: break
        }
        hasher.combine(key)
        hasher.combine(isInclusive)
    }
}

/// A filter over the children of one location, in canonical form: two query objects for the same filter are
/// equal (§7).
package struct Query: Hashable, Sendable {
    /// Which end of the range a limit keeps.
    package enum Anchor: Hashable, Sendable { case first, last }

    /// At most `count` children, from one end of the range.
    package struct Limit: Hashable, Sendable {
        package var count: Int
        package var anchor: Anchor

        package init(count: Int, anchor: Anchor) {
            self.count = count
            self.anchor = anchor
        }
    }

    /// By what children are ordered.
    package var order: ChildOrder
    /// nil for no bound.
    package var start: Bound?
    /// nil for no bound.
    package var end: Bound?
    /// nil for no limit.
    package var limit: Limit?
    /// Values about the selected children, which are the result in place of them (rest §5.6); each once, in
    /// the order of their names. Empty for the children.
    package internal(set) var aggregates: [Aggregate] = []

    /// About the bytes of memory that its texts take, beside the value itself. O(fields).
    package var byteCount: Int {
        var byteCount = 0
        let paths: [Path] =
            switch order {
            case .priority, .key, .value: []
            case .child(let path): [path]
            case .compound(let paths): paths
            }
        for path in paths {
            byteCount += path.keys.reduce(0) { $0 + MemoryLayout<Key>.stride + $1.utf8Count }
        }
        for aggregate in aggregates { byteCount += MemoryLayout<Aggregate>.stride + aggregate.name.utf8Count }
        for bound in [start, end] {
            if case .string(let text)? = bound?.value { byteCount += text.utf8Count }
            if case .key(let key)? = bound?.key { byteCount += key.utf8Count }
        }
        return byteCount
    }

    package init(order: ChildOrder = .priority, start: Bound? = nil, end: Bound? = nil, limit: Limit? = nil) {
        self.order = order
        self.start = start
        self.end = end
        self.limit = limit
    }

    /// Whether evaluating the query visits more than `count` children of a node: all of them, unless the
    /// order is by key, where the limit ends it. O(1).
    package func visits(moreThan count: Int, of node: Node) -> Bool {
        if order == .key, let limit, limit.count <= count { return false }
        return node.children.count > count
    }

    /// Whether the query has no bound and no limit: it gives the same data as a default listen (§4.2).
    package var loadsAllData: Bool { start == nil && end == nil && limit == nil && aggregates.isEmpty }
}

extension Query {
    /// The value by which the query orders `child`. `.empty` with the key index.
    package func indexValue(of child: Node) -> Node { order.value(of: child) }

    /// The order of (index value, key) pairs (§7.3): negative, zero or positive.
    package func compare(_ left: (value: Node, key: Key), _ right: (value: Node, key: Key)) -> Int {
        let result = order == .key ? 0 : Self.compareIndexValues(left.value, right.value)
        return result != 0 ? result : Key.compare(left.key, right.key)
    }

    /// Whether the pair is in the range: not before the start, and not after the end (§7.4). The limit is not
    /// considered.
    package func contains(value: Node, key: Key) -> Bool {
        if let start {
            let result = compare(value, key, to: start)
            guard result > 0 || (result == 0 && start.isInclusive) else { return false }
        }
        if let end {
            let result = compare(value, key, to: end)
            guard result < 0 || (result == 0 && end.isInclusive) else { return false }
        }
        return true
    }

    private func compare(_ value: Node, _ key: Key, to bound: Bound) -> Int {
        let result = order == .key ? 0 : Self.compareIndexValues(value, bound.value)
        return result != 0 ? result : BoundKey.compare(.key(key), bound.key)
    }

    /// The order of index values: nothing, false, true, numbers, strings, objects (§7.3). Numbers are
    /// compared as doubles (§8.5). If integers beyond 2^53 were compared exactly, two different ones could be
    /// equal to the same double, which would be no order.
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

import PandoBytes

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

    /// Whether evaluating the query takes longer than visiting `count` children of a node. It visits all of
    /// them, unless the order is by key, where the limit ends it; and it compares the texts by which it
    /// orders them.
    /// - Complexity: O(1) by key, and for more than `count` children; otherwise O(children).
    package func visits(moreThan count: Int, of node: Node) -> Bool {
        if order == .key, let limit, limit.count <= count { return false }
        let children = node.children
        guard children.count <= count else { return true }
        guard order != .key else { return false }
        let (limit, overflows) = count.multipliedReportingOverflow(by: Self.textByteCountPerVisit)
        var left = overflows ? .max : limit
        return !children.forEach { _, child in
            if case .string(let text) = indexValue(of: child) {
                left -= min(text.utf8Count, Self.orderedByteCount)
            }
            return left >= 0
        }
    }

    /// Bytes of text whose comparisons take as long as the visit of a child. (Each is compared about ten
    /// times, at some bytes in a nanosecond, if all texts have the same beginning.)
    private static let textByteCountPerVisit = 64
    /// Bytes of a string by which it is ordered: no bound of a query is longer. Two strings that differ only
    /// behind them are ordered by their keys. Otherwise one comparison might take a millisecond (realtime
    /// §7.3).
    package static let orderedByteCount = Limits.queryByteCount

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
        case (.string(let a), .string(let b)): return Text.compare(a, b, upTo: orderedByteCount)
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

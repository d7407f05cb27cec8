// Finding and visiting a query's children, by their ranks: the first child in the order has rank 0.

extension OrderedIndex {
    /// The ranks of the children between a query's bounds (realtime §7.4). Its limit is not considered.
    /// - Parameters:
    ///   - query: Has this index's order.
    ///   - children: The object to which the index belongs.
    /// - Complexity: O(log n), and up to twelve values looked up in `children` where words are not exact.
    package func range(of query: Query, in children: Children) -> Range<Int> {
        let values = ChildValues(order: order, children: children)
        let first = query.start.map { countBefore($0, orAt: !$0.isInclusive, values) } ?? 0
        let end = query.end.map { countBefore($0, orAt: $0.isInclusive, values) } ?? count
        // The start may be after the end: then no child is between them.
        return first..<max(first, end)
    }

    /// The ranks of the children that a query selects, its limit included. Complexity as of
    /// ``range(of:in:)``.
    package func ranks(of query: Query, in children: Children) -> Range<Int> {
        let all = range(of: query, in: children)
        return query.limit.map { all.limited(to: $0.count, from: $0.anchor) } ?? all
    }

    private func countBefore(_ bound: Bound, orAt includesEqual: Bool, _ values: ChildValues) -> Int {
        let place = IndexPlace(bound.value, bound.key)
        var before = 0
        var page = root
        while true {
            switch page {
            case .entries(let entries):
                return before &+ entries.countBefore(place, orAt: includesEqual, values)
            case .refs(let refs):
                let index = refs.index(holding: place)
                for sibling in 0..<index { before &+= refs[sibling].count }
                page = refs[index].page
            }
        }
    }

    /// Calls `body` with the key of each child in a range of ranks, in order. O(log n + visited).
    package func forEach(in ranks: Range<Int>, _ body: (Key) -> Void) {
        root.forEach(in: ranks, body)
    }
}

extension OrderedIndex.Page {
    /// - Parameter ranks: Relative to the first entry of this page; may reach beyond both ends.
    fileprivate func forEach(in ranks: Range<Int>, _ body: (Key) -> Void) {
        switch self {
        case .entries(let entries):
            for index in ranks.clamped(to: 0..<entries.count) { body(entries[index].key) }
        case .refs(let refs):
            var first = 0
            for ref in refs {
                if first >= ranks.upperBound { return }
                if first &+ ref.count > ranks.lowerBound {
                    ref.page.forEach(in: ranks.lowerBound &- first..<ranks.upperBound &- first, body)
                }
                first &+= ref.count
            }
        }
    }
}

extension Range<Int> {
    /// At most `count` ranks from one end of the range.
    func limited(to count: Int, from anchor: Query.Anchor) -> Range {
        switch anchor {
        case .first: lowerBound..<lowerBound + Swift.min(count, self.count)
        case .last: upperBound - Swift.min(count, self.count)..<upperBound
        }
    }
}

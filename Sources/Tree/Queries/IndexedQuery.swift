/// A query, and the index by which its children are found without visiting all.
package struct IndexedQuery: Sendable {
    package var query: Query
    /// Of the node to which the query applies, as it is, in the query's order. Nil where there is none.
    package var index: KeptIndex?
    /// For the query's aggregates: an index in its order for each of ``Query/aggregatedFields``, in their
    /// order, with the numbers of that field. Fewer where one is not there: then none is used.
    let measured: [OrderedIndex]
    /// Gets the nanoseconds that another thread has taken to evaluate the query; nil where it is not needed.
    package var noteWork: (@Sendable (_ nanoseconds: Int) -> Void)?

    /// - Parameter measured: One for each of the aggregated fields; nil where there is none.
    package init(_ query: Query, by index: KeptIndex? = nil, measured: [KeptIndex?] = []) {
        assert(index.map { $0.order == query.order } ?? true, "an index of another order")
        self.query = query
        self.index = index
        self.measured = measured.compactMap { if case .ordered(let index)? = $0 { index } else { nil } }
    }

    /// Whether evaluating the query visits more than `count` children of a node. O(log n).
    package func visits(moreThan count: Int, of node: Node) -> Bool {
        if !query.aggregates.isEmpty, isMeasured { return false }
        switch index {
        case nil: return query.visits(moreThan: count, of: node)
        case .withoutValues?: return query.orderedByKey.visits(moreThan: count, of: node)
        case .ordered(let index)?:
            if let limit = query.limit, limit.count <= count { return false }
            return index.range(of: query, in: node.children).count > count
        }
    }
}

extension Query {
    /// The query that selects the same children where none has a value: all are ordered by their keys.
    var orderedByKey: Query {
        var result = self
        result.order = .key
        // A bound with a value is behind all children.
        if let start, !start.value.isEmpty {
            result.start = Bound(value: .empty, key: .highest, isInclusive: false)
        }
        if let end, !end.value.isEmpty { result.end = nil }
        return result
    }
}

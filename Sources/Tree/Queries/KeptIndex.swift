/// An index of a node's children that is kept while they change.
package enum KeptIndex: Sendable {
    /// No child has a value: the order is that of the keys. So it is with most nodes' priorities, and takes
    /// no memory.
    case withoutValues(ChildOrder)
    case ordered(OrderedIndex)

    /// The index of a node's children. O(n log n).
    /// - Parameter measure: The field whose numbers are summarised; nil for none. A measured index has all
    ///   children, whether they have values or not.
    package init(ordering children: Children, by order: ChildOrder, measuring measure: ChildOrder? = nil) {
        if let measure {
            self = .ordered(OrderedIndex(ordering: children, by: order, measuring: measure))
            return
        }
        let hasValues = !children.forEach { _, child in order.value(of: child).isEmpty }
        self =
            hasValues ? .ordered(OrderedIndex(ordering: children, by: order)) : .withoutValues(order)
    }

    /// By what it orders.
    package var order: ChildOrder {
        switch self {
        case .withoutValues(let order): order
        case .ordered(let index): index.order
        }
    }

    /// The field whose numbers it summarises; nil for none.
    package var measure: ChildOrder? {
        if case .ordered(let index) = self { index.measure } else { nil }
    }

    /// Entries that it has. O(1).
    package var count: Int {
        switch self {
        case .withoutValues: 0
        case .ordered(let index): index.count
        }
    }

    /// Bytes that it takes beside the tree, about. O(pages).
    package var byteCount: Int {
        switch self {
        case .withoutValues: 0
        case .ordered(let index): index.byteCount
        }
    }

    /// Checks all invariants, for tests. Traps if one is violated. O(n log n).
    package func checkInvariants(of children: Children) {
        switch self {
        case .withoutValues(let order):
            precondition(
                children.forEach { _, child in order.value(of: child).isEmpty }, "there are values")
        case .ordered(let index): index.checkInvariants(of: children)
        }
    }

    /// What a write has done to a child.
    package struct ValueChange: Sendable {
        package let key: Key
        /// By what the child was ordered; nil where there was none.
        package let old: Node?
        /// The same after the write.
        package let new: Node?
        /// Whether the number that a measured index counts is another one.
        package let changesNumber: Bool

        /// - Parameters:
        ///   - oldNumber: ``ChildOrder/number(of:)`` before the write, for a measured index.
        ///   - newNumber: The same after it.
        package init(
            key: Key, old: Node?, new: Node?, oldNumber: Node = .empty, newNumber: Node = .empty
        ) {
            self.key = key
            self.old = old
            self.new = new
            changesNumber = oldNumber != newNumber
        }

        /// Whether the child's place in the order is another one.
        package var movesChild: Bool {
            guard let old, let new else { return old != nil || new != nil }
            return Query.compareIndexValues(old, new) != 0
        }
    }

    /// Follows a write.
    /// - Parameters:
    ///   - changes: Every child whose place differs, once; others may be among them.
    ///   - children: The node's children after the write.
    /// - Returns: false where the index must be made anew: the first values have come, or it was wrong.
    /// - Complexity: O(changes × log n).
    package mutating func update(_ changes: some Collection<ValueChange>, in children: Children) -> Bool {
        switch self {
        case .withoutValues: return changes.allSatisfy { $0.new?.isEmpty ?? true }
        case .ordered(var index):
            // So that there is one reference to the pages while they change.
            self = .withoutValues(index.order)
            var isRight = true
            // All removals first: while entries are inserted, the others are ordered by what the children
            // have now.
            for change in changes where change.movesChild {
                if let old = change.old { isRight = index.remove(old, change.key) && isRight }
            }
            assert(isRight, "an index has lost a child")
            for change in changes where change.movesChild {
                if let new = change.new { index.insert(new, change.key, in: children) }
            }
            if index.measure != nil {
                for change in changes where change.changesNumber && !change.movesChild {
                    if let new = change.new { index.discardSummaries(above: new, change.key) }
                }
                index.repair(in: children)
            }
            self = .ordered(index)
            return isRight
        }
    }
}

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

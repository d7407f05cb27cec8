// The result of a query with aggregates.

extension IndexedQuery {
    /// The result of the query over a node: the selected children, or the aggregates' values. Complexity as
    /// of ``Window/init(_:over:)-(IndexedQuery,_)``; O(log n) for aggregates whose indexes are there.
    package func result(over node: Node) -> Node {
        query.aggregates.isEmpty ? Window(self, over: node).node : aggregate(node.children, of: node)
    }

    /// Whether all aggregates are known without visiting children.
    var isMeasured: Bool {
        measured.count == query.aggregatedFields.count && (!measured.isEmpty || countsByRank)
    }

    /// Whether the number of selected children is known without visiting them.
    private var countsByRank: Bool { query.order == .key || index.map { _ in true } ?? false }

    private func aggregate(_ children: Children, of node: Node) -> Node {
        guard isMeasured else { return visit(children, of: node) }
        if let first = measured.first {
            let ranks = first.ranks(of: query, in: children)
            return query.result(count: ranks.count, measured.map { $0.summary(of: ranks, in: children) })
        }
        if case .ordered(let index)? = index {
            return query.result(count: index.ranks(of: query, in: children).count, [])
        }
        return query.result(count: children.ranks(of: query.orderedByKey).count, [])
    }

    private func visit(_ children: Children, of node: Node) -> Node {
        let fields = query.aggregatedFields
        var count = 0
        var summaries = fields.map { _ in NumberSummary() }
        func add(_ child: Node) {
            count += 1
            for (index, field) in fields.enumerated() { summaries[index].add(field.number(of: child)) }
        }
        if query.limit == nil, index == nil, query.order != .key || query.start == nil && query.end == nil {
            // Nothing is kept of each child.
            children.forEach { key, child in
                if query.contains(value: query.indexValue(of: child), key: key) { add(child) }
                return true
            }
        } else {
            for entry in Window(self, over: node).entries { add(entry.node) }
        }
        return query.result(count: count, summaries)
    }
}

extension Children {
    /// The ranks of the children that a query by key selects, its limit included. O(log n).
    func ranks(of query: Query) -> Range<Int> {
        let first = query.start.map { count(before: $0.key, orAt: !$0.isInclusive) } ?? 0
        let end = query.end.map { count(before: $0.key, orAt: $0.isInclusive) } ?? count
        let all = first..<Swift.max(first, end)
        return query.limit.map { all.limited(to: $0.count, from: $0.anchor) } ?? all
    }

    /// How many children are before a place in the order of keys. O(log n).
    /// - Parameter includesEqual: Whether one that is at the place is counted.
    private func count(before key: BoundKey, orAt includesEqual: Bool) -> Int {
        guard case .key(let key) = key else { return key == .lowest ? 0 : count }
        var before = 0
        var page = root
        while true {
            switch page {
            case .entries(let entries):
                let index = entries.firstIndex(notBefore: key)
                let isCounted = includesEqual && index < entries.count && entries[index].key == key
                return before &+ index &+ (isCounted ? 1 : 0)
            case .refs(let refs):
                let index = refs.index(holding: key)
                for sibling in 0..<index { before &+= refs[sibling].count }
                page = refs[index].page
            }
        }
    }
}

import PandoBytes

extension Query {
    /// The query whose result is not the selected children, but some values about them.
    /// - Parameter names: The aggregates; the same one may be named several times.
    /// - Throws: ``InvalidData`` where one is malformed, for none, and for more than
    ///   ``Aggregate/countLimit``.
    package func aggregating(_ names: [Text]) throws(InvalidData) -> Query {
        guard !names.isEmpty else { throw .query("no aggregate") }
        guard names.count <= Aggregate.countLimit else {
            throw .query("at most \(Aggregate.countLimit) aggregates")
        }
        var aggregates: [Aggregate] = []
        for name in names {
            let aggregate = try Aggregate(name)
            if !aggregates.contains(aggregate) { aggregates.append(aggregate) }
        }
        // The order of all children does not matter.
        var query = loadsAllData ? Query(order: .key) : self
        query.aggregates = aggregates.sorted { $0.name < $1.name }
        return query
    }

    /// What rules see of the query (rules §3.2): aggregates of all children are a plain read.
    package var withoutAggregates: Query? {
        guard !aggregates.isEmpty else { return self }
        var query = self
        query.aggregates = []
        return query.loadsAllData ? nil : query
    }

    /// The fields whose numbers are needed, each once.
    package var aggregatedFields: [ChildOrder] {
        var fields: [ChildOrder] = []
        for aggregate in aggregates {
            if let field = aggregate.field, !fields.contains(field) { fields.append(field) }
        }
        return fields
    }

    /// The result: an object with a member for each aggregate that has a value (rest §5.6).
    /// - Parameter summaries: Of each of ``aggregatedFields``.
    func result(count: Int, _ summaries: [NumberSummary]) -> Node {
        let fields = aggregatedFields
        var entries: [Children.Entry] = []
        for aggregate in aggregates {
            let summary = aggregate.field.flatMap { fields.firstIndex(of: $0) }.map { summaries[$0] }
            let value: Node? =
                switch aggregate.function {
                case .count: .integer(Int64(count))
                case .sum: summary?.sum.value
                case .average: summary?.average
                case .minimum: summary?.minimum
                case .maximum: summary?.maximum
                }
            guard let value, !value.isEmpty else { continue }
            entries.append(Children.Entry(key: aggregate.name, node: value))
        }
        return .children(Children(ascending: entries))
    }
}

extension NumberSummary {
    /// The exact sum divided by the count, rounded once; nil where there is no number.
    fileprivate var average: Node? { count > 0 ? sum.divided(by: count) : nil }
}

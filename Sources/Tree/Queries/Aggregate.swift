import PandoBytes

/// One value that is computed over the children that a query selects (rest §5.6).
package struct Aggregate: Hashable, Sendable {
    package enum Function: Hashable, Sendable { case count, sum, average, minimum, maximum }

    package let function: Function
    /// Whose numbers it is about: `.value`, or `.child`. Nil for a count.
    package let field: ChildOrder?
    /// As the client has spelled it, and as the result is named.
    package let name: Key

    /// UTF-8 bytes of a name.
    package static let nameByteLimit = 256
    /// Most aggregates of one request. Each field of a location with many children has an index of its own.
    package static let countLimit = 8

    /// Parses `count`, `sum(price)`, `avg(dim/w)`, `min($value)`, `max(price)`.
    /// - Throws: ``InvalidData/query(_:)``, or what is wrong with the path.
    package init(_ text: Text) throws(InvalidData) {
        guard text.utf8Count <= Self.nameByteLimit else {
            throw .query("an aggregate has more than \(Self.nameByteLimit) bytes")
        }
        name = Key(unchecked: text)
        if text == "count" {
            function = .count
            field = nil
            return
        }
        let bytes = Array(text.string.utf8)
        guard let open = bytes.firstIndex(of: UInt8(ascii: "(")), bytes.last == UInt8(ascii: ")") else {
            throw Self.malformed
        }
        switch Text(utf8: Array(bytes[..<open]).span) {
        case "sum": function = .sum
        case "avg": function = .average
        case "min": function = .minimum
        case "max": function = .maximum
        default: throw Self.malformed
        }
        let field = Text(utf8: Array(bytes[(open + 1)..<(bytes.count - 1)]).span)
        self.field = field == "$value" ? .value : .child(try Path(field: field))
    }

    private static let malformed = InvalidData.query(
        "an aggregate is count, sum(field), avg(field), min(field) or max(field)")
}

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
    /// The sum, rounded, divided by the count; nil where there is no number.
    fileprivate var average: Node? {
        guard count > 0, let sum = sum.value?.doubleValue else { return nil }
        return .number(sum / Double(count))
    }
}

import PandoBytes
import PandoHTTP
import PandoTree

// The query parameters of a GET (rest §4, §4.1, §4.2, §5.3–§5.5) to a canonical ``Query``.

/// A query, and the index that it needs.
struct Filter {
    var query: Query?
    var indexName: String?
    /// The page that the client asks for, with `cursor=`; nil without it.
    var page: RequestedPage?

    static let parameterNames: [StaticString] = [
        "where", "cursor", "aggregate", "orderBy", "limitToFirst", "limitToLast", "startAt", "startAfter",
        "endAt", "endBefore", "equalTo",
    ]

    /// Reads the parameters of a GET without `shallow`. The order of the checks is that of the table in §4.2.
    /// - Throws: The errors of that table.
    init(_ parameters: QueryString) throws(RESTError) {
        let equalities = try Self.equalities(parameters)
        let aggregates = try Self.aggregates(parameters)
        guard parameters["orderBy"] != nil || !equalities.isEmpty else {
            if !aggregates.isEmpty, Self.parameterNames.count(where: parameters.contains) == 1 {
                query = try Self.query(Query(order: .key), aggregates)
                return
            }
            guard !Self.parameterNames.contains(where: parameters.contains) else { throw .orderByMissing }
            return
        }
        guard parameters.count(of: "orderBy") <= 1 else { throw .orderByMalformed }
        let order = try parameters["orderBy"].map { text throws(RESTError) in try Self.order(text) } ?? .key
        var query = Query(order: order)
        query.limit = try Self.limit(parameters)
        let range: [StaticString] = ["startAt", "startAfter", "endAt", "endBefore"]
        if parameters.contains("equalTo"), range.contains(where: parameters.contains) {
            throw .equalToWithRange
        }

        if let text = parameters["equalTo"] {
            let position = try BoundPosition(text, order)
            query.start = position.bound(order, isStart: true, isInclusive: true)
            query.end = position.bound(order, isStart: false, isInclusive: true)
        } else {
            if parameters.contains("startAt"), parameters.contains("startAfter") { throw .bothStarts }
            if parameters.contains("endAt"), parameters.contains("endBefore") { throw .bothEnds }
            if let text = parameters["startAt"] ?? parameters["startAfter"] {
                let isInclusive = parameters.contains("startAt")
                query.start = try BoundPosition(text, order).bound(
                    order, isStart: true, isInclusive: isInclusive)
            }
            if let text = parameters["endAt"] ?? parameters["endBefore"] {
                let isInclusive = parameters.contains("endAt")
                query.end = try BoundPosition(text, order).bound(
                    order, isStart: false, isInclusive: isInclusive)
            }
        }
        do throws(InvalidData) { try query.restrict(to: equalities) } catch { throw .invalidWhere(error) }
        indexName = query.order.declaredName
        self.query = aggregates.isEmpty ? query : try Self.query(query, aggregates)
        if !aggregates.isEmpty, parameters.contains("cursor") {
            throw .invalidAggregate(.query("no cursor beside aggregate"))
        }
        if let cursor = parameters["cursor"] {
            guard query.limit != nil else { throw .cursorWithoutLimit }
            page = RequestedPage(cursor: cursor.isEmpty ? nil : cursor)
        }
    }

    /// Reads `aggregate`: names between commas (§5.6).
    private static func aggregates(_ parameters: QueryString) throws(RESTError) -> [Text] {
        guard let text = parameters["aggregate"] else { return [] }
        guard parameters.count(of: "aggregate") == 1 else {
            throw .invalidAggregate(.query("aggregate is given twice"))
        }
        // One more than there may be is enough to refuse them.
        return text.bytes.split(
            separator: UInt8(ascii: ","), maxSplits: Aggregate.countLimit, omittingEmptySubsequences: false
        ).map { Text(decoding: $0.span) }
    }

    private static func query(_ query: Query, _ aggregates: [Text]) throws(RESTError) -> Query {
        do throws(InvalidData) { return try query.aggregating(aggregates) } catch {
            throw .invalidAggregate(error)
        }
    }

    /// Reads `where`: an object of primitives, by the paths of children (§5.4).
    private static func equalities(_ parameters: QueryString) throws(RESTError) -> [Query.Equality] {
        guard let text = parameters["where"] else { return [] }
        guard parameters.count(of: "where") == 1 else { throw .whereMalformed }
        let bytes = text.bytes
        var members: [(name: Text, value: Node)] = []
        let isObject = withCursor(over: bytes.rawSpan) { cursor in
            var reader = JSONReader(cursor)
            do throws(MalformedJSON) {
                try reader.readObject { (reader, name) throws(MalformedJSON) in
                    members.append((name, try reader.readLeaf()))
                }
                try reader.expectEnd()
                return reader.invalidData == nil
            } catch {
                return false
            }
        }
        guard isObject, !members.isEmpty else { throw .whereMalformed }
        do throws(InvalidData) {
            var equalities: [Query.Equality] = []
            for member in members.prefix(Limits.orderFieldCount + 1) {
                equalities.append(try Query.Equality(field: Path(field: member.name), value: member.value))
            }
            return equalities
        } catch {
            throw .invalidWhere(error)
        }
    }

    /// Reads the parameters that are allowed beside `shallow`: the official CLI sends them to page through
    /// children (§4.1). Here `startAfter` is a bare key.
    /// - Throws: ``RESTError/shallowWithQuery``, and the errors of limits.
    init(shallow parameters: QueryString) throws(RESTError) {
        let others: [StaticString] = [
            "orderBy", "limitToLast", "startAt", "endAt", "endBefore", "equalTo", "where", "cursor",
            "aggregate",
        ]
        guard !others.contains(where: parameters.contains), parameters["format"] != "export" else {
            throw .shallowWithQuery
        }
        let limit = try Self.limit(parameters)
        let start = parameters["startAfter"].map { key in
            Bound(value: .empty, key: .key(Key(unchecked: key)), isInclusive: false)
        }
        if limit != nil || start != nil { query = Query(order: .key, start: start, limit: limit) }
    }

    private static func order(_ text: Text) throws(RESTError) -> ChildOrder {
        guard let value = JSONText(text), value.key == nil, case .string(let name) = value.value else {
            throw .orderByMalformed
        }
        switch name {
        case "$key": return .key
        case "$value": return .value
        case "$priority": return .priority
        default:
            guard let path = try? Path(wire: name), !path.isRoot else { throw .orderByMalformed }
            return .child(path)
        }
    }

    private static func limit(_ parameters: QueryString) throws(RESTError) -> Query.Limit? {
        let (first, last) = (parameters["limitToFirst"], parameters["limitToLast"])
        guard first == nil || last == nil else { throw .bothLimits }
        guard let text = first ?? last else { return nil }
        let anchor: Query.Anchor = first != nil ? .first : .last
        guard !text.isEmpty else { throw .limitNotPositive(anchor) }
        let isNegative = text.firstByte == UInt8(ascii: "-")
        let digits = text.bytes.dropFirst(isNegative ? 1 : 0)
        guard !digits.isEmpty, digits.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else {
            throw .limitNotInteger(anchor)
        }
        guard !isNegative else { throw .limitNotPositive(anchor) }
        // The integers of a limit have 32 bits (realtime §7.1).
        guard let count = text.number(as: Int.self), count <= Limits.queryLimit else {
            throw .limitNotInteger(anchor)
        }
        guard count > 0 else { throw .limitNotPositive(anchor) }
        return Query.Limit(count: count, anchor: anchor)
    }
}

/// A position in a query's order: an index value, and perhaps a key among the children with that value
/// (§5.3).
private struct BoundPosition {
    let value: Node
    let key: Text?

    init(_ text: Text, _ order: ChildOrder) throws(RESTError) {
        guard let json = JSONText(text) else { throw .boundNotPrimitive }
        if order == .key, case .string = json.value {} else if order == .key { throw .boundNotString }
        value = json.value
        key = json.key
    }

    /// Without a key the bound lies before all children with its value, or after all of them (realtime §7.4).
    func bound(_ order: ChildOrder, isStart: Bool, isInclusive: Bool) -> Bound {
        if order == .key, case .string(let text) = value {
            return Self.bound(.empty, text, isInclusive)
        }
        if let key { return Self.bound(value, key, isInclusive) }
        return Bound(value: value, key: isStart == isInclusive ? .lowest : .highest, isInclusive: true)
    }

    /// No child has an infinite key, so for such a bound it does not matter whether it is inclusive.
    private static func bound(_ value: Node, _ text: Text, _ isInclusive: Bool) -> Bound {
        let key = BoundKey(wire: text)
        if case .key = key { return Bound(value: value, key: key, isInclusive: isInclusive) }
        return Bound(value: value, key: key, isInclusive: true)
    }
}

/// The value of a parameter: a JSON primitive, perhaps followed by a comma and a string: `5,"k"`.
private struct JSONText {
    let value: Node
    let key: Text?

    init?(_ text: Text) {
        let bytes = text.bytes
        let parsed = withCursor(over: bytes.rawSpan) { cursor -> (Node, Text?)? in
            var reader = JSONReader(cursor)
            guard let parsed = try? Self.read(&reader), reader.invalidData == nil else { return nil }
            return parsed
        }
        guard let parsed else { return nil }
        (value, key) = parsed
    }

    private static func read(_ reader: inout JSONReader) throws(MalformedJSON) -> (Node, Text?) {
        let value: Node
        switch reader.peek() {
        case UInt8(ascii: "\""): value = .string(try reader.readString())
        case UInt8(ascii: "t"):
            try reader.expect(literal: "true")
            value = .boolean(true)
        case UInt8(ascii: "f"):
            try reader.expect(literal: "false")
            value = .boolean(false)
        case UInt8(ascii: "n"):
            try reader.expect(literal: "null")
            value = .empty
        default: value = try reader.readNumber()
        }
        let key = reader.consume(UInt8(ascii: ",")) ? try reader.readString() : nil
        try reader.expectEnd()
        return (value, key)
    }
}

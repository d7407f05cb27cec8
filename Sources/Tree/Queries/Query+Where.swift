import PandoBytes

// Queries of several fields (realtime §7.6): some have given values, and one orders the children.

extension Query {
    /// A field that all selected children have in common.
    package struct Equality: Hashable, Sendable {
        package var field: Path
        /// Nothing, a boolean, number or string.
        package var value: Node

        /// - Throws: ``InvalidData/query(_:)`` for a string over ``CompoundValue/stringByteCount``.
        package init(field: Path, value: Node) throws(InvalidData) {
            if case .string(let text) = value, text.utf8Count > CompoundValue.stringByteCount {
                throw .query("a string of where is longer than \(CompoundValue.stringByteCount) bytes")
            }
            self.field = field
            self.value = value
        }

        package static func == (left: Equality, right: Equality) -> Bool {
            left.field == right.field && left.value == right.value
        }

        package func hash(into hasher: inout Hasher) { hasher.combine(field) }
    }

    /// Restricts a query to the children with given values of some fields. It must order by a child or by
    /// key, and have no equalities yet.
    /// - Parameter equalities: In any order; with none nothing happens.
    /// - Throws: ``InvalidData/query(_:)`` for another order, a field that is named twice, and too many
    ///   fields.
    package mutating func restrict(to equalities: [Equality]) throws(InvalidData) {
        guard !equalities.isEmpty else { return }
        // In the order of their names: so equal queries are equal, however a client spells them.
        let equalities = equalities.sorted { $0.field < $1.field }
        var fields = equalities.map(\.field)
        switch order {
        case .child(let path): fields.append(path)
        case .key: break
        case .value, .priority, .compound: throw .query("where needs an order by a child or by key")
        }
        guard Set(fields).count == fields.count else { throw .query("where names a field twice") }
        guard fields.count <= Limits.orderFieldCount else {
            throw .query("at most \(Limits.orderFieldCount) fields")
        }
        let values = equalities.map(\.value)
        if order == .key {
            let value = values.count == 1 ? values[0] : CompoundValue.place(of: values)
            start = Bound(value: value, key: start?.key ?? .lowest, isInclusive: start?.isInclusive ?? true)
            end = Bound(value: value, key: end?.key ?? .highest, isInclusive: end?.isInclusive ?? true)
            order = fields.count == 1 ? .child(fields[0]) : .compound(fields)
            return
        }
        start = Self.bound(start, behind: values, isStart: true)
        end = Self.bound(end, behind: values, isStart: false)
        order = .compound(fields)
    }

    private static func bound(_ bound: Bound?, behind values: [Node], isStart: Bool) -> Bound {
        guard let bound else {
            return Bound(
                value: CompoundValue.place(of: values, isAfter: !isStart), key: .lowest, isInclusive: true)
        }
        return Bound(
            value: CompoundValue.place(of: values + [bound.value]), key: bound.key,
            isInclusive: bound.isInclusive)
    }

    /// The values that `where` fixes, in the order of the index; empty for an index of one field.
    package var equalValues: [Node] {
        guard case .compound(let fields) = order, let start else { return [] }
        return Array(CompoundValue.fields(of: start.value).prefix(fields.count - 1))
    }

    /// The value of a bound in the order's last field; nil where it has none.
    package func lastValue(of bound: Bound?) -> Node? {
        guard case .compound(let fields) = order, let bound else { return nil }
        let values = CompoundValue.fields(of: bound.value)
        return values.count == fields.count ? values.last : nil
    }
}

extension Path {
    /// Parses the name of a field: the path of a child, and not that of the node itself.
    /// - Throws: ``InvalidData``.
    package init(field name: Text) throws(InvalidData) {
        self = try Path(wire: name)
        if isRoot { throw .query("a field needs a name") }
    }
}

// MARK: - In the name of an order

extension Query {
    /// Reads equalities that are a part of an order's name, as SDKs can say them: `country="CH"+score`. A
    /// name in which no field is followed by `=` and a JSON primitive has none: it is that of a child.
    /// - Returns: Also the rest of the name.
    /// - Throws: ``InvalidData`` for a field that is no path, a string that is too long, and too many fields.
    static func equalities(in name: Text) throws(InvalidData) -> (equalities: [Equality], rest: Text) {
        guard name.withBytes({ bytes in bytes.indices.contains { bytes[$0] == UInt8(ascii: "=") } }) else {
            return ([], name)
        }
        var equalities: [Equality] = []
        var rest = Array(name.string.utf8)
        while let (field, value, end) = firstEquality(in: rest) {
            guard equalities.count < Limits.orderFieldCount else {
                throw .query("at most \(Limits.orderFieldCount) fields")
            }
            equalities.append(try Equality(field: Path(field: field), value: value))
            rest.removeFirst(end)
        }
        return (equalities, equalities.isEmpty ? name : Text(decoding: rest.span))
    }

    /// `name=value+` at the beginning.
    private static func firstEquality(in bytes: [UInt8]) -> (field: Text, value: Node, end: Int)? {
        guard let sign = bytes.firstIndex(of: UInt8(ascii: "=")), sign > 0 else { return nil }
        let parsed = withCursor(over: bytes.rawSpan) { cursor -> (value: Node, end: Int)? in
            var cursor = cursor
            cursor.offset = sign + 1
            var reader = JSONReader(cursor)
            let first = reader.peek()
            guard first != UInt8(ascii: "{"), first != UInt8(ascii: "["), let value = try? reader.readLeaf(),
                reader.invalidData == nil, reader.consume(UInt8(ascii: "+"))
            else { return nil }
            return (value, reader.cursor.offset)
        }
        return parsed.map { (Text(decoding: Array(bytes[..<sign]).span), $0.value, $0.end) }
    }
}

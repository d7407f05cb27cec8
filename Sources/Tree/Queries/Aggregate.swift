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

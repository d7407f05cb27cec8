import PandoBytes
import PandoTree

/// A JSON object that was read strictly. Its bytes are kept, so that rules see exactly what was signed.
///
/// Stricter than for data (auth §5.2): a name may occur only once in its object, at any depth, and nothing
/// nests deeper than ``depthLimit``. Otherwise two readers could choose different ones of two equal names,
/// and see different users.
package struct JSONObject: Sendable {
    /// The nesting of arrays and objects; our own limit, since reading recurses. No token needs more.
    package static let depthLimit = 32

    package let bytes: [UInt8]
    /// The top-level members in order, each with the range of its value in ``bytes``.
    package let members: [(name: Text, range: Range<Int>)]

    /// Reads an object. Nil for anything else, for invalid text (lone surrogates) and for invalid numbers.
    /// O(bytes).
    /// - Parameter depthLimit: Other than ``depthLimit`` for files of the operator, which may hold data.
    package init?(_ bytes: [UInt8], depthLimit: Int = Self.depthLimit) {
        var members: [(name: Text, range: Range<Int>)] = []
        let isStrict = withCursor(over: bytes.rawSpan) { cursor in
            var reader = JSONReader(cursor)
            do throws(MalformedJSON) {
                var names: Set<Text> = []
                try reader.readObject { (reader, name) throws(MalformedJSON) in
                    guard names.insert(name).inserted else { throw reader.unexpected() }
                    _ = reader.peek()
                    let start = reader.cursor.offset
                    try Self.skip(&reader, depth: 1, limit: depthLimit)
                    members.append((name, start..<reader.cursor.offset))
                }
                try reader.expectEnd()
            } catch {
                return false
            }
            return reader.invalidData == nil
        }
        guard isStrict else { return nil }
        self.bytes = bytes
        self.members = members
    }

    private static func skip(_ reader: inout JSONReader, depth: Int, limit: Int) throws(MalformedJSON) {
        switch reader.peek() {
        case UInt8(ascii: "{"):
            guard depth < limit else { throw .tooDeep(byteOffset: reader.cursor.offset) }
            var names: Set<Text> = []
            try reader.readObject { (reader, name) throws(MalformedJSON) in
                guard names.insert(name).inserted else { throw reader.unexpected() }
                try skip(&reader, depth: depth + 1, limit: limit)
            }
        case UInt8(ascii: "["):
            guard depth < limit else { throw .tooDeep(byteOffset: reader.cursor.offset) }
            try reader.readArray { (reader) throws(MalformedJSON) in
                try skip(&reader, depth: depth + 1, limit: limit)
            }
        default: _ = try reader.readLeaf()
        }
    }

    // MARK: Members

    private func range(of name: Text) -> Range<Int>? {
        members.first { $0.name == name }?.range
    }

    /// Whether there is such a member. O(members), as all lookups.
    package func contains(_ name: Text) -> Bool { range(of: name) != nil }

    /// The bytes of the value; nil where there is none.
    package func json(_ name: Text) -> ArraySlice<UInt8>? {
        range(of: name).map { bytes[$0] }
    }

    /// A string, number or boolean; nil where there is none, or an array or object. `null` is `.empty`.
    package func leaf(_ name: Text) -> Node? {
        json(name).flatMap(Self.leaf)
    }

    private static func leaf(_ json: ArraySlice<UInt8>) -> Node? {
        withCursor(over: Array(json).rawSpan) { cursor in
            var reader = JSONReader(cursor)
            return try? reader.readLeaf()
        }
    }

    /// A string; nil where there is none, or another value.
    package func text(_ name: Text) -> Text? {
        if case .string(let text)? = leaf(name) { text } else { nil }
    }

    /// Whether the value is `true`.
    package func isTrue(_ name: Text) -> Bool { leaf(name) == .boolean(true) }

    /// An object; nil where there is none, or another value.
    package func object(_ name: Text) -> JSONObject? {
        json(name).flatMap { JSONObject(Array($0)) }
    }

    /// The bytes of the elements of an array; nil where there is none, or another value.
    package func elements(_ name: Text) -> [[UInt8]]? {
        guard let json = json(name), json.first == UInt8(ascii: "[") else { return nil }
        var elements: [[UInt8]] = []
        withCursor(over: Array(json).rawSpan) { cursor in
            var reader = JSONReader(cursor)
            // It was read before, so it is an array.
            try? reader.readArray { (reader) throws(MalformedJSON) in
                _ = reader.peek()
                elements.append(reader.cursor.array(try reader.skipValue(depth: 1)))
            }
        }
        return elements
    }

    /// The elements of an array of strings; nil where there is none, or another value.
    package func texts(_ name: Text) -> [String]? {
        guard let elements = elements(name) else { return nil }
        let texts = elements.compactMap { element -> String? in
            if case .string(let text)? = Self.leaf(element[...]) { text.string } else { nil }
        }
        return texts.count == elements.count ? texts : nil
    }

    /// Whether the value is this string, or an array that contains it (`aud`, RFC 7519 §4.1.3).
    package func names(_ name: Text, _ value: Text) -> Bool {
        if text(name) == value { return true }
        return elements(name)?.contains { Self.leaf($0[...]) == .string(value) } ?? false
    }
}

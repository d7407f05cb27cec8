import PandoBytes
import PandoTree

//  cursor      base64url, without padding, of
//              ┌───────────┬────────────────────┬─────────────────────────────┐
//              │ version 1 │ fingerprint        │ ["CH",5]   value, key: JSON │
//              │ 1 byte    │ 8 bytes, low first │                             │
//              └───────────┴────────────────────┴─────────────────────────────┘
//
//  The fingerprint is that of the location and of the query without its limit. It is no signature: a client
//  that makes up a cursor gets what it would get with `startAfter`.

/// The place in a query's order where a page ends, and the next one begins behind it (rest §5.5). The server
/// keeps nothing of it: it is a place between children, and stays one while children come and go.
package struct PageCursor: Equatable, Sendable {
    /// By what the last child of the page is ordered.
    package let value: Node
    package let key: Key

    /// UTF-8 bytes of a string that a cursor holds. A URL has to hold the cursor.
    package static let stringByteCount = 1024
    private static let version: UInt8 = 1
    private static let headByteCount = 9
    /// Characters of the longest cursor: its string with an escape for each byte, and its key.
    private static let characterLimit =
        (headByteCount + 6 * (stringByteCount + Limits.keyByteCount) + 16) * 4 / 3

    /// - Throws: ``RESTError/cursorTooLong``.
    package init(_ end: Window.PageEnd) throws(RESTError) {
        if case .string(let text) = end.value, text.utf8Count > Self.stringByteCount { throw .cursorTooLong }
        // Of objects only the keys are ordered.
        if case .object = end.value { value = Self.object } else { value = end.value }
        key = end.key
    }

    private static let object = Node.object(Children(ascending: [.init(key: "0", node: .boolean(true))]))

    /// As clients get it.
    package func text(for query: Query, at path: Path) -> String {
        var bytes = [Self.version]
        let fingerprint = Self.fingerprint(of: query, at: path)
        for shift in stride(from: UInt64(0), to: 64, by: 8) {
            bytes.append(UInt8(truncatingIfNeeded: fingerprint >> shift))
        }
        bytes.append(UInt8(ascii: "["))
        if case .object = value { bytes.append("{}") } else { bytes.append(json: value) }
        bytes.append(UInt8(ascii: ","))
        bytes.append(json: key.text)
        bytes.append(UInt8(ascii: "]"))
        var text: [UInt8] = []
        text.append(base64: bytes.rawSpan, alphabet: .urlSafe)
        let cursor = String(decoding: text, as: UTF8.self)
        assert((try? PageCursor(Text(cursor), for: query, at: path))?.key == key, "it cannot be read again")
        return cursor
    }

    /// Reads what a client has sent.
    /// - Parameter query: That of its request, as far as its other parameters say.
    /// - Throws: ``RESTError/cursorMalformed``, ``RESTError/cursorOfAnotherQuery``.
    package init(_ text: Text, for query: Query, at path: Path) throws(RESTError) {
        let characters = text.bytes
        guard characters.count <= Self.characterLimit,
            let bytes = decodeBase64(characters.rawSpan, alphabet: .urlSafe),
            bytes.count > Self.headByteCount,
            bytes[0] == Self.version
        else { throw .cursorMalformed }
        var fingerprint: UInt64 = 0
        for index in (1..<Self.headByteCount).reversed() {
            fingerprint = fingerprint << 8 | UInt64(bytes[index])
        }
        let parsed = withCursor(over: bytes.rawSpan) { cursor -> (Node, Text)? in
            cursor.offset = Self.headByteCount
            var reader = JSONReader(cursor)
            guard let parsed = try? Self.read(&reader), reader.invalidData == nil else { return nil }
            return parsed
        }
        guard let (value, name) = parsed, let key = try? Key(validating: name),
            query.order != .key || value.isEmpty
        else { throw .cursorMalformed }
        guard fingerprint == Self.fingerprint(of: query, at: path) else { throw .cursorOfAnotherQuery }
        self.value = value
        self.key = key
    }

    private static func read(_ reader: inout JSONReader) throws(MalformedJSON) -> (Node, Text) {
        try reader.expect(UInt8(ascii: "["))
        let value: Node
        if reader.consume(UInt8(ascii: "{")) {
            try reader.expect(UInt8(ascii: "}"))
            value = object
        } else {
            value = try reader.readLeaf()
        }
        try reader.expect(UInt8(ascii: ","))
        let key = try reader.readString()
        try reader.expect(UInt8(ascii: "]"))
        try reader.expectEnd()
        return (value, key)
    }

    /// FNV-1a of 64 bits. The limit is not in it: the next page may have another size. Its end is.
    private static func fingerprint(of query: Query, at path: Path) -> UInt64 {
        var bytes: [UInt8] = []
        func add(_ bound: Bound?) {
            guard let bound else { return bytes.append(0) }
            bytes.append(bound.isInclusive ? 1 : 2)
            bytes.append(json: bound.value)
            switch bound.key {
            case .lowest: bytes.append(1)
            case .highest: bytes.append(2)
            case .key(let key): bytes.append(json: key.text)
            }
        }
        bytes.append(json: Text(path.wireText))
        bytes.append(json: Text(query.order.declaredName ?? (query.order == .key ? "$key" : "$priority")))
        add(query.start)
        add(query.end)
        bytes.append(query.limit?.anchor == .last ? 1 : 0)
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
        return hash
    }
}

extension Query {
    /// The query that selects what is behind the end of a page, in the direction of the limit. Rules and
    /// indexes are asked about the query without it: it selects less.
    package func continued(behind cursor: PageCursor) -> Query {
        var query = self
        let place = Bound(value: cursor.value, key: .key(cursor.key), isInclusive: false)
        if limit?.anchor == .last { query.end = place } else { query.start = place }
        // A page never reaches beyond the query, whatever a client makes up.
        guard contains(value: cursor.value, key: cursor.key) else {
            query.end = Bound(value: .empty, key: .lowest, isInclusive: false)
            query.start = nil
            return query
        }
        return query
    }
}

/// `cursor=` of a request.
package struct RequestedPage: Equatable, Sendable {
    /// The end of the page before it, as the client has sent it; nil for the first page.
    package let cursor: Text?

    /// The query of the page.
    /// - Throws: As ``PageCursor/init(_:for:at:)``.
    package func query(of query: Query, at path: Path) throws(RESTError) -> Query {
        guard let cursor else { return query }
        return query.continued(behind: try PageCursor(cursor, for: query, at: path))
    }

}

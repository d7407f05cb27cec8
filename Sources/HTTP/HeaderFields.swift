import PandoBytes

/// The fields of a head, as ranges into the buffer that holds the head.
///
/// Names that are passed to these functions must be lower case; ASCII case is ignored in the comparison
/// (RFC 9110 §5.1).
package struct HeaderFields: Sendable {
    /// The head as it was received.
    package internal(set) var bytes: [UInt8] = []
    private var fields: [Field] = []
    /// For each field line, the bit numbered with the last six bits of its name's length: most lookups are of
    /// fields that are missing, and end here.
    private var nameLengths: UInt64 = 0

    /// 32-bit offsets, which halve the table: a head is far smaller than 4 GiB.
    private struct Field: Sendable {
        var nameStart, nameEnd, valueStart, valueEnd: UInt32
    }

    /// How many field lines there are.
    package var count: Int { fields.count }

    /// Reads one field line (RFC 9112 §5): `name ":" OWS value OWS`.
    mutating func add(line: Range<Int>, of bytes: [UInt8], fieldCountLimit: Int) throws(HTTPError) {
        guard fields.count < fieldCountLimit else { throw .tooManyHeaderFields }
        if isWhitespace(bytes[line.lowerBound]) { throw .foldedLine }
        var nameEnd = line.lowerBound
        while nameEnd < line.upperBound, isTokenByte(bytes[nameEnd]) { nameEnd += 1 }
        // A space before the colon is refused here, as RFC 9112 §5.1 demands.
        guard nameEnd > line.lowerBound, nameEnd < line.upperBound, bytes[nameEnd] == UInt8(ascii: ":") else {
            throw .malformedHeaderName
        }
        let value = trimmed(bytes[(nameEnd + 1)..<line.upperBound])
        nameLengths |= Self.bit(nameEnd - line.lowerBound)
        // ``HeadLines`` has refused control characters, so the value has none.
        fields.append(
            Field(
                nameStart: UInt32(line.lowerBound), nameEnd: UInt32(nameEnd),
                valueStart: UInt32(value.startIndex), valueEnd: UInt32(value.endIndex)))
    }

    private static func bit(_ nameLength: Int) -> UInt64 { 1 << UInt64(truncatingIfNeeded: nameLength & 63) }

    private func mayHave(_ name: StaticString) -> Bool { nameLengths & Self.bit(name.utf8CodeUnitCount) != 0 }

    private func has(_ field: Field, name: StaticString) -> Bool {
        bytes.span.extracting(Int(field.nameStart)..<Int(field.nameEnd)).equals(ignoringCase: name)
    }

    private func value(_ field: Field) -> ArraySlice<UInt8> {
        bytes[Int(field.valueStart)..<Int(field.valueEnd)]
    }

    /// The value of the first field line of that name, without spaces and tabs at its ends; nil when there is
    /// none. O(fields), no copy.
    package func bytes(of name: StaticString) -> ArraySlice<UInt8>? {
        guard mayHave(name) else { return nil }
        for field in fields where has(field, name: name) { return value(field) }
        return nil
    }

    /// The value of the first field line of that name, as text; bytes that are not UTF-8 become U+FFFD.
    package subscript(_ name: StaticString) -> Text? {
        bytes(of: name).map { Text(decoding: $0.span) }
    }

    /// How many field lines have that name. A field that is not a list must have at most one (RFC 9110 §5.3).
    package func count(of name: StaticString) -> Int {
        guard mayHave(name) else { return 0 }
        return fields.reduce(0) { has($1, name: name) ? $0 + 1 : $0 }
    }

    /// All values of that name, in order; bytes that are not UTF-8 become U+FFFD.
    package func values(of name: StaticString) -> [Text] {
        guard mayHave(name) else { return [] }
        return fields.filter { has($0, name: name) }.map { Text(decoding: value($0).span) }
    }

    /// The end of a list: its last elements, of all field lines of that name, with commas between the lines.
    /// - Parameter byteLimit: Of all of it. Positive. An element that does not fit is left out, with those
    ///   before it.
    /// - Complexity: O(fields + `byteLimit`).
    package func lastElements(of name: StaticString, byteLimit: Int) -> [UInt8] {
        guard mayHave(name) else { return [] }
        let comma = UInt8(ascii: ",")
        var left = byteLimit
        var lines: [ArraySlice<UInt8>] = []
        for field in fields.reversed() where has(field, name: name) {
            let line = value(field)
            guard line.count > left else {
                lines.append(line)
                left -= line.count + 1
                if left > 0 { continue } else { break }
            }
            // A part of an element could be another one.
            let fitting = line.suffix(left).drop { $0 != comma }.dropFirst()
            if !fitting.isEmpty { lines.append(fitting) }
            break
        }
        if lines.count == 1, let line = lines.first { return Array(line) }
        return Array(lines.reversed().joined(separator: [comma]))
    }

    /// Whether a list such as `Connection: keep-alive, Upgrade` has the token, in any field line of that
    /// name.
    /// - Parameter token: Lower case; ASCII case is ignored. An element with parameters (`;…`) is not equal
    ///   to it.
    package func has(token: StaticString, in name: StaticString) -> Bool {
        guard mayHave(name) else { return false }
        for field in fields where has(field, name: name) {
            for element in value(field).split(separator: UInt8(ascii: ","))
            where trimmed(element).span.equals(ignoringCase: token) {
                return true
            }
        }
        return false
    }

    /// Calls `body` with the name, as it was received, and the value of each field line.
    package func forEach(_ body: (String, String) -> Void) {
        for field in fields {
            body(
                String(decoding: bytes[Int(field.nameStart)..<Int(field.nameEnd)], as: UTF8.self),
                String(decoding: value(field), as: UTF8.self))
        }
    }
}

// MARK: - Framing

/// Where a message's content ends (RFC 9112 §6.3).
package enum BodyFraming: Equatable, Sendable {
    /// No content follows the head.
    case none
    /// That many bytes follow.
    case length(UInt64)
    /// Chunks follow (RFC 9112 §7.1).
    case chunked
    /// Everything until the connection ends: responses only.
    case untilClose
}

extension HeaderFields {
    /// The framing that the fields announce; nil when they announce none.
    ///
    /// Stricter than RFC 9112 §6.3 where two parsers could differ: one Content-Length line with digits only,
    /// one Transfer-Encoding that is `chunked` and nothing else, not both, and no chunks in HTTP/1.0.
    /// - Throws: ``HTTPError`` for any other combination.
    func announcedFraming(_ version: HTTPVersion) throws(HTTPError) -> BodyFraming? {
        let lengthCount = count(of: "content-length")
        let codingCount = count(of: "transfer-encoding")
        if codingCount > 0 {
            guard lengthCount == 0 else { throw .contentLengthWithTransferEncoding }
            guard version == .http11 else { throw .transferEncodingInOldVersion }
            guard codingCount == 1, let coding = bytes(of: "transfer-encoding"), !coding.isEmpty else {
                throw .malformedTransferEncoding
            }
            guard coding.span.equals(ignoringCase: "chunked") else { throw .unsupportedTransferEncoding }
            return .chunked
        }
        guard lengthCount > 0 else { return nil }
        guard lengthCount == 1 else { throw .repeatedContentLength }
        guard let digits = bytes(of: "content-length"), !digits.isEmpty, digits.allSatisfy(isDigit) else {
            throw .malformedContentLength
        }
        // 18 digits fit in 64 bits; a longer length is above any limit. Zeros before them say nothing.
        let significant = digits.drop { $0 == UInt8(ascii: "0") }
        guard significant.count <= 18 else { throw .contentTooLarge }
        return .length(significant.reduce(0) { $0 * 10 + UInt64($1 - 0x30) })
    }

    /// Whether another message may follow on this connection (RFC 9112 §9.3).
    func keepsAlive(_ version: HTTPVersion) -> Bool {
        if has(token: "close", in: "connection") { return false }
        return version == .http11 || has(token: "keep-alive", in: "connection")
    }
}

import PandoBytes

/// The fields of a head, as ranges into the buffer that holds the head.
///
/// Names given to the look-ups are lower case; comparison ignores ASCII case (RFC 9110 §5.1).
package struct HeaderFields: Sendable {
    /// The whole head as it came.
    package internal(set) var bytes: [UInt8] = []
    private var fields: [Field] = []
    /// A bit for each length that names here have, by the length's last six bits: most look-ups are of fields
    /// that are not there, and ask no further.
    private var nameLengths: UInt64 = 0

    /// 32-bit offsets: a head is bounded far below 4 GiB, and this halves the table.
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
        // A space before the colon ends the name and is not a colon: refused here, as RFC 9112 §5.1 demands.
        guard nameEnd > line.lowerBound, nameEnd < line.upperBound, bytes[nameEnd] == UInt8(ascii: ":") else {
            throw .malformedHeaderName
        }
        let value = trimmed(bytes[(nameEnd + 1)..<line.upperBound])
        nameLengths |= Self.bit(nameEnd - line.lowerBound)
        // Control characters cannot be here but for CR: ``HeadLines`` lets none pass, and CR only before LF.
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

    /// The value of the first field line of that name, without the space around it. O(fields); no copy.
    package func bytes(of name: StaticString) -> ArraySlice<UInt8>? {
        guard mayHave(name) else { return nil }
        for field in fields where has(field, name: name) { return value(field) }
        return nil
    }

    /// The value of the first field line of that name, as text (bytes that are not UTF-8 become U+FFFD).
    package subscript(_ name: StaticString) -> String? {
        bytes(of: name).map { String(decoding: $0, as: UTF8.self) }
    }

    /// How many field lines have that name. A field that is no list must have one (RFC 9110 §5.3).
    package func count(of name: StaticString) -> Int {
        guard mayHave(name) else { return 0 }
        return fields.reduce(0) { has($1, name: name) ? $0 + 1 : $0 }
    }

    /// All values of that name, in order.
    package func values(of name: StaticString) -> [String] {
        guard mayHave(name) else { return [] }
        return fields.filter { has($0, name: name) }.map { String(decoding: value($0), as: UTF8.self) }
    }

    /// True when a list such as `Connection: keep-alive, Upgrade` has the token, over all field lines of that
    /// name. `token` is lower case; ASCII case is ignored. Parameters (`;…`) are no part of a token.
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

    /// Calls `body` with every field line: name as it came, value.
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
    /// The framing the fields announce, or nil when they announce none.
    ///
    /// Stricter than RFC 9112 §6.3 where two readers could differ: one Content-Length line with digits only,
    /// one Transfer-Encoding that is `chunked` and nothing else, never both, never chunked in HTTP/1.0.
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
        // 18 digits fit 64 bits; nobody has an exabyte for us.
        guard digits.count <= 18 else { throw .contentTooLarge }
        return .length(digits.reduce(0) { $0 * 10 + UInt64($1 - 0x30) })
    }

    /// Whether another message may follow on this connection (RFC 9112 §9.3).
    func keepsAlive(_ version: HTTPVersion) -> Bool {
        if has(token: "close", in: "connection") { return false }
        return version == .http11 || has(token: "keep-alive", in: "connection")
    }
}

import PandoBytes

/// A response's head, as a client sees it.
package struct ResponseHead: Sendable {
    package let version: HTTPVersion
    /// 100…599, whether or not ``HTTPStatus`` knows it.
    package let statusCode: Int
    package let fields: HeaderFields
    /// What follows the head, unless the request was HEAD, whose responses have no content.
    package let framing: BodyFraming
    /// Whether the connection may carry another request.
    package let keepsAlive: Bool

    /// The value of the first field of that (lower-case) name.
    package func header(_ name: StaticString) -> Text? { fields[name] }
}

/// Reads one response head from pieces of a stream (RFC 9112 §4). As strict as ``RequestHeadReader``.
package struct ResponseHeadReader {
    private let limits: HeadLimits
    private var lines = HeadLines()
    private var fields = HeaderFields()
    private var start: (version: HTTPVersion, statusCode: Int)?

    /// - Parameter limits: What exceeds them is refused.
    package init(limits: HeadLimits = HeadLimits()) {
        self.limits = limits
    }

    /// Reads `piece` from `offset` on, at most to the end of the head.
    /// - Parameter offset: Moved behind the bytes that were read.
    /// - Returns: The head, or nil when the piece ended first: call again with the next piece.
    /// - Throws: ``HTTPError``; then the reader must not be used.
    package mutating func read(_ piece: RawSpan, from offset: inout Int) throws(HTTPError) -> ResponseHead? {
        try withCursor(over: piece) { (cursor: inout ByteCursor) throws(HTTPError) -> ResponseHead? in
            cursor.advance(max(0, offset))
            defer { offset = cursor.offset }
            return try read(&cursor)
        }
    }

    private mutating func read(_ cursor: inout ByteCursor) throws(HTTPError) -> ResponseHead? {
        while let line = try lines.next(&cursor, totalLimit: limits.headByteLimit, overflow: .headTooLarge) {
            if start == nil {
                start = try parseStatusLine(lines.bytes.span.extracting(line))
            } else if !line.isEmpty {
                try fields.add(line: line, of: lines.bytes, fieldCountLimit: limits.fieldCountLimit)
            } else {
                return try finish()
            }
        }
        return nil
    }

    private mutating func finish() throws(HTTPError) -> ResponseHead? {
        guard let (version, statusCode) = start else { return nil }
        fields.bytes = lines.bytes
        let announced = try fields.announcedFraming(version)
        // RFC 9112 §6.3: these have no content, whatever the fields announce.
        let hasNoContent = statusCode < 200 || statusCode == 204 || statusCode == 304
        return ResponseHead(
            version: version,
            statusCode: statusCode,
            fields: fields,
            framing: hasNoContent ? .none : announced ?? .untilClose,
            keepsAlive: (hasNoContent || announced != nil) && fields.keepsAlive(version)
        )
    }
}

/// `HTTP/1.1 101 Switching Protocols`; the phrase, and the space before it, may be missing.
private func parseStatusLine(_ line: Span<UInt8>) throws(HTTPError) -> (HTTPVersion, Int) {
    guard line.count >= 8, let version = try parseVersion(line.extracting(0..<8)) else {
        throw .malformedStatusLine
    }
    guard line.count >= 12, line[8] == 0x20, line.count == 12 || line[12] == 0x20 else {
        throw .malformedStatusLine
    }
    var statusCode = 0
    for index in 9..<12 {
        guard isDigit(line[index]) else { throw .malformedStatusLine }
        statusCode = statusCode * 10 + Int(line[index] - 0x30)
    }
    guard (100...599).contains(statusCode) else { throw .malformedStatusLine }
    return (version, statusCode)
}

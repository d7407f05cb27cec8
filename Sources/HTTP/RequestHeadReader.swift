import PandoBytes

//  request-line   method SP target SP "HTTP/1." ("0" / "1") CRLF      RFC 9112 §3
//  field-line     name ":" OWS value OWS CRLF        zero or more      RFC 9112 §5
//                 CRLF                               ends the head     RFC 9112 §2.1

/// Reads one request head from pieces of a stream (RFC 9112). The next request needs a new reader.
package struct RequestHeadReader {
    private let limits: HeadLimits
    private var lines = HeadLines()
    private var fields = HeaderFields()
    private var requestLine: RequestLine?
    /// RFC 9112 §2.2: a server ignores an empty line before the request line. Only one is ignored here.
    private var mayIgnoreEmptyLine = true

    /// - Parameter limits: What exceeds them is refused.
    package init(limits: HeadLimits = HeadLimits()) {
        self.limits = limits
    }

    /// Whether no byte was read yet: the connection is idle, and may end here.
    package var isIdle: Bool { lines.bytes.isEmpty && requestLine == nil }

    /// Bytes of memory that an incomplete head takes.
    package var byteCount: Int { lines.bytes.count }

    /// Whether the received bytes begin with `HEAD `: an error response then has no content.
    package var isHead: Bool { lines.bytes.starts(with: "HEAD ".utf8) }

    /// Reads `piece` from `offset` on, at most to the end of the head: the next reader gets what follows.
    /// - Parameter offset: Moved behind the bytes that were read.
    /// - Returns: The head, or nil when the piece ended first: call again with the next piece.
    /// - Throws: ``HTTPError``; then the reader must not be used.
    /// - Complexity: O(bytes); one buffer for the head and one for the field table.
    package mutating func read(_ piece: RawSpan, from offset: inout Int) throws(HTTPError) -> RequestHead? {
        try withCursor(over: piece) { (cursor: inout ByteCursor) throws(HTTPError) -> RequestHead? in
            cursor.advance(max(0, offset))
            defer { offset = cursor.offset }
            return try read(&cursor)
        }
    }

    private mutating func read(_ cursor: inout ByteCursor) throws(HTTPError) -> RequestHead? {
        while requestLine == nil {
            let lineLimit = limits.targetByteLimit + HeadLimits.requestLineOverhead
            guard let line = try lines.next(&cursor, totalLimit: lineLimit, overflow: .targetTooLong) else {
                return nil
            }
            if line.isEmpty, mayIgnoreEmptyLine {
                mayIgnoreEmptyLine = false
                lines.removeAll()
                continue
            }
            requestLine = try RequestLine(lines.bytes.span, line, limits: limits)
        }
        while let line = try lines.next(&cursor, totalLimit: limits.headByteLimit, overflow: .headTooLarge) {
            guard !line.isEmpty else { return try finish() }
            try fields.add(line: line, of: lines.bytes, fieldCountLimit: limits.fieldCountLimit)
        }
        return nil
    }

    private mutating func finish() throws(HTTPError) -> RequestHead? {
        guard let line = requestLine else { return nil }
        fields.bytes = lines.bytes
        let hostCount = fields.count(of: "host")
        guard hostCount <= 1 else { throw .repeatedHost }
        guard hostCount == 1 || line.version == .http10 else { throw .missingHost }
        if let host = fields.bytes(of: "host"), !isValidAuthority(host.span) { throw .malformedHost }
        return RequestHead(
            method: HTTPMethod(fields.bytes.span.extracting(line.method)),
            version: line.version,
            fields: fields,
            framing: try fields.announcedFraming(line.version) ?? .none,
            keepsAlive: fields.keepsAlive(line.version),
            methodRange: line.method,
            pathRange: line.path,
            queryRange: line.query,
            authorityRange: line.authority
        )
    }
}

/// The parts of a request line, as ranges of the head's buffer.
private struct RequestLine {
    let method: Range<Int>
    let authority: Range<Int>?
    let path: Range<Int>
    let query: Range<Int>?
    let version: HTTPVersion

    /// - Parameter line: Its range in `bytes`.
    init(_ bytes: Span<UInt8>, _ line: Range<Int>, limits: HeadLimits) throws(HTTPError) {
        let end = line.upperBound
        let methodEnd = bytes.firstIndex(in: line) { !isTokenByte($0) }
        guard methodEnd > line.lowerBound, methodEnd < end, bytes[methodEnd] == 0x20 else {
            throw .malformedRequestLine
        }
        method = line.lowerBound..<methodEnd
        guard method.count <= HeadLimits.methodByteLimit else { throw .methodTooLong }

        var start = methodEnd + 1
        let targetEnd = bytes.firstIndex(in: start..<end) { $0 == 0x20 }
        guard targetEnd < end else { throw .malformedRequestLine }
        guard targetEnd - start <= limits.targetByteLimit else { throw .targetTooLong }
        guard start < targetEnd,
            bytes.firstIndex(in: start..<targetEnd, where: { !isTargetByte($0) }) == targetEnd
        else { throw .malformedTarget }
        guard let version = try parseVersion(bytes.extracting((targetEnd + 1)..<end)) else {
            throw .malformedRequestLine
        }
        self.version = version

        if bytes[start] == UInt8(ascii: "/") {
            authority = nil
        } else {
            // absolute-form (RFC 9112 §3.2.2). authority-form is for CONNECT, which is not supported.
            let target = bytes.extracting(start..<targetEnd)
            if target.hasPrefix(ignoringCase: "http://") {
                start += 7
            } else if target.hasPrefix(ignoringCase: "https://") {
                start += 8
            } else {
                throw .malformedTarget
            }
            let end = bytes.firstIndex(in: start..<targetEnd) {
                $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?")
            }
            guard start < end, isValidAuthority(bytes.extracting(start..<end)) else { throw .malformedTarget }
            authority = start..<end
            start = end
        }
        let pathEnd = bytes.firstIndex(in: start..<targetEnd) { $0 == UInt8(ascii: "?") }
        path = start..<pathEnd
        query = pathEnd < targetEnd ? (pathEnd + 1)..<targetEnd : nil
    }
}

/// Reads `HTTP/1.0` or `HTTP/1.1`.
/// - Returns: nil when the bytes are not a version.
/// - Throws: ``HTTPError/unsupportedVersion`` for any other well-formed version.
func parseVersion(_ bytes: Span<UInt8>) throws(HTTPError) -> HTTPVersion? {
    guard bytes.count == 8, bytes.extracting(0..<5) == "HTTP/" else { return nil }
    let (major, minor) = (bytes[5], bytes[7])
    guard isDigit(major), bytes[6] == UInt8(ascii: "."), isDigit(minor) else { return nil }
    switch (major, minor) {
    case (0x31, 0x30): return .http10
    case (0x31, 0x31): return .http11
    default: throw .unsupportedVersion
    }
}

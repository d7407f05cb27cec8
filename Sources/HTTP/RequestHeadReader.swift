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
        return RequestHead(line, fields, framing: try fields.announcedFraming(line.version) ?? .none)
    }
}

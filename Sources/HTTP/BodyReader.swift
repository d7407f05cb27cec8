import PandoBytes

//  chunked-body   chunk-size [ ";" extensions ] CRLF  data CRLF      zero or more; size in hex  RFC 9112 §7.1
//                 "0" [ ";" extensions ] CRLF
//                 trailer-field CRLF                                 zero or more             RFC 9112 §7.1.2
//                 CRLF

/// Finds the content of a message in pieces of a stream, and where it ends.
///
/// Content is given as ranges of the caller's piece and never copied. Chunk extensions and trailers are
/// checked and dropped: nothing here uses them (RFC 9110 §6.5.1 forbids merging unknown trailers).
package struct BodyReader {
    /// What was found.
    package enum Event: Equatable {
        /// Content: a range of the piece that was given, never empty.
        case data(Range<Int>)
        /// The content is complete; what follows in the piece belongs to the next message.
        case end
    }

    /// A longer chunk-size line is refused. It has up to 15 digits, and extensions, which clients do not
    /// send.
    package static let chunkLineByteLimit = 256

    /// Longer trailers are refused with status 431.
    package static let trailerByteLimit = 8 << 10

    private enum State {
        case fixed(remaining: UInt64)
        case chunkSize(HeadLines)
        case chunkData(remaining: UInt64)
        case chunkEnd(sawCarriageReturn: Bool)
        case trailers(HeadLines, HeaderFields)
        case untilClose
        case ended
    }

    private var state: State
    private let byteLimit: UInt64
    /// Content announced so far. Invariant: `announcedCount <= byteLimit`.
    private var announcedCount: UInt64 = 0

    /// - Parameters:
    ///   - framing: Of the message's head.
    ///   - byteLimit: Most bytes of content that are accepted.
    /// - Throws: ``HTTPError/contentTooLarge`` when the announced length is above the limit.
    package init(_ framing: BodyFraming, byteLimit: UInt64) throws(HTTPError) {
        self.byteLimit = byteLimit
        switch framing {
        case .none: state = .fixed(remaining: 0)
        case .length(let count):
            guard count <= byteLimit else { throw .contentTooLarge }
            state = .fixed(remaining: count)
        case .chunked: state = .chunkSize(HeadLines())
        case .untilClose: state = .untilClose
        }
    }

    /// Reads `piece` from `offset` on.
    ///
    /// Call it until it gives nil (the piece was read) or ``Event/end``; after the end it always gives nil. A
    /// message without content ends at the first call, without a byte.
    /// - Parameter offset: Moved behind the bytes that were read.
    /// - Throws: ``HTTPError``; then the reader must not be used.
    /// - Complexity: O(1) for content, O(bytes) for chunk lines and trailers.
    package mutating func next(_ piece: RawSpan, from offset: inout Int) throws(HTTPError) -> Event? {
        try withCursor(over: piece) { (cursor: inout ByteCursor) throws(HTTPError) -> Event? in
            cursor.advance(max(0, offset))
            defer { offset = cursor.offset }
            return try next(&cursor)
        }
    }

    /// Checks, at the end of the connection, that the content is complete.
    /// - Throws: ``HTTPError/truncated`` when it is not.
    package mutating func finish() throws(HTTPError) {
        switch state {
        case .untilClose, .ended, .fixed(remaining: 0): state = .ended
        case .fixed, .chunkSize, .chunkData, .chunkEnd, .trailers: throw .truncated
        }
    }

    private mutating func next(_ cursor: inout ByteCursor) throws(HTTPError) -> Event? {
        while true {
            switch state {
            case .fixed(remaining: 0):
                state = .ended
                return .end

            case .fixed(let remaining):
                guard let range = content(atMost: remaining, &cursor) else { return nil }
                state = .fixed(remaining: remaining - UInt64(range.count))
                return .data(range)

            case .chunkSize(var lines):
                state = .ended  // Releases the state's reference, so that the buffer grows in place.
                guard try readChunkSize(&lines, &cursor) else { return nil }

            case .chunkData(remaining: 0):
                state = .chunkEnd(sawCarriageReturn: false)

            case .chunkData(let remaining):
                guard let range = content(atMost: remaining, &cursor) else { return nil }
                state = .chunkData(remaining: remaining - UInt64(range.count))
                return .data(range)

            case .chunkEnd(let sawCarriageReturn):
                // Anything but CR LF here means that the chunk's size was wrong.
                guard !cursor.isAtEnd else { return nil }
                guard cursor.current == (sawCarriageReturn ? 0x0A : 0x0D) else { throw .malformedChunk }
                cursor.advance()
                state = sawCarriageReturn ? .chunkSize(HeadLines()) : .chunkEnd(sawCarriageReturn: true)

            case .trailers(var lines, var fields):
                state = .ended  // As above.
                guard try readTrailers(&lines, &fields, &cursor) else { return nil }
                return .end

            case .untilClose:
                guard let range = content(atMost: .max, &cursor) else { return nil }
                guard UInt64(range.count) <= byteLimit - announcedCount else { throw .contentTooLarge }
                announcedCount += UInt64(range.count)
                return .data(range)

            case .ended:
                return nil
            }
        }
    }

    /// Reads the line with a chunk's size, and sets the state behind it.
    /// - Returns: false when the piece ends before the line does.
    private mutating func readChunkSize(
        _ lines: inout HeadLines, _ cursor: inout ByteCursor
    ) throws(HTTPError) -> Bool {
        let line = try lines.next(&cursor, totalLimit: Self.chunkLineByteLimit, overflow: .malformedChunk)
        guard let line else {
            state = .chunkSize(lines)
            return false
        }
        let size = try parseChunkSize(lines.bytes[line])
        guard size <= byteLimit - announcedCount else { throw .contentTooLarge }
        announcedCount += size
        state = size == 0 ? .trailers(HeadLines(), HeaderFields()) : .chunkData(remaining: size)
        return true
    }

    /// Reads trailer lines up to the empty one. They are checked and dropped.
    /// - Returns: false when the piece ends before the empty line.
    private mutating func readTrailers(
        _ lines: inout HeadLines, _ fields: inout HeaderFields, _ cursor: inout ByteCursor
    ) throws(HTTPError) -> Bool {
        while let line = try lines.next(
            &cursor, totalLimit: Self.trailerByteLimit, overflow: .trailersTooLarge)
        {
            if line.isEmpty { return true }
            try fields.add(line: line, of: lines.bytes, fieldCountLimit: HeadLimits.fieldCountLimit)
        }
        state = .trailers(lines, fields)
        return false
    }

    /// The range of the next bytes of content; nil when none are left in the piece.
    private func content(atMost limit: UInt64, _ cursor: inout ByteCursor) -> Range<Int>? {
        guard !cursor.isAtEnd else { return nil }
        let start = cursor.offset
        cursor.advance(Int(min(limit, UInt64(cursor.remaining))))
        assert(cursor.offset > start && UInt64(cursor.offset - start) <= limit)
        return start..<cursor.offset
    }
}

/// `1*HEXDIG [ BWS ";" … ]`. At most 15 digits behind leading zeros, so that the value fits 60 bits.
private func parseChunkSize(_ line: ArraySlice<UInt8>) throws(HTTPError) -> UInt64 {
    let digits = line.prefix { hexValue($0) != nil }
    let rest = line[digits.endIndex...].drop(while: isWhitespace)
    guard !digits.isEmpty, rest.isEmpty || rest.first == UInt8(ascii: ";") else { throw .malformedChunk }
    // "5 " without an extension: some parsers accept the space as part of the line's end, and others do not.
    guard !rest.isEmpty || digits.endIndex == line.endIndex else { throw .malformedChunk }
    let significant = digits.drop { $0 == UInt8(ascii: "0") }
    guard significant.count <= 15 else { throw .contentTooLarge }
    return significant.reduce(0) { $0 << 4 | UInt64(hexValue($1) ?? 0) }
}

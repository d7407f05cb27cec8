import PandoBytes

/// Splits a stream into the lines of a head, and keeps all of them in one buffer.
///
/// Each byte is checked by itself and by the bytes in the buffer, in order, so that the result does not
/// depend on how the stream was cut into pieces.
struct HeadLines {
    /// All bytes read so far, line ends included.
    private(set) var bytes: [UInt8] = []
    /// Where the incomplete line begins. Invariant: `lineStart <= bytes.count`.
    private var lineStart = 0

    /// Reads up to the next line end.
    /// - Parameter totalLimit: Most bytes in ``bytes``; one more throws `overflow`.
    /// - Returns: The line's range in ``bytes`` without CR LF, or nil when the piece ended first.
    mutating func next(
        _ cursor: inout ByteCursor, totalLimit: Int, overflow: HTTPError
    ) throws(HTTPError) -> Range<Int>? {
        if bytes.isEmpty { bytes.reserveCapacity(min(cursor.remaining, 1024)) }
        while !cursor.isAtEnd {
            guard bytes.count < totalLimit else { throw overflow }
            guard bytes.count > lineStart, bytes[bytes.count - 1] == 0x0D else {
                if let line = readPlainLine(&cursor, atMost: totalLimit - bytes.count) { return line }
                // The byte behind the plain ones; none when the piece or the limit ended them.
                guard !cursor.isAtEnd, bytes.count < totalLimit else { continue }
                let byte = cursor.current
                if byte == 0x0A { throw .bareLineFeed }
                guard byte == 0x0D || byte == 0x09 else { throw .controlCharacter }
                bytes.append(byte)
                cursor.advance()
                continue
            }
            guard cursor.current == 0x0A else { throw .bareCarriageReturn }
            bytes.append(0x0A)
            cursor.advance()
            return endLine()
        }
        return nil
    }

    /// Reads the bytes up to the next control character, and the line end if it follows: nearly every line is
    /// one copy.
    /// - Returns: The line, if it is complete.
    private mutating func readPlainLine(_ cursor: inout ByteCursor, atMost limit: Int) -> Range<Int>? {
        let most = min(limit, cursor.remaining)
        var count = plainByteCount(cursor, atMost: most)
        let isComplete = most - count >= 2 && cursor.peek(count) == 0x0D && cursor.peek(count + 1) == 0x0A
        if isComplete { count += 2 }
        let range = cursor.offset..<(cursor.offset + count)
        unsafe cursor.withBytes(range) { unsafe bytes.append(contentsOf: $0) }
        cursor.advance(count)
        return isComplete ? endLine() : nil
    }

    /// Ends the line whose CR LF was just read.
    private mutating func endLine() -> Range<Int> {
        let line = lineStart..<(bytes.count - 2)
        lineStart = bytes.count
        return line
    }

    /// Removes what was read: for an empty line before a request line (RFC 9112 §2.2).
    mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        lineStart = 0
    }
}

/// How many of the next bytes are not control characters.
private func plainByteCount(_ cursor: ByteCursor, atMost most: Int) -> Int {
    var count = 0
    while most - count >= 8, let word = cursor.word(count),
        markBelow(0x20, in: word) | mark(0x7F, in: word) == 0
    {
        count += 8
    }
    while count < most, cursor.peek(count) >= 0x20, cursor.peek(count) != 0x7F { count += 1 }
    return count
}

import PandoBytes

/// Cuts a stream into the lines of a head, keeping all of them in one buffer.
///
/// Judges the bytes in their order, each by itself and what was kept, so that the way the stream was cut
/// cannot change a verdict.
struct HeadLines {
    /// Everything taken so far, line ends included.
    private(set) var bytes: [UInt8] = []
    /// Where the unfinished line begins. Invariant: `lineStart <= bytes.count`.
    private var lineStart = 0

    /// Takes bytes up to and including the next line end.
    /// - Parameter totalLimit: Most bytes that `bytes` may hold; the one beyond throws `overflow`.
    /// - Returns: The line's range in ``bytes`` without CR LF, or nil when the piece ended first.
    mutating func next(
        _ cursor: inout ByteCursor, totalLimit: Int, overflow: HTTPError
    ) throws(HTTPError) -> Range<Int>? {
        if bytes.isEmpty { bytes.reserveCapacity(min(cursor.remaining, 1024)) }
        while !cursor.isAtEnd {
            guard bytes.count < totalLimit else { throw overflow }
            guard bytes.count > lineStart, bytes[bytes.count - 1] == 0x0D else {
                if let line = takePlainLine(&cursor, atMost: totalLimit - bytes.count) { return line }
                // What stands where plain bytes end; nothing when the piece or the limit ended them.
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

    /// Takes the bytes up to the next control character, and the line end where that is what follows: nearly
    /// every line is one copy.
    /// - Returns: The line, if it has ended.
    private mutating func takePlainLine(_ cursor: inout ByteCursor, atMost limit: Int) -> Range<Int>? {
        let most = min(limit, cursor.remaining)
        var count = plainByteCount(cursor, atMost: most)
        let isWhole = most - count >= 2 && cursor.peek(count) == 0x0D && cursor.peek(count + 1) == 0x0A
        if isWhole { count += 2 }
        let range = cursor.offset..<(cursor.offset + count)
        unsafe cursor.withBytes(range) { unsafe bytes.append(contentsOf: $0) }
        cursor.advance(count)
        return isWhole ? endLine() : nil
    }

    /// Behind a line end.
    private mutating func endLine() -> Range<Int> {
        let line = lineStart..<(bytes.count - 2)
        lineStart = bytes.count
        return line
    }

    /// Drops what was read, for an empty line before a request line (RFC 9112 §2.2).
    mutating func forget() {
        bytes.removeAll(keepingCapacity: true)
        lineStart = 0
    }
}

/// How many bytes from the next one on are no control characters.
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

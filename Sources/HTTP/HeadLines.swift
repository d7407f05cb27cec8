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
                if takePlainBytes(&cursor, atMost: totalLimit - bytes.count) { continue }
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
            let line = lineStart..<(bytes.count - 2)
            lineStart = bytes.count
            return line
        }
        return nil
    }

    /// Takes the bytes up to the next control character.
    /// - Returns: false when there were none.
    private mutating func takePlainBytes(_ cursor: inout ByteCursor, atMost limit: Int) -> Bool {
        let most = min(limit, cursor.remaining)
        var count = 0
        while count < most, cursor.peek(count) >= 0x20, cursor.peek(count) != 0x7F { count += 1 }
        guard count > 0 else { return false }
        let range = cursor.offset..<(cursor.offset + count)
        unsafe cursor.withBytes(range) { unsafe bytes.append(contentsOf: $0) }
        cursor.advance(count)
        return true
    }

    /// Drops what was read, for an empty line before a request line (RFC 9112 §2.2).
    mutating func forget() {
        bytes.removeAll(keepingCapacity: true)
        lineStart = 0
    }
}

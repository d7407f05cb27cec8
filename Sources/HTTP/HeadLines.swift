import PandoBytes

/// Cuts a stream into the lines of a head, keeping all of them in one buffer.
///
/// Works byte by byte and decides on each byte alone, so that the way the stream was cut cannot change a verdict.
/// A head is read once per connection or request, and costs about a nanosecond per byte.
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
            let byte = cursor.current
            cursor.advance()
            let followsCarriageReturn = bytes.count > lineStart && bytes[bytes.count - 1] == 0x0D
            bytes.append(byte)
            if followsCarriageReturn {
                guard byte == 0x0A else { throw .bareCarriageReturn }
                let line = lineStart..<(bytes.count - 2)
                lineStart = bytes.count
                return line
            }
            if byte < 0x20 || byte == 0x7F {
                if byte == 0x0A { throw .bareLineFeed }
                guard byte == 0x0D || byte == 0x09 else { throw .controlCharacter }
            }
        }
        return nil
    }

    /// Drops what was read, for an empty line before a request line (RFC 9112 §2.2).
    mutating func forget() {
        bytes.removeAll(keepingCapacity: true)
        lineStart = 0
    }
}

import PandoBytes

//  What every measured message carries, so that the receiver knows which one it is and that it came whole:
//
//      #0000000000000042xxxxxxxxxxxxxxxxxxxxxxxx…
//      │└── sequence ───┘└─ filler ─────────────┘   `byteCount` bytes in all
//
//  Nothing in it needs escaping in JSON, and `#` occurs nowhere else in what servers send around it.

enum Stamp {
    private static let digitCount = 16
    private static let mark = UInt8(ascii: "#")
    private static let filler = UInt8(ascii: "x")
    private static let eightFillers: UInt64 = 0x7878_7878_7878_7878

    /// The mark and the sequence.
    static let shortestByteCount = 1 + digitCount

    static func append(_ sequence: Int, byteCount: Int, to output: inout [UInt8]) {
        output.append(mark)
        var scale = 1_000_000_000_000_000
        while scale > 0 {
            output.append(UInt8(truncatingIfNeeded: sequence / scale % 10) &+ 0x30)
            scale /= 10
        }
        output.append(contentsOf: repeatElement(filler, count: max(0, byteCount - shortestByteCount)))
    }

    /// Finds the stamp in `text` and checks all its bytes.
    /// - Parameter hint: Where the last one began; servers put it at the same place every time.
    /// - Returns: Its sequence, or nil when there is no stamp, or not one of exactly `byteCount` bytes.
    static func read(_ text: RawSpan, byteCount: Int, hint: inout Int) -> Int? {
        withCursor(over: text) { cursor in
            cursor.advance(hint)
            if cursor.current != mark {
                cursor.offset = 0
                while !cursor.isAtEnd, cursor.current != mark { cursor.advance() }
                guard !cursor.isAtEnd else { return nil }
            }
            guard cursor.remaining >= byteCount else { return nil }
            hint = cursor.offset
            let end = cursor.offset + byteCount
            cursor.advance()
            var sequence = 0
            for _ in 0..<digitCount {
                let digit = Int(cursor.current) - 0x30
                guard digit >= 0, digit <= 9 else { return nil }
                sequence = sequence * 10 + digit
                cursor.advance()
            }
            while cursor.offset + 8 <= end {
                guard cursor.word == eightFillers else { return nil }
                cursor.advance(8)
            }
            while cursor.offset < end {
                guard cursor.current == filler else { return nil }
                cursor.advance()
            }
            return cursor.current == filler ? nil : sequence
        }
    }
}

import PandoBytes

//  What every measured message carries, so that the receiver knows which one it is and that it came whole:
//
//      #0000000000000042xxxxxxxxxxxxxxxxxxxxxxxx…
//      │└── sequence ───┘└─ filler ─────────────┘   `byteCount` bytes in all
//      #00000000000000420000000012345678xxxxxxxx…
//      │└── sequence ───┘└──── time ────┘└ filler    with the moment from which its latency counts
//
//  Nothing in it needs escaping in JSON, and `#` occurs nowhere else in what servers send around it.

package enum Stamp {
    private static let digitCount = 16
    private static let mark = UInt8(ascii: "#")
    private static let filler = UInt8(ascii: "x")
    private static let eightFillers: UInt64 = 0x7878_7878_7878_7878

    /// The mark and the sequence.
    package static let shortestByteCount = 1 + digitCount

    /// The mark, the sequence and a time.
    package static let shortestTimedByteCount = 1 + 2 * digitCount

    /// What 16 digits hold.
    package static let numberLimit = 10_000_000_000_000_000

    /// Appends a stamp.
    /// - Parameters:
    ///   - sequence: 0 ..< ``numberLimit``.
    ///   - time: The same; nil for a stamp without.
    ///   - byteCount: At least ``shortestByteCount``, or ``shortestTimedByteCount``.
    package static func append(_ sequence: Int, time: Int? = nil, byteCount: Int, to output: inout [UInt8]) {
        output.append(mark)
        append(digitsOf: sequence, to: &output)
        if let time { append(digitsOf: time, to: &output) }
        let written = time == nil ? shortestByteCount : shortestTimedByteCount
        output.append(contentsOf: repeatElement(filler, count: max(0, byteCount - written)))
    }

    private static func append(digitsOf number: Int, to output: inout [UInt8]) {
        var digits = InlineArray<16, UInt8>(repeating: 0)
        var rest = UInt64(number.magnitude)
        for index in 0..<digitCount {
            digits[digitCount - 1 - index] = UInt8(truncatingIfNeeded: rest % 10) &+ 0x30
            rest /= 10
        }
        for index in 0..<digitCount { output.append(digits[index]) }
    }

    /// Finds the stamp in `text` and checks all its bytes.
    /// - Parameter hint: Where the last one began; servers put it at the same place every time.
    /// - Returns: Its sequence, or nil when there is no stamp, or not one of exactly `byteCount` bytes.
    package static func read(_ text: RawSpan, byteCount: Int, hint: inout Int) -> Int? {
        read(text, byteCount: byteCount, isTimed: false, hint: &hint)?.sequence
    }

    /// The same with the time, of a stamp that has one.
    package static func readTimed(
        _ text: RawSpan, byteCount: Int, hint: inout Int
    ) -> (sequence: Int, time: Int)? {
        read(text, byteCount: byteCount, isTimed: true, hint: &hint)
    }

    private static func read(
        _ text: RawSpan, byteCount: Int, isTimed: Bool, hint: inout Int
    ) -> (sequence: Int, time: Int)? {
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
            guard let sequence = readDigits(&cursor) else { return nil }
            var time = 0
            if isTimed {
                guard let digits = readDigits(&cursor) else { return nil }
                time = digits
            }
            while cursor.offset + 8 <= end {
                guard cursor.word == eightFillers else { return nil }
                cursor.advance(8)
            }
            while cursor.offset < end {
                guard cursor.current == filler else { return nil }
                cursor.advance()
            }
            return cursor.current == filler ? nil : (sequence, time)
        }
    }

    private static func readDigits(_ cursor: inout ByteCursor) -> Int? {
        var number = 0
        for _ in 0..<digitCount {
            let digit = Int(cursor.current) - 0x30
            guard digit >= 0, digit <= 9 else { return nil }
            number = number * 10 + digit
            cursor.advance()
        }
        return number
    }
}

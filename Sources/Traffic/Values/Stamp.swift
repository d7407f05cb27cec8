import PandoBytes

//  The value of a measured message: the receiver knows its number, and that no byte was changed:
//
//      #0000000000000042xxxxxxxxxxxxxxxxxxxxxxxx…
//      │└── sequence ───┘└─ filler ─────────────┘   `byteCount` bytes in all
//      #00000000000000420000000012345678xxxxxxxx…
//      │└── sequence ───┘└──── time ────┘└ filler    the moment from which its latency counts
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

    /// Overwrites the numbers of the stamp at `offset` in `message`; its length does not change.
    /// - Parameters:
    ///   - sequence: 0 ..< ``numberLimit``.
    ///   - time: The same.
    package static func rewrite(_ sequence: Int, time: Int, at offset: Int, in message: inout MutableRawSpan)
    {
        let isInside = offset >= 0 && offset <= message.byteCount - shortestTimedByteCount
        precondition(isInside, "the stamp would not be inside the message")
        store(digitsOf: sequence, at: offset + 1, in: &message)
        store(digitsOf: time, at: offset + 1 + digitCount, in: &message)
    }

    private static func store(digitsOf number: Int, at offset: Int, in message: inout MutableRawSpan) {
        let (upper, lower) = words(of: number)
        message.storeBytes(of: upper, toByteOffset: offset, as: UInt64.self)
        message.storeBytes(of: lower, toByteOffset: offset + 8, as: UInt64.self)
    }

    private static func append(digitsOf number: Int, to output: inout [UInt8]) {
        let (upper, lower) = words(of: number)
        output.append(littleEndian: upper)
        output.append(littleEndian: lower)
    }

    /// The sixteen digits of a number.
    private static func words(of number: Int) -> (upper: UInt64, lower: UInt64) {
        let number = number.magnitude % UInt(numberLimit)
        let (upper, lower) = UInt64(number).quotientAndRemainder(dividingBy: Digits.limit)
        return (Digits.word(of: upper), Digits.word(of: lower))
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
        guard let first = cursor.word, let second = cursor.word(8),
            let upper = Digits.number(in: first), let lower = Digits.number(in: second)
        else { return nil }
        cursor.advance(digitCount)
        return Int(upper * Digits.limit + lower)
    }
}

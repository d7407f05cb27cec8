import PandoBytes

/// Bytes that are not JSON (RFC 8259), or JSON nested deeper than ``Limits/jsonDepth``.
package enum MalformedJSON: Error, Equatable, Sendable {
    /// The offset is that of the first byte that cannot be.
    case unexpected(byteOffset: Int)
    case tooDeep(byteOffset: Int)

    package var byteOffset: Int {
        switch self {
        case .unexpected(let offset), .tooDeep(let offset): offset
        }
    }
}

/// Reads JSON tokens from bytes, strictly, without building anything but the text and numbers asked for.
///
/// Two kinds of wrong are kept apart, because they get different answers: ``MalformedJSON`` is thrown; text that is
/// JSON but no data of ours (a lone surrogate, a number beyond a double) is noted in ``invalidData``, first one
/// first, and reading goes on.
package struct JSONReader {
    package var cursor: ByteCursor
    package var invalidData: InvalidData?
    /// The unescaped text of the string at hand; kept to be reused.
    private var scratch: [UInt8] = []

    package init(_ cursor: ByteCursor) {
        self.cursor = cursor
    }

    package mutating func note(_ problem: InvalidData) {
        if invalidData == nil { invalidData = problem }
    }

    package func unexpected() -> MalformedJSON { .unexpected(byteOffset: cursor.offset) }

    /// The next byte that is not white space, not consumed; 0 at the end.
    package mutating func peek() -> UInt8 {
        while true {
            switch cursor.current {
            case 0x20, 0x0A, 0x0D, 0x09: cursor.advance()
            case let byte: return byte
            }
        }
    }

    /// Consumes `byte` when it comes next.
    package mutating func take(_ byte: UInt8) -> Bool {
        guard peek() == byte else { return false }
        cursor.advance()
        return true
    }

    package mutating func expect(_ byte: UInt8) throws(MalformedJSON) {
        guard take(byte) else { throw unexpected() }
    }

    /// Nothing but white space may be left.
    package mutating func expectEnd() throws(MalformedJSON) {
        _ = peek()
        guard cursor.isAtEnd else { throw unexpected() }
    }

    package mutating func expect(literal: StaticString) throws(MalformedJSON) {
        for index in 0..<literal.utf8CodeUnitCount {
            // In bounds: the literal's own count.
            guard unsafe cursor.current == literal.utf8Start[index] else { throw unexpected() }
            cursor.advance()
        }
    }

    /// Reads `{`, and calls `member` after each name and its colon; `member` must consume the value.
    package mutating func readObject(
        _ member: (inout JSONReader, Text) throws(MalformedJSON) -> Void
    ) throws(MalformedJSON) {
        try expect(UInt8(ascii: "{"))
        if take(UInt8(ascii: "}")) { return }
        repeat {
            let name = try readString()
            try expect(UInt8(ascii: ":"))
            try member(&self, name)
        } while take(UInt8(ascii: ","))
        try expect(UInt8(ascii: "}"))
    }

    /// Reads `[`, and calls `element` before each element, which it must consume.
    package mutating func readArray(
        _ element: (inout JSONReader) throws(MalformedJSON) -> Void
    ) throws(MalformedJSON) {
        try expect(UInt8(ascii: "["))
        if take(UInt8(ascii: "]")) { return }
        repeat { try element(&self) } while take(UInt8(ascii: ","))
        try expect(UInt8(ascii: "]"))
    }

    /// Checks one value of any kind and gives the range of bytes it stands in.
    package mutating func skipValue(depth: Int = 0) throws(MalformedJSON) -> Range<Int> {
        let first = peek()
        let start = cursor.offset
        guard depth < Limits.jsonDepth else { throw .tooDeep(byteOffset: start) }
        switch first {
        case UInt8(ascii: "{"):
            try readObject { (reader, _) throws(MalformedJSON) in _ = try reader.skipValue(depth: depth + 1) }
        case UInt8(ascii: "["):
            cursor.advance()
            if take(UInt8(ascii: "]")) { break }
            repeat { _ = try skipValue(depth: depth + 1) } while take(UInt8(ascii: ","))
            try expect(UInt8(ascii: "]"))
        case UInt8(ascii: "\""): _ = try readString()
        case UInt8(ascii: "t"): try expect(literal: "true")
        case UInt8(ascii: "f"): try expect(literal: "false")
        case UInt8(ascii: "n"): try expect(literal: "null")
        default: _ = try readNumber()
        }
        return start..<cursor.offset
    }
}

// MARK: - Strings

extension JSONReader {
    /// Reads a string with its quotes. Invalid UTF-8 is malformed; a lone surrogate escape is invalid data, and
    /// stands as U+FFFD.
    package mutating func readString() throws(MalformedJSON) -> Text {
        try expect(UInt8(ascii: "\""))
        let start = cursor.offset
        let isASCII = try skipPlainCharacters()
        guard cursor.current == UInt8(ascii: "\"") else { return try readEscapedString(from: start) }
        let range = start..<cursor.offset
        cursor.advance()
        return try text(range, isASCII: isASCII)
    }

    /// Moves to the next quote or backslash. True when all on the way was ASCII.
    private mutating func skipPlainCharacters() throws(MalformedJSON) -> Bool {
        var high: UInt64 = 0
        while true {
            while let word = cursor.word, !Self.needsCare(word) {
                high |= word & 0x8080_8080_8080_8080
                cursor.advance(8)
            }
            let byte = cursor.current
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): return high == 0
            case 0..<0x20: throw unexpected()
            default:
                high |= UInt64(byte & 0x80)
                cursor.advance()
            }
        }
    }

    /// True when one of eight bytes is a quote, a backslash or a control character.
    private static func needsCare(_ word: UInt64) -> Bool {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let high: UInt64 = 0x8080_8080_8080_8080
        func hasZero(_ value: UInt64) -> UInt64 { (value &- ones) & ~value & high }
        let quote = hasZero(word ^ (ones &* 0x22))
        let backslash = hasZero(word ^ (ones &* 0x5C))
        let control = (word &- (ones &* 0x20)) & ~word & high
        return (quote | backslash | control) != 0
    }

    private func text(_ range: Range<Int>, isASCII: Bool) throws(MalformedJSON) -> Text {
        if isASCII { return Text(cursor.string(range)) }
        guard let string = unsafe cursor.withBytes(range, { unsafe String(validating: $0, as: UTF8.self) })
        else { throw .unexpected(byteOffset: range.lowerBound) }
        return Text(string)
    }

    private mutating func readEscapedString(from start: Int) throws(MalformedJSON) -> Text {
        scratch.removeAll(keepingCapacity: true)
        var runStart = start
        while true {
            let runEnd = cursor.offset
            unsafe cursor.withBytes(runStart..<runEnd) { unsafe scratch.append(contentsOf: $0) }
            let byte = cursor.current
            cursor.advance()
            if byte == UInt8(ascii: "\"") { break }
            try readEscape()
            runStart = cursor.offset
            _ = try skipPlainCharacters()
        }
        guard let string = String(validating: scratch, as: UTF8.self) else {
            throw .unexpected(byteOffset: start)
        }
        return Text(string)
    }

    private mutating func readEscape() throws(MalformedJSON) {
        let byte = cursor.current
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): scratch.append(byte)
        case UInt8(ascii: "b"): scratch.append(0x08)
        case UInt8(ascii: "f"): scratch.append(0x0C)
        case UInt8(ascii: "n"): scratch.append(0x0A)
        case UInt8(ascii: "r"): scratch.append(0x0D)
        case UInt8(ascii: "t"): scratch.append(0x09)
        case UInt8(ascii: "u"):
            cursor.advance()
            try readUnicodeEscape()
            return
        default: throw unexpected()
        }
        cursor.advance()
    }

    private mutating func readUnicodeEscape() throws(MalformedJSON) {
        var unit = try readHex4()
        if unit >= 0xD800, unit < 0xDC00,
            cursor.current == UInt8(ascii: "\\"), cursor.peek(1) == UInt8(ascii: "u") {
            let mark = cursor
            cursor.advance(2)
            let low = try readHex4()
            if low >= 0xDC00, low < 0xE000 {
                unit = 0x10000 + (unit - 0xD800) << 10 + (low - 0xDC00)
            } else {
                cursor = mark
            }
        }
        guard let scalar = Unicode.Scalar(unit) else {
            note(.loneSurrogate)
            scratch.append(contentsOf: [0xEF, 0xBF, 0xBD])
            return
        }
        scratch.append(contentsOf: UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter)
    }

    private mutating func readHex4() throws(MalformedJSON) -> UInt32 {
        var value: UInt32 = 0
        for _ in 0..<4 {
            let digit: UInt8
            switch cursor.current {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = cursor.current - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): digit = cursor.current - UInt8(ascii: "a") + 10
            case UInt8(ascii: "A")...UInt8(ascii: "F"): digit = cursor.current - UInt8(ascii: "A") + 10
            default: throw unexpected()
            }
            value = value << 4 | UInt32(digit)
            cursor.advance()
        }
        return value
    }
}

// MARK: - Numbers

extension JSONReader {
    /// Reads a number into its one representation (wire-protocol §8.5): `.integer` or `.double`.
    /// A literal beyond the range of a double is invalid data, and stands as 0.
    package mutating func readNumber() throws(MalformedJSON) -> Node {
        let start = cursor.offset
        let isNegative = cursor.current == UInt8(ascii: "-")
        if isNegative { cursor.advance() }
        // Up to 19 digits fit; more of them are read by `Double`.
        var mantissa: UInt64 = 0
        var digitCount = 0
        var exponent = 0
        if cursor.current == UInt8(ascii: "0") {
            cursor.advance()
        } else {
            guard readDigits(&mantissa, &digitCount) > 0 else { throw unexpected() }
        }
        var isInteger = true
        if cursor.current == UInt8(ascii: ".") {
            isInteger = false
            cursor.advance()
            let places = readDigits(&mantissa, &digitCount)
            guard places > 0 else { throw unexpected() }
            exponent = -places
        }
        if cursor.current | 0x20 == UInt8(ascii: "e") {
            isInteger = false
            cursor.advance()
            exponent = exponent &+ (try readExponent())
        }
        if digitCount <= 19 {
            if isInteger {
                if !isNegative, let value = Int64(exactly: mantissa) { return .integer(value) }
                if isNegative, mantissa <= Int64.min.magnitude { return .integer(Int64(truncatingIfNeeded: 0 &- mantissa)) }
            } else if mantissa < 1 << 53, exponent.magnitude <= 22 {
                // Both factors are exact doubles, so the one rounding is the right one (Clinger 1990).
                let power = Self.powersOfTen[Int(exponent.magnitude)]
                let value = exponent < 0 ? Double(mantissa) / power : Double(mantissa) * power
                return .number(isNegative ? -value : value)
            }
        }
        let value = Double(cursor.string(start..<cursor.offset)) ?? .infinity
        guard value.isFinite else {
            note(.numberOutOfRange)
            return .integer(0)
        }
        return .number(value)
    }

    /// Reads digits into `mantissa` (which wraps past 19 of them) and says how many there were. Leading zeros of
    /// the whole number do not count towards `digitCount`.
    private mutating func readDigits(_ mantissa: inout UInt64, _ digitCount: inout Int) -> Int {
        let start = cursor.offset
        while true {
            let digit = cursor.current &- 0x30
            guard digit <= 9 else { return cursor.offset &- start }
            mantissa = mantissa &* 10 &+ UInt64(digit)
            if mantissa != 0 || digitCount > 0 { digitCount &+= 1 }
            cursor.advance()
        }
    }

    private mutating func readExponent() throws(MalformedJSON) -> Int {
        let isNegative = cursor.current == UInt8(ascii: "-")
        if isNegative || cursor.current == UInt8(ascii: "+") { cursor.advance() }
        var value = 0
        let start = cursor.offset
        while true {
            let digit = cursor.current &- 0x30
            guard digit <= 9 else { break }
            // Any exponent of more than five digits is as good as infinite; `Double` decides.
            value = min(value &* 10 &+ Int(digit), 100_000)
            cursor.advance()
        }
        guard cursor.offset > start else { throw unexpected() }
        return isNegative ? -value : value
    }

    private static let powersOfTen: InlineArray<23, Double> = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
        1e19, 1e20, 1e21, 1e22,
    ]
}

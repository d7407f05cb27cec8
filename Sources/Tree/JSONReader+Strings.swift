import PandoBytes

extension JSONReader {
    /// Reads a string with its quotes. A lone surrogate escape is noted as invalid data, and read as U+FFFD.
    /// - Throws: ``MalformedJSON``, also for invalid UTF-8.
    /// - Complexity: O(bytes).
    package mutating func readString() throws(MalformedJSON) -> Text {
        try expect(UInt8(ascii: "\""))
        let start = cursor.offset
        let isASCII = try skipPlainCharacters()
        guard cursor.current == UInt8(ascii: "\"") else { return try readEscapedString(from: start) }
        let range = start..<cursor.offset
        cursor.advance()
        return try text(range, isASCII: isASCII)
    }

    /// Reads a string that is a legal key, of ASCII and without escapes.
    /// - Returns: nil for anything else, which is not consumed: ``readString()`` reads it, or finds the
    ///   error.
    mutating func readPlainKey() -> Key? {
        guard peek() == UInt8(ascii: "\"") else { return nil }
        let beginning = cursor
        cursor.advance()
        let start = cursor.offset
        if let isASCII = try? skipPlainCharacters(), isASCII, cursor.current == UInt8(ascii: "\""),
            let key = cursor.legalKey(start..<cursor.offset)
        {
            cursor.advance()
            return key
        }
        cursor = beginning
        return nil
    }

    /// A string of up to 15 bytes without escapes, as a value that is cheap to compare.
    struct ShortString: Equatable {
        var low: UInt64
        var high: UInt64
        var byteCount: Int

        /// An index for a table of 2^`bits` elements.
        func hash(bits: UInt64) -> Int {
            // Multiplicative hashing (Knuth, volume 3, §6.4), with odd numbers near 2^64 / φ and 2^64 / φ².
            let mixed =
                (low ^ UInt64(truncatingIfNeeded: byteCount)) &* 0x9E37_79B9_7F4A_7C15 ^ high
                &* 0x61C8_8646_80B5_83EB
            return Int(truncatingIfNeeded: mixed >> (64 - bits))
        }
    }

    /// The string at the cursor, which does not move. nil for a string that is longer, has escapes, or is
    /// incomplete.
    func peekShortString() -> ShortString? {
        var ahead = cursor
        guard ahead.current == UInt8(ascii: "\"") else { return nil }
        ahead.advance()
        guard let low = ahead.word else { return nil }
        if let count = Self.countBeforeQuote(low) {
            return ShortString(low: low & (1 << UInt64(8 * count) &- 1), high: 0, byteCount: count)
        }
        ahead.advance(8)
        guard Self.specialBytes(low) == 0, let high = ahead.word, let count = Self.countBeforeQuote(high)
        else {
            return nil
        }
        return ShortString(low: low, high: high & (1 << UInt64(8 * count) &- 1), byteCount: 8 + count)
    }

    /// How many bytes precede the first quote; nil if a backslash or control character comes before it, or
    /// there is none.
    private static func countBeforeQuote(_ word: UInt64) -> Int? {
        let special = specialBytes(word)
        guard special != 0 else { return nil }
        let bits = UInt64(special.trailingZeroBitCount & ~7)
        return UInt8(truncatingIfNeeded: word >> bits) == UInt8(ascii: "\"") ? Int(bits / 8) : nil
    }

    /// Moves to the next quote or backslash.
    /// - Returns: Whether all bytes before it were ASCII.
    private mutating func skipPlainCharacters() throws(MalformedJSON) -> Bool {
        cursor.advance(to: .jsonOrNonASCII)
        let isASCII = cursor.current < 0x80
        if !isASCII { cursor.advance(to: .json) }
        // A control character, or the end, at which the cursor gives 0.
        guard cursor.current >= 0x20 else { throw unexpected() }
        return isASCII
    }

    /// Marks the quotes, backslashes and control characters among eight bytes; the lowest mark is right
    /// (EightBytes.swift).
    static func specialBytes(_ word: UInt64) -> UInt64 {
        mark(UInt8(ascii: "\""), in: word) | mark(UInt8(ascii: "\\"), in: word) | markBelow(0x20, in: word)
    }

    private func text(_ range: Range<Int>, isASCII: Bool) throws(MalformedJSON) -> Text {
        guard let text = isASCII ? cursor.text(range) : cursor.validText(range) else {
            throw .unexpected(byteOffset: range.lowerBound)
        }
        return text
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
        guard let text = Text(validating: scratch.span) else { throw .unexpected(byteOffset: start) }
        return text
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
            cursor.current == UInt8(ascii: "\\"), cursor.peek(1) == UInt8(ascii: "u")
        {
            let second = cursor
            cursor.advance(2)
            let low = try readHex4()
            if low >= 0xDC00, low < 0xE000 {
                unit = 0x10000 + (unit - 0xD800) << 10 + (low - 0xDC00)
            } else {
                cursor = second
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

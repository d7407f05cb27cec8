import PandoBytes

extension RulesLexer {
    /// Reads a string with its quotes.
    mutating func readString() throws(SyntaxError) -> Text {
        let start = offset
        try resolveString()
        guard byte() == UInt8(ascii: "\"") else { throw SyntaxError("Unterminated string.", at: start) }
        offset += 1
        // The source is UTF-8, and half surrogate pairs were refused.
        return Text(String(decoding: scratch, as: UTF8.self))
    }

    /// Puts the text of the string that begins here into `scratch`. Stops at the closing quote, at the end of
    /// the source, or where byte `limit` of the text comes from.
    mutating func resolveString(upTo limit: Int = .max) throws(SyntaxError) {
        scratch.removeAll(keepingCapacity: true)
        offset += 1
        while let next = byte(), next != UInt8(ascii: "\""), scratch.count < limit {
            switch next {
            case UInt8(ascii: "\\"): try readEscape()
            // Expressions may span lines.
            case 0x20..., 0x09, 0x0A, 0x0D:
                scratch.append(next)
                offset += 1
            default: throw SyntaxError("Parse error.", at: offset)
            }
        }
    }

    private mutating func readEscape() throws(SyntaxError) {
        let start = offset
        offset += 1
        guard let name = byte() else { return }
        switch name {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): scratch.append(name)
        case UInt8(ascii: "b"): scratch.append(0x08)
        case UInt8(ascii: "f"): scratch.append(0x0C)
        case UInt8(ascii: "n"): scratch.append(0x0A)
        case UInt8(ascii: "r"): scratch.append(0x0D)
        case UInt8(ascii: "t"): scratch.append(0x09)
        case UInt8(ascii: "u"):
            offset += 1
            try readUnicodeEscape(from: start)
            return
        default:
            // The rest of the character of a lead byte is read with it.
            repeat { offset += 1 } while byte().map { $0 & 0xC0 == 0x80 } ?? false
            throw invalidEscape(from: start)
        }
        offset += 1
    }

    /// The digits after `\u`, and a second escape for the other half of a pair.
    private mutating func readUnicodeEscape(from start: Int) throws(SyntaxError) {
        var unit = try readHex4(from: start)
        if unit >= 0xD800, unit < 0xDC00 {
            guard byte() == UInt8(ascii: "\\"), byte(1) == UInt8(ascii: "u") else {
                throw invalidEscape(from: start)
            }
            offset += 2
            let low = try readHex4(from: start)
            guard low >= 0xDC00, low < 0xE000 else { throw invalidEscape(from: start) }
            unit = 0x10000 + (unit - 0xD800) << 10 + (low - 0xDC00)
        }
        // Nil for the second half of a pair without the first.
        guard let scalar = Unicode.Scalar(unit) else { throw invalidEscape(from: start) }
        scratch.append(contentsOf: UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter)
    }

    private mutating func readHex4(from start: Int) throws(SyntaxError) -> UInt32 {
        var value: UInt32 = 0
        for _ in 0..<4 {
            let digit: UInt8
            switch byte() {
            case let next? where next >= UInt8(ascii: "0") && next <= UInt8(ascii: "9"):
                digit = next - UInt8(ascii: "0")
            case let next? where next | 0x20 >= UInt8(ascii: "a") && next | 0x20 <= UInt8(ascii: "f"):
                digit = (next | 0x20) - UInt8(ascii: "a") + 10
            default: throw invalidEscape(from: start)
            }
            value = value << 4 | UInt32(digit)
            offset += 1
        }
        return value
    }

    /// The escape as far as it was read, for the message.
    private func invalidEscape(from start: Int) -> SyntaxError {
        SyntaxError("Invalid escape: '\(String(decoding: bytes[start..<offset], as: UTF8.self))'", at: start)
    }
}

extension RulesSource {
    /// The offset in the source of byte `utf8Offset` of a rule's text, which may be escaped there.
    ///
    /// - Parameter literal: The range of the rule's value: a string with its quotes, or `true` or `false`.
    func offset(ofText utf8Offset: Int, in literal: Range<Int>) -> Int {
        guard bytes[literal.lowerBound] == UInt8(ascii: "\"") else { return literal.lowerBound + utf8Offset }
        var lexer = RulesLexer(self, offset: literal.lowerBound)
        // It was read before, so it cannot fail.
        try? lexer.resolveString(upTo: utf8Offset)
        return lexer.offset
    }
}

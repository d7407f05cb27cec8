import PandoBytes

/// A token of an expression, and its offset in the text.
struct ExpressionToken {
    enum Kind: Equatable {
        case number(Double)
        case string(Text)
        case identifier(String)
        /// With its `$`.
        case pathVariable(Text)
        case symbol(Symbol)
        case end
    }

    enum Symbol: String {
        case openParenthesis = "("
        case closeParenthesis = ")"
        case openBracket = "["
        case closeBracket = "]"
        case dot = "."
        case comma = ","
        case question = "?"
        case colon = ":"
        case not = "!"
        case minus = "-"
        case plus = "+"
        case times = "*"
        case slash = "/"
        case percent = "%"
        case less = "<"
        case lessOrEqual = "<="
        case greater = ">"
        case greaterOrEqual = ">="
        case equal = "=="
        case identical = "==="
        case notEqual = "!="
        case notIdentical = "!=="
        case and = "&&"
        case or = "||"
    }

    var kind: Kind
    var range: Range<Int>
}

/// Splits an expression into tokens (rules §4). Offsets count bytes of UTF-8.
///
/// Always true: each token but `.end` advances the offset, and no character is split.
struct ExpressionLexer: CommentedText {
    let bytes: [UInt8]
    var offset = 0
    /// The `$` names that are declared here. They may contain characters that other names may not.
    private let variables: [Text]

    init(_ text: Text, variables: [Text]) {
        bytes = Array(text.string.utf8)
        self.variables = variables
    }

    /// The next token; after the last one always `.end`.
    mutating func next() throws(SyntaxError) -> ExpressionToken {
        try skipSpace()
        let start = offset
        guard let first = byte() else { return ExpressionToken(kind: .end, range: start..<start) }
        let kind: ExpressionToken.Kind
        switch first {
        case UInt8(ascii: "'"), UInt8(ascii: "\""): kind = .string(try readString())
        case UInt8(ascii: "0")...UInt8(ascii: "9"): kind = .number(try readNumber())
        case UInt8(ascii: ".") where byte(1).map(Self.isDigit) ?? false: kind = .number(try readNumber())
        case UInt8(ascii: "$"): kind = .pathVariable(try readPathVariable())
        case _ where Self.isLetter(first): kind = .identifier(takeWord())
        default: kind = .symbol(try readSymbol())
        }
        return ExpressionToken(kind: kind, range: start..<offset)
    }

    /// Reads the pattern whose first slash is at `start`, and its flags.
    mutating func readPattern(from start: Int) throws(SyntaxError) -> (text: String, flags: String) {
        offset = start + 1
        var isInSet = false
        while let next = byte(), next != 0x0A, next != 0x0D, isInSet || next != UInt8(ascii: "/") {
            switch next {
            case UInt8(ascii: "["): isInSet = true
            case UInt8(ascii: "]"): isInSet = false
            // An escaped character never ends the pattern.
            case UInt8(ascii: "\\"): if byte(1) != 0x0A, byte(1) != 0x0D { offset += 1 }
            default: break
            }
            offset += 1
        }
        guard byte() == UInt8(ascii: "/") else {
            throw SyntaxError("unterminated regular expression literal", at: start)
        }
        let text = String(decoding: bytes[(start + 1)..<offset], as: UTF8.self)
        offset += 1
        return (text, takeWord())
    }

    // MARK: Bytes

    private static func isDigit(_ byte: UInt8) -> Bool {
        byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")
    }

    private static func isLetter(_ byte: UInt8) -> Bool {
        byte | 0x20 >= UInt8(ascii: "a") && byte | 0x20 <= UInt8(ascii: "z") || byte == UInt8(ascii: "_")
    }

    private static func isWordPart(_ byte: UInt8) -> Bool { isLetter(byte) || isDigit(byte) }

    private mutating func takeWord() -> String {
        let start = offset
        while byte().map(Self.isWordPart) ?? false { offset += 1 }
        return String(decoding: bytes[start..<offset], as: UTF8.self)
    }

    private mutating func skipSpace() throws(SyntaxError) {
        while let first = byte() {
            switch first {
            case 0x20, 0x09...0x0D: offset += 1
            case UInt8(ascii: "/") where byte(1) == UInt8(ascii: "/"): skipLineComment()
            case UInt8(ascii: "/") where byte(1) == UInt8(ascii: "*"):
                try skipBlockComment(orThrow: "unterminated comment")
            default: return
            }
        }
    }

    // MARK: Names and numbers

    /// The longest declared name here, or else anything that has the form of a name.
    private mutating func readPathVariable() throws(SyntaxError) -> Text {
        let start = offset
        var longest = 0
        for variable in variables where variable.utf8Count > longest {
            let end = start + variable.utf8Count
            guard end <= bytes.count, bytes[start..<end].elementsEqual(variable.string.utf8) else { continue }
            let endsInside =
                end < bytes.count && Self.isWordPart(bytes[end]) && Self.isWordPart(bytes[end - 1])
            if !endsInside { longest = variable.utf8Count }
        }
        offset += 1
        if longest > 0 { offset = start + longest } else { _ = takeWord() }
        return Text(String(decoding: bytes[start..<offset], as: UTF8.self))
    }

    /// A decimal number, or a hexadecimal one as in JavaScript.
    private mutating func readNumber() throws(SyntaxError) -> Double {
        let start = offset
        var value: Double = 0
        if byte() == UInt8(ascii: "0"), byte(1).map({ $0 | 0x20 }) == UInt8(ascii: "x") {
            offset += 2
            let digits = offset
            while let digit = byte().flatMap({ Character(Unicode.Scalar($0)).hexDigitValue }) {
                value = value * 16 + Double(digit)
                offset += 1
            }
            guard offset > digits else {
                throw SyntaxError("missing hexadecimal digits after '0x'", at: start)
            }
        } else {
            skipDigits()
            if byte() == UInt8(ascii: "."), byte(1).map(Self.isDigit) ?? false {
                offset += 1
                skipDigits()
            }
            if byte().map({ $0 | 0x20 }) == UInt8(ascii: "e") {
                offset += 1
                if byte() == UInt8(ascii: "+") || byte() == UInt8(ascii: "-") { offset += 1 }
                guard byte().map(Self.isDigit) ?? false else {
                    throw SyntaxError("missing exponent", at: start)
                }
                skipDigits()
            }
            value = Double(String(decoding: bytes[start..<offset], as: UTF8.self)) ?? .nan
        }
        if byte().map(Self.isWordPart) ?? false {
            throw SyntaxError("identifier starts immediately after numeric literal", at: offset)
        }
        return value
    }

    private mutating func skipDigits() {
        while byte().map(Self.isDigit) ?? false { offset += 1 }
    }

    // MARK: Strings

    private mutating func readString() throws(SyntaxError) -> Text {
        let start = offset
        let quote = bytes[start]
        offset += 1
        var text: [UInt8] = []
        while let next = byte(), next != quote {
            switch next {
            case 0x0A, 0x0D: throw SyntaxError("unterminated string literal", at: start)
            case UInt8(ascii: "\\"): try readEscape(into: &text)
            default:
                text.append(next)
                offset += 1
            }
        }
        guard byte() == quote else { throw SyntaxError("unterminated string literal", at: start) }
        offset += 1
        return Text(String(decoding: text, as: UTF8.self))
    }

    private mutating func readEscape(into text: inout [UInt8]) throws(SyntaxError) {
        let start = offset
        offset += 1
        guard let name = byte() else { return }
        offset += 1
        switch name {
        case UInt8(ascii: "n"): text.append(0x0A)
        case UInt8(ascii: "r"): text.append(0x0D)
        case UInt8(ascii: "t"): text.append(0x09)
        case UInt8(ascii: "b"): text.append(0x08)
        case UInt8(ascii: "f"): text.append(0x0C)
        case UInt8(ascii: "'"), UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): text.append(name)
        case UInt8(ascii: "x"): append(try readHexadecimal(digitCount: 2, from: start), to: &text)
        case UInt8(ascii: "u"):
            var unit = try readHexadecimal(digitCount: 4, from: start)
            if unit >= 0xD800, unit < 0xDC00, byte() == UInt8(ascii: "\\"), byte(1) == UInt8(ascii: "u") {
                offset += 2
                let low = try readHexadecimal(digitCount: 4, from: start)
                guard low >= 0xDC00, low < 0xE000 else {
                    throw SyntaxError("invalid escape sequence", at: start)
                }
                unit = 0x10000 + (unit - 0xD800) << 10 + (low - 0xDC00)
            }
            guard Unicode.Scalar(unit) != nil else { throw SyntaxError("invalid escape sequence", at: start) }
            append(unit, to: &text)
        default: throw SyntaxError("invalid escape sequence", at: start)
        }
    }

    private mutating func readHexadecimal(digitCount: Int, from start: Int) throws(SyntaxError) -> UInt32 {
        var value: UInt32 = 0
        for _ in 0..<digitCount {
            guard let digit = byte().flatMap({ Character(Unicode.Scalar($0)).hexDigitValue }) else {
                throw SyntaxError("malformed Unicode character escape sequence", at: start)
            }
            value = value << 4 | UInt32(digit)
            offset += 1
        }
        return value
    }

    private func append(_ value: UInt32, to text: inout [UInt8]) {
        guard let scalar = Unicode.Scalar(value) else { return }
        text.append(contentsOf: UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter)
    }

    // MARK: Symbols

    private mutating func readSymbol() throws(SyntaxError) -> ExpressionToken.Symbol {
        let start = offset
        // Operators of JavaScript that rules do not have, the longer ones first. Not `/=`: a slash may begin
        // a pattern, and the `=` behind it is found anyway.
        for assignment in ["<<=", ">>=", "**=", "+=", "-=", "*=", "%=", "&=", "|=", "^=", "=>"]
        where stands(assignment) {
            throw SyntaxError("Rule expressions may not contain assignments.", at: start)
        }
        for refused in [">>>", "<<", ">>", "**", "??"] where stands(refused) {
            throw SyntaxError("Rule expressions may not contain operator \(refused)", at: start)
        }
        for length in [3, 2, 1] where start + length <= bytes.count {
            let text = String(decoding: bytes[start..<(start + length)], as: UTF8.self)
            guard let symbol = ExpressionToken.Symbol(rawValue: text) else { continue }
            offset += length
            return symbol
        }
        switch bytes[start] {
        case UInt8(ascii: "="): throw SyntaxError("Rule expressions may not contain assignments.", at: start)
        case UInt8(ascii: "&"), UInt8(ascii: "|"), UInt8(ascii: "^"), UInt8(ascii: "~"):
            let name = String(decoding: bytes[start...start], as: UTF8.self)
            throw SyntaxError("Rule expressions may not contain operator \(name)", at: start)
        case UInt8(ascii: ";"), UInt8(ascii: "{"), UInt8(ascii: "}"):
            throw SyntaxError("syntax error", at: start)
        default: throw SyntaxError("illegal character", at: start)
        }
    }

    private func stands(_ text: String) -> Bool {
        let end = offset + text.utf8.count
        return end <= bytes.count && bytes[offset..<end].elementsEqual(text.utf8)
    }
}

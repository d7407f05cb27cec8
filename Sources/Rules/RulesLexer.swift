import PandoBytes

/// A token of a rules document, and its range.
struct RulesToken {
    enum Kind: Equatable {
        case openObject, closeObject, openArray, closeArray, colon, comma
        /// With its escapes resolved.
        case string(Text)
        case `true`, `false`
        /// `null` or a number: valid JSON, but not used in rules.
        case otherLeaf
        /// A character or word that begins no token.
        case unknown
        case end
    }

    var kind: Kind
    var range: Range<Int>
}

/// Splits a rules document into tokens: those of JSON, with comments between them, and with line ends and
/// tabs inside strings (rules §1.1). Their order is checked by ``RulesLoader``.
///
/// Always true: each token but `.end` advances the offset, and no character is split, since all delimiters
/// are ASCII.
struct RulesLexer: CommentedText {
    let bytes: [UInt8]
    var offset: Int
    /// The current string. The memory is reused.
    var scratch: [UInt8] = []

    init(_ source: RulesSource, offset: Int = 0) {
        bytes = source.bytes
        self.offset = offset
    }

    /// The next token; after the last one always `.end`.
    mutating func next() throws(SyntaxError) -> RulesToken {
        try skipSpace()
        let start = offset
        guard let first = byte() else { return RulesToken(kind: .end, range: start..<start) }
        let kind: RulesToken.Kind
        switch first {
        case UInt8(ascii: "\""): kind = .string(try readString())
        case UInt8(ascii: "{"): kind = consume(.openObject)
        case UInt8(ascii: "}"): kind = consume(.closeObject)
        case UInt8(ascii: "["): kind = consume(.openArray)
        case UInt8(ascii: "]"): kind = consume(.closeArray)
        case UInt8(ascii: ":"): kind = consume(.colon)
        case UInt8(ascii: ","): kind = consume(.comma)
        default: kind = readWord()
        }
        return RulesToken(kind: kind, range: start..<offset)
    }

    private mutating func consume(_ kind: RulesToken.Kind) -> RulesToken.Kind {
        offset += 1
        return kind
    }

    // MARK: Between tokens

    /// Skips white space and comments.
    private mutating func skipSpace() throws(SyntaxError) {
        while let first = byte() {
            switch first {
            case 0x20, 0x09, 0x0A, 0x0D: offset += 1
            case UInt8(ascii: "/"):
                switch byte(1) {
                case UInt8(ascii: "/"): skipLineComment()
                case UInt8(ascii: "*"): try skipBlockComment(orThrow: "Unterminated comment.")
                default: return
                }
            default: return
            }
        }
    }

    // MARK: Words

    /// `true`, `false`, `null`, a number, or an unknown word.
    private mutating func readWord() -> RulesToken.Kind {
        let start = offset
        while let next = byte(), Self.isPartOfWord(next) { offset += 1 }
        guard offset > start else {
            // One character, all of its bytes.
            repeat { offset += 1 } while byte().map { $0 & 0xC0 == 0x80 } ?? false
            return .unknown
        }
        let word = bytes[start..<offset]
        if word.elementsEqual("true".utf8) { return .true }
        if word.elementsEqual("false".utf8) { return .false }
        return word.elementsEqual("null".utf8) || Self.isNumber(word) ? .otherLeaf : .unknown
    }

    private static func isPartOfWord(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "+"), UInt8(ascii: "-"),
            UInt8(ascii: "."), UInt8(ascii: "$"):
            true
        default: false
        }
    }

    /// RFC 8259 §6.
    private static func isNumber(_ word: ArraySlice<UInt8>) -> Bool {
        var rest = word
        func isDigit(_ byte: UInt8) -> Bool { byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9") }
        func takeDigits() -> Bool {
            let digits = rest.prefix(while: isDigit)
            rest = rest.dropFirst(digits.count)
            return !digits.isEmpty
        }
        if rest.first == UInt8(ascii: "-") { rest = rest.dropFirst() }
        let first = rest.first
        let before = rest.count
        guard takeDigits(), first != UInt8(ascii: "0") || before - rest.count == 1 else { return false }
        if rest.first == UInt8(ascii: ".") {
            rest = rest.dropFirst()
            guard takeDigits() else { return false }
        }
        if rest.first == UInt8(ascii: "e") || rest.first == UInt8(ascii: "E") {
            rest = rest.dropFirst()
            if rest.first == UInt8(ascii: "+") || rest.first == UInt8(ascii: "-") { rest = rest.dropFirst() }
            guard takeDigits() else { return false }
        }
        return rest.isEmpty
    }
}

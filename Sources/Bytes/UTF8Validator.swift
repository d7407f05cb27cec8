/// Checks UTF-8 as it arrives, in pieces of any size (RFC 3629: no overlong forms, no surrogates, nothing
/// above U+10FFFF). A piece may end inside a character; the next one goes on from there.
package struct UTF8Validator: Equatable, Sendable {
    /// Continuation bytes still owed by the character that has begun. 0…3.
    private var owed: UInt8 = 0
    /// What the next continuation byte may be; only the first one after a lead byte is narrower than 80…BF.
    private var lowest: UInt8 = 0x80
    private var highest: UInt8 = 0xBF

    package init() {}

    /// True when no character is unfinished: a text may end here.
    package var isAtBoundary: Bool { owed == 0 }

    /// Takes the next piece.
    /// - Returns: false as soon as the text cannot be UTF-8, however it goes on.
    /// - Complexity: O(piece); eight bytes a step while they are ASCII.
    package mutating func accept(_ piece: RawSpan) -> Bool {
        withCursor(over: piece) { accept(&$0) }
    }

    private mutating func accept(_ cursor: inout ByteCursor) -> Bool {
        while !cursor.isAtEnd {
            if owed == 0, let word = cursor.word, markNonASCII(word) == 0 {
                cursor.advance(8)
                continue
            }
            let byte = cursor.current
            cursor.advance()
            if owed > 0 {
                guard byte >= lowest, byte <= highest else { return false }
                owed &-= 1
                lowest = 0x80
                highest = 0xBF
                continue
            }
            switch byte {
            case 0x00...0x7F: break
            case 0xC2...0xDF: owed = 1
            case 0xE0: owed = 2; lowest = 0xA0
            case 0xE1...0xEC, 0xEE, 0xEF: owed = 2
            case 0xED: owed = 2; highest = 0x9F
            case 0xF0: owed = 3; lowest = 0x90
            case 0xF1...0xF3: owed = 3
            case 0xF4: owed = 3; highest = 0x8F
            default: return false
            }
        }
        return true
    }
}

/// True when `bytes` are one whole UTF-8 text.
package func isValidUTF8(_ bytes: RawSpan) -> Bool {
    var validator = UTF8Validator()
    return validator.accept(bytes) && validator.isAtBoundary
}

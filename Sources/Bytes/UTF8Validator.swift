/// Checks UTF-8 in pieces of any size (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF). A
/// piece may end inside a character; the next piece continues it.
package struct UTF8Validator: Equatable, Sendable {
    /// Continuation bytes that the current character still needs: 0…3.
    private var missing: UInt8 = 0
    /// The range of the next continuation byte: 80…BF, and for the first one after some lead bytes narrower.
    private var lowest: UInt8 = 0x80
    private var highest: UInt8 = 0xBF

    package init() {}

    /// Whether no character is incomplete, so that the text may end here.
    package var isAtBoundary: Bool { missing == 0 }

    /// Checks the next piece.
    /// - Returns: false as soon as the text cannot be UTF-8, whatever follows. Then the validator must not be
    ///   used.
    /// - Complexity: O(piece); eight bytes a step while they are ASCII.
    package mutating func accept(_ piece: RawSpan) -> Bool {
        withCursor(over: piece) { accept(&$0) }
    }

    private mutating func accept(_ cursor: inout ByteCursor) -> Bool {
        while !cursor.isAtEnd {
            if missing == 0, let word = cursor.word, markNonASCII(word) == 0 {
                cursor.advance(8)
                continue
            }
            let byte = cursor.current
            cursor.advance()
            if missing > 0 {
                guard byte >= lowest, byte <= highest else { return false }
                missing &-= 1
                lowest = 0x80
                highest = 0xBF
                continue
            }
            switch byte {
            case 0x00...0x7F: break
            case 0xC2...0xDF: missing = 1
            case 0xE0: missing = 2; lowest = 0xA0
            case 0xE1...0xEC, 0xEE, 0xEF: missing = 2
            case 0xED: missing = 2; highest = 0x9F
            case 0xF0: missing = 3; lowest = 0x90
            case 0xF1...0xF3: missing = 3
            case 0xF4: missing = 3; highest = 0x8F
            default: return false
            }
        }
        return true
    }
}

/// Whether `bytes` are a complete UTF-8 text. O(bytes).
package func isValidUTF8(_ bytes: RawSpan) -> Bool {
    var validator = UTF8Validator()
    return validator.accept(bytes) && validator.isAtBoundary
}

/// Bytes that are gone through once, with comments between what they say: a rules document, and each
/// expression in it.
protocol CommentedText {
    var bytes: [UInt8] { get }
    /// The byte to be looked at next.
    var offset: Int { get set }
}

extension CommentedText {
    /// The byte `ahead` places on, or nil beyond the end.
    func byte(_ ahead: Int = 0) -> UInt8? {
        offset + ahead < bytes.count ? bytes[offset + ahead] : nil
    }

    /// Moves behind a `//` comment, up to the line's end.
    mutating func skipLineComment() {
        while let next = byte(), next != 0x0A, next != 0x0D { offset += 1 }
    }

    /// Moves behind a `/*` comment.
    /// - Throws: `problem`, at its beginning, when it does not end.
    mutating func skipBlockComment(orThrow problem: String) throws(SyntaxError) {
        let start = offset
        offset += 2
        while let next = byte() {
            offset += 1
            if next == UInt8(ascii: "*"), byte() == UInt8(ascii: "/") {
                offset += 1
                return
            }
        }
        throw SyntaxError(problem, at: start)
    }
}

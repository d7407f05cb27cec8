/// Bytes that are read once, with comments between the tokens: a rules document, and each expression in it.
protocol CommentedText {
    var bytes: [UInt8] { get }
    /// The offset of the next byte.
    var offset: Int { get set }
}

extension CommentedText {
    /// The byte `ahead` of the next one; nil beyond the end.
    func byte(_ ahead: Int = 0) -> UInt8? {
        offset + ahead < bytes.count ? bytes[offset + ahead] : nil
    }

    /// Skips a `//` comment, up to the end of the line.
    mutating func skipLineComment() {
        while let next = byte(), next != 0x0A, next != 0x0D { offset += 1 }
    }

    /// Skips a `/*` comment.
    /// - Throws: `problem`, at its beginning, when the comment does not end.
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

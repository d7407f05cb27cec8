// Texts of clients are cut by their bytes. A character may have any number of them, such as a letter with
// thousands of combining marks, and finding its end takes a look at all.

extension String {
    /// The text; where it is longer than `byteCount` bytes of UTF-8, as many whole Unicode scalars from its
    /// beginning as have at most that many. None where that is negative.
    /// - Complexity: O(`byteCount`) where it is cut, and otherwise O(1).
    package func prefix(byteCount: Int) -> String {
        let byteCount = max(0, byteCount)
        guard utf8.count > byteCount else { return self }
        var end = utf8.index(startIndex, offsetBy: byteCount)
        while end > startIndex, UTF8.isContinuation(utf8[end]) { end = utf8.index(before: end) }
        return String(self[..<end])
    }
}

extension Text {
    /// As of a `String`.
    package func prefix(byteCount: Int) -> Text {
        let byteCount = max(0, byteCount)
        guard utf8Count > byteCount else { return self }
        return withBytes { bytes in
            var end = byteCount
            while end > 0, UTF8.isContinuation(bytes[end]) { end -= 1 }
            return Text(utf8: bytes.extracting(..<end))
        }
    }
}

/// Lines of the text log, as a terminal may show them. Clients choose parts of them: paths, user ids,
/// origins.
package enum LogLine {
    /// The bytes of a line and its line feed. Characters that would end the line, move the cursor, change the
    /// order in which others are shown, look like a space, or are not shown at all, are written as in a Swift
    /// literal: `\u{1B}`, `\u{202E}`, `\u{A0}`. So a client cannot add a line of its own, nor, where a
    /// path has no space, a part of one, such as `status=200`. (A text may hold these characters themselves,
    /// a backslash and so on; they stay as they are.)
    /// - Parameters:
    ///   - line: Ends with a line feed, which stays as it is.
    ///   - isJSON: They are written as JSON writes them, `\u202e`, so that JSON in the line stays JSON.
    /// - Complexity: O(bytes).
    package static func bytes(_ line: String, isJSON: Bool = false) -> [UInt8] {
        let bytes = Array(line.utf8)
        let end = bytes.last == UInt8(ascii: "\n") ? bytes.count - 1 : bytes.count
        guard bytes[..<end].contains(where: { !printableASCII.contains($0) }) else { return bytes }
        var escaped: [UInt8] = []
        escaped.reserveCapacity(bytes.count + 16)
        for scalar in line.unicodeScalars.dropLast(bytes.count - end) {
            if scalar.isASCII, printableASCII.contains(UInt8(ascii: scalar)) {
                escaped.append(UInt8(ascii: scalar))
            } else if isShown(scalar) {
                escaped.append(contentsOf: UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter)
            } else if isJSON {
                for unit in UTF16.encode(scalar) ?? UTF16.encodedReplacementCharacter {
                    escaped.append(contentsOf: #"\u"#.utf8)
                    for shift in [12, 8, 4, 0] { escaped.append(hexDigits[Int(unit >> UInt16(shift)) & 15]) }
                }
            } else {
                escaped.append(contentsOf: #"\u{\#(String(scalar.value, radix: 16, uppercase: true))}"#.utf8)
            }
        }
        escaped.append(contentsOf: bytes[end...])
        return escaped
    }

    private static let hexDigits = Array("0123456789abcdef".utf8)
    private static let printableASCII: ClosedRange<UInt8> = 0x20...0x7E
    /// It says that the character before it is to be shown in colour, and stands in many texts.
    private static let emojiVariationSelector: Unicode.Scalar = "\u{FE0F}"

    /// Symbols by their category that are blank: a braille pattern without dots, and a note without a head.
    private static let blankSymbols: Set<Unicode.Scalar> = ["\u{2800}", "\u{1D159}"]

    /// Not for ASCII: U+0020 is a space, too.
    private static func isShown(_ scalar: Unicode.Scalar) -> Bool {
        if scalar == emojiVariationSelector { return true }
        if scalar.properties.isDefaultIgnorableCodePoint || blankSymbols.contains(scalar) { return false }
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .spaceSeparator: return false
        default: return true
        }
    }
}

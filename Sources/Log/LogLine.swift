/// Lines of the text log, as a terminal may show them. Clients choose parts of them: paths, user ids,
/// origins.
package enum LogLine {
    /// The bytes of a line and its line feed. Characters that would end the line, move the cursor, or change
    /// the order in which others are shown (control and format characters, line and paragraph separators) are
    /// written as in a Swift literal: `\u{1B}`, `\u{202E}`. So a client can neither add a line of its own
    /// nor hide what it has sent.
    /// - Parameter line: Ends with a line feed, which stays as it is.
    /// - Complexity: O(bytes).
    package static func bytes(_ line: String) -> [UInt8] {
        var bytes = Array(line.utf8)
        guard bytes.contains(where: { !printableASCII.contains($0) }) else { return bytes }
        let hasEnd = bytes.last == UInt8(ascii: "\n")
        bytes.removeAll(keepingCapacity: true)
        for scalar in line.unicodeScalars.dropLast(hasEnd ? 1 : 0) {
            if isShown(scalar) {
                bytes.append(contentsOf: UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter)
            } else {
                bytes.append(contentsOf: #"\u{\#(String(scalar.value, radix: 16, uppercase: true))}"#.utf8)
            }
        }
        if hasEnd { bytes.append(UInt8(ascii: "\n")) }
        return bytes
    }

    private static let printableASCII: ClosedRange<UInt8> = 0x20...0x7E

    private static func isShown(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator: false
        default: true
        }
    }
}

import PandoBytes
import PandoTree
import Testing

/// Characters to escape are searched 32 bytes at once, then eight: each special character at every position
/// of texts of up to 74 bytes, alone and with another in the next 32, next to letters beyond ASCII, against a
/// printer of one scalar at a time. What was printed is read as the same text.
@Suite struct EscapingTests {
    private func naive(_ text: String) -> String {
        var printed = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": printed += "\\\""
            case "\\": printed += "\\\\"
            case "\n": printed += "\\n"
            case "\u{1}": printed += "\\u0001"
            case "\u{1F}": printed += "\\u001f"
            default: printed.unicodeScalars.append(scalar)
            }
        }
        return printed + "\""
    }

    @Test func everyCharacterAtEveryPosition() throws {
        for count in Array(0...24) + [31, 32, 33, 39, 40, 63, 64, 65, 72] {
            for place in 0...count {
                for special in ["", "\"", "\\", "\n", "\u{1}", "\u{1F}", "\u{7F}", "é", "\"\"", "\\\u{1}"] {
                    for filler in ["x", "ü", " "] {
                        let text =
                            String(repeating: filler, count: place) + special
                            + String(repeating: filler, count: count - place)
                        try check(text)
                        guard count - place >= 32, special.utf8.count == 1 else { continue }
                        try check(
                            String(repeating: filler, count: place) + special
                                + String(repeating: filler, count: 31) + special
                                + String(repeating: filler, count: count - place - 32))
                    }
                }
            }
        }
    }

    private func check(_ text: String) throws {
        let printed = naive(text)
        let node = Node.string(Text(text))
        if node.description != printed { Issue.record("\(node) for \(printed)") }
        if try Node(json: Array(printed.utf8).rawSpan) != node { Issue.record("\(printed) is not read back") }
    }
}

import PandoBytes
import PandoTree
import Testing

/// What is escaped is found eight bytes at a look: each special character at every place of texts of up to 26 bytes, beside
/// letters beyond ASCII, against one scalar after the other.
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

    @Test func everyPlace() {
        for count in 0...24 {
            for place in 0...count {
                for special in ["", "\"", "\\", "\n", "\u{1}", "\u{1F}", "\u{7F}", "é", "\"\"", "\\\u{1}"] {
                    for filler in ["x", "ü", " "] {
                        let text =
                            String(repeating: filler, count: place) + special
                            + String(repeating: filler, count: count - place)
                        #expect(Node.string(Text(text)).description == naive(text))
                    }
                }
            }
        }
    }
}

import PandoBytes
import Testing

/// Text of clients, looked at as bytes.
struct TextBytesTests {
    @Test(
        arguments: [
            ("", true, nil), ("0", true, 0), ("007", true, 7), ("9223372036854775807", true, Int64.max),
            ("9223372036854775808", true, nil), ("+1", true, nil), ("-1", true, nil), ("1 ", true, nil),
            ("\u{661}", false, nil), ("1e5", true, nil), ("abc\u{0}", true, nil), ("caf\u{E9}", false, nil),
        ] as [(String, Bool, Int64?)])
    func properties(string: String, isASCII: Bool, number: Int64?) {
        let text = Text(string)
        #expect(text.isEmpty == string.isEmpty && text.bytes == Array(string.utf8))
        #expect(text.isASCII == isASCII && text.asciiString == (isASCII ? string : nil))
        #expect(text.number(as: Int64.self) == number)
    }

    /// Canonically equivalent, and not the same bytes.
    @Test func equivalentsDiffer() {
        #expect(Text("\u{37E}").equals("\u{37E}") && !Text("\u{37E}").equals(";"))
        #expect(!Text("a").equals("ab") && !Text("ab").equals("a") && Text("").equals(""))
        let long = Text("auth_variable_override")
        #expect(long.equals("auth_variable_override") && !long.equals("auth_variable_overridE"))
    }
}

import Testing

@testable import PandoCommandLine

/// An argument cannot add a line to the error that quotes it.
@Suite struct QuotedArgumentsTests {
    @Test(
        arguments: [
            // the message has  of the arguments  it is shown with
            ("'a\nforged'", ["a\nforged"], #"'a\u{A}forged'"#),
            ("a\nforged/file: missing", ["a\nforged"], #"a\u{A}forged/file: missing"#),
            ("'1a\nforged' for '--port'", ["--port=1a\nforged"], #"'1a\u{A}forged' for '--port'"#),
            ("option '--po\nrt'", ["--po\nrt=1"], #"option '--po\u{A}rt'"#),
            ("'--po\nrt=1'", ["--po\nrt=1"], #"'--po\u{A}rt=1'"#),
            ("'a=\nb' and '\nb'", ["a=\nb", "\nb"], #"'a=\u{A}b' and '\u{A}b'"#),
            ("'\n'\nUsage: pando", ["\n"], "'\\u{A}'\nUsage: pando"),
            (
                "two: 'a\nb', '\n'\nUsage", ["a\nb", "\n"], "two: 'a\\u{A}b', '\\u{A}'\nUsage"
            ),
            ("'a'\nUsage: pando", ["a"], "'a'\nUsage: pando"),
        ] as [(String, [String], String)])
    func lineFeedsOfArgumentsAreEscaped(message: String, arguments: [String], shown: String) {
        #expect(QuotedArguments.escaped(in: message, of: arguments) == shown)
    }
}

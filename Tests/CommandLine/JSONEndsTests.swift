import Testing

@testable import PandoCommandLine

@Suite struct JSONEndsTests {
    /// A response that only opens brackets takes no more memory than one of data.
    @Test(arguments: [(JSONEnds.depthLimit, true), (JSONEnds.depthLimit + 1, false)])
    func depth(count: Int, isComplete: Bool) {
        var ends = JSONEnds()
        ends.read(Array((String(repeating: "[", count: count) + String(repeating: "]", count: count)).utf8))
        #expect(ends.isComplete == isComplete)
    }

    @Test(
        arguments: [
            // text                       is complete  because
            (#"{"a":[1,2.5e-3,{"b":null}],"c":"}\"]"}"#, true, "brackets in a string do not count"),
            ("{\n  \"a\" : true\n}\n", true, "pretty"), ("null", true, "nothing"),
            ("-1.5e3", true, "a number"),
            ("\"a\"", true, "a string"), ("[]", true, "an array"), (" 5 ", true, "white space"),
            ("", false, "nothing has come"), ("  \n", false, "only white space"),
            (#"{"a":[1,2"#, false, "cut between values"), (#"{"a":"b"#, false, "cut in a string"),
            (#"{"a":"b\"#, false, "cut in an escape"), (#"{"a":1"#, false, "cut before the end"),
            ("nul", false, "a word that was cut"), ("-", false, "half a number"),
            ("<html><body>{}</body></html>", false, "a page"), ("{<", false, "a page further in"),
            ("{}{}", false, "two values"), ("{} x", false, "something behind"),
            ("{]", false, "a wrong bracket"),
            ("}", false, "no beginning"), ("Bad Gateway", false, "a text"),
        ] as [(String, Bool, String)])
    func wholeValues(text: String, isComplete: Bool, reason: String) {
        var whole = JSONEnds()
        whole.read(Array(text.utf8))
        #expect(whole.isComplete == isComplete, "\(reason)")
        var inPieces = JSONEnds()
        for byte in text.utf8 { inPieces.read([byte]) }
        #expect(inPieces.isComplete == isComplete, "\(reason)")
    }
}

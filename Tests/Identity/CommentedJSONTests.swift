import PandoBytes
import PandoRandom
import PandoTree
import Testing

@testable import PandoIdentity

@Suite struct CommentedJSONTests {
    @Test(
        arguments: [
            // text                             result                               because
            ("", "", "nothing"),
            (#"{"a":1}"#, #"{"a":1}"#, "no comment"),
            ("{// a\n}", "{    \n}", "to the end of the line"),
            ("{// a\r\n}", "{    \r\n}", "both ends of lines"),
            ("{}//", "{}  ", "to the end of the file"),
            (#"{/* " */"a":1}"#, #"{       "a":1}"#, "a quote in a comment begins no text"),
            ("{/* a\nb */}", "{    \n    }", "lines are kept"),
            (#"{"a":"// b"}"#, #"{"a":"// b"}"#, "a text is no comment"),
            (#"{"a":"\"// b"}"#, #"{"a":"\"// b"}"#, "a quote inside a text"),
            (#"{"a":"\\"// b"#, #"{"a":"\\"    "#, "an escaped backslash is before the end of a text"),
            ("{\"a\":1,\n}", "{\"a\":1 \n}", "a comma at the end"),
            ("[1, // b\n]", "[1      \n]", "a comma, a comment, the end"),
            ("[1,,]", "[1, ]", "one comma only"),
            ("[,1]", "[,1]", "a comma elsewhere is none at the end"),
            ("{/* a", "{/* a", "a comment without an end"),
            ("{/*/", "{/*/", "the same asterisk does not end it"),
            ("{/ }", "{/ }", "no comment"),
            ("{\"a", "{\"a", "a text without an end"),
            ("{\"a\\", "{\"a\\", "a text that ends in a backslash"),
            ("/", "/", "the last byte"),
        ] as [(String, String, String)])
    func commentsBecomeSpaces(text: String, expected: String, because: String) {
        let result = CommentedJSON.withoutComments(Array(text.utf8))
        #expect(String(decoding: result, as: UTF8.self) == expected, "\(because)")
    }

    /// Whatever the bytes are: as many come out, and JSON without comments stays what it is.
    @Test func anyBytes() {
        var random = SeededGenerator(seed: 39)
        let alphabet = Array(#"{}[]",:/\*1a "#.utf8) + [0x0A]
        for _ in 0..<2000 {
            let bytes: [UInt8] = (0..<12).map { _ in
                alphabet[Int.random(in: alphabet.indices, using: &random)]
            }
            let result = CommentedJSON.withoutComments(bytes)
            #expect(result.count == bytes.count, "\(bytes)")
            if JSONObject(bytes) != nil {
                #expect(result == bytes, "\(bytes)")
            }
        }
    }
}

import PandoBytes
import PandoTree
import Testing

@testable import PandoRules

/// True for one JSON value by the reader of clients' messages, which allows nothing that RFC 8259 does not.
func isStrictJSON(_ bytes: [UInt8]) -> Bool {
    withCursor(over: bytes.rawSpan) { cursor in
        var reader = JSONReader(cursor)
        do {
            _ = try reader.skipValue()
            try reader.expectEnd()
            return reader.invalidData == nil
        } catch {
            return false
        }
    }
}

@Test(arguments: [
    // document                                              strict
    (#"{"rules":{}}"#, #"{"rules":{}}"#),
    ("// a\n{ \"rules\" : { /* b */ } , } // c", #"{"rules":{}}"#),
    ("{\"rules\":{\".read\":\"true\n\t&& now>1\r\n\",},}", #"{"rules":{".read":"true\n\t&& now>1\r\n"}}"#),
    (
        #"{"rules":{".indexOn":["a","b",],".read":true,".write" : false}}"#,
        #"{"rules":{".indexOn":["a","b"],".read":true,".write":false}}"#
    ),
    (
        #"{"rules":{"\u0061 // b":{".read":"'x /* y */ , }' < 'y'"}}}"#.replacing("//", with: "--"),
        #"{"rules":{"\u0061 -- b":{".read":"'x /* y */ , }' < 'y'"}}}"#
    ),
    (
        #"{"rules":{"é🐵":{".validate":"\"\\\\\/\ud83d\udc35\" > ''"}}}"#,
        #"{"rules":{"é🐵":{".validate":"\"\\\\\/\ud83d\udc35\" > ''"}}}"#
    ),
])
func strictForm(document: String, strict: String) throws {
    let loaded = try load(document)
    #expect(String(decoding: loaded.strictJSON, as: UTF8.self) == strict)
    #expect(isStrictJSON(loaded.strictJSON))
    #expect(try Ruleset(loading: loaded.strictJSON).root.outline == loaded.root.outline)
}

import PandoBytes
import Testing

@testable import PandoRules

private let badExpression = "Invalid rule expression.  Expected 'true', 'false', or an expression string."
private let badIndex = "Invalid indexOn expression. Must be either a string or an array of strings"
private let badName = ##"String can't contain ".", "#", "$", "/", "[", or "]""##

/// JSON that is not a rules document, and the position of the problem (rules §1.2).
@Test(arguments: [
    // document                                   problems                                          because
    ("{}", ["1:2: Expected 'rules' property."], "no rules"),
    (#"{"Rules":{}}"#, ["1:2: Expected 'rules' property."], "case counts"),
    (#"{".read":true,".write":true}"#, ["1:2: Expected 'rules' property."], "said once"),
    (
        #"{"rules":{},"x":1,"y":{"z":[]}}"#,
        ["1:13: Unexpected property 'x'.", "1:19: Unexpected property 'y'."], "nothing beside rules"
    ),
    (#"{"rules":true}"#, ["1:10: Expected '{'."], "rules are an object"),
    (#"{"rules":null}"#, ["1:10: Expected '{'."], "null is not an object"),
    (#"{"rules":{"a":true}}"#, ["1:15: Expected '{'."], "a child is an object"),
    (#"{"rules":{"a":[{}]}}"#, ["1:15: Expected '{'."], "an array is not an object"),
    (#"{"rules":{"//": "text"}}"#, ["1:17: Expected '{'."], "a pseudo-comment is a child like any other"),
    (#"{"rules":{".reed":true}}"#, ["1:19: Expected '{'."], "an unknown property that is no object"),
    (#"{"rules":{".reed":{}}}"#, ["1:11: \(badName)"], "an unknown property that is one"),
    (#"{"rules":{".value":{}}}"#, ["1:11: \(badName)"], "a pseudo-key of the data is no child"),
    (
        #"{"rules":{"a.b":{},"a#":{},"a$":{},"a/b":{},"[":{},"]":{}}}"#,
        [11, 20, 28, 36, 45, 52].map { "1:\($0): \(badName)" }, "every character that keys cannot have"
    ),
    (#"{"rules":{"$a.b":{}}}"#, ["1:11: \(badName)"], "nor wildcards"),
    (#"{"rules":{"$$":{}}}"#, ["1:11: \(badName)"], "where a dollar is the first character only"),
    (
        #"{"rules":{"":{}}}"#,
        ["1:11: Invalid key '': it must be 1 to 768 bytes without control characters."], "no key is empty"
    ),
    (
        "{\"rules\":{\"a\tb\":{}}}",
        ["1:11: Invalid key 'a b': it must be 1 to 768 bytes without control characters."],
        "characters that keys must not have"
    ),
    (
        #"{"rules":{".read":1,".write":null,".validate":[true]}}"#,
        ["1:19: \(badExpression)", "1:30: \(badExpression)", "1:47: \(badExpression)"],
        "a rule that is neither string nor boolean"
    ),
    (#"{"rules":{".read":{"a":{}}}}"#, ["1:19: \(badExpression)"], "a rule that is an object"),
    (#"{"rules":{".indexOn":true}}"#, ["1:22: \(badIndex)"], "an index is text"),
    (#"{"rules":{".indexOn":{"a":1}}}"#, ["1:22: \(badIndex)"], "not an object"),
    (#"{"rules":{".indexOn":["a",1,"b",["c"]]}}"#, ["1:27: \(badIndex)", "1:33: \(badIndex)"], "all of it"),
    (
        #"{"rules":{"$x":{},"$y":{},"$z":{}}}"#,
        [
            "1:19: Cannot have multiple default rules ('$x' and '$y').",
            "1:27: Cannot have multiple default rules ('$x' and '$z').",
        ], "one wildcard a node"
    ),
    (
        #"{"rules":{"$a":{"b":{"$a":{}}}}}"#, ["1:22: Variable '$a' is already defined by a rule above."],
        "a name may be declared once"
    ),
    (
        #"{"rules":{".read":true,".read":false}}"#, ["1:24: Duplicate key '.read'."],
        "a property may be given once"
    ),
    (#"{"rules":{"a":{},"\u0061":{}}}"#, ["1:18: Duplicate key 'a'."], "a duplicate with escapes"),
    (#"{"rules":{},"rules":{}}"#, ["1:13: Duplicate key 'rules'."], "`rules` may be given once"),
    (
        "{\n  \"rules\": {\n    \".read\": 1,\n    \"a\": { \".writ\": {}, \"b\": 2 },\n    \"$x\": {}, \"$y\": { \".validate\": {} }\n  }\n}",
        [
            "3:14: \(badExpression)", "4:12: \(badName)", "4:30: Expected '{'.",
            "5:15: Cannot have multiple default rules ('$x' and '$y').", "5:36: \(badExpression)",
        ], "every problem at once, in order"
    ),
    (
        #"{"rules":{"\#(String(repeating: "k", count: 70)).":{},"\#(String(repeating: "k", count: 769))":{}}}"#,
        [
            "1:11: \(badName)",
            "1:88: Invalid key '\(String(repeating: "k", count: 64))…': it must be 1 to 768 bytes without control characters.",
        ], "a name is repeated only so far"
    ),
])
func structure(document: String, expected: [String], reason: String) {
    #expect(problems(document) == expected, "\(reason)")
}

/// Malformed documents, and the position of the error (§1.1).
@Test(arguments: [
    // document                               problem                              because
    ("", "1:1: Parse error.", "nothing"),
    ("\n\n", "3:1: Parse error.", "an empty document of two lines"),
    ("{\n\"rules\": {\n\".read\": true\n}\n", "5:1: Parse error.", "a missing brace is reported at the end"),
    (#"{"rules":{}} x"#, "1:14: Parse error.", "text after the document"),
    (#"{"rules":{}}{}"#, "1:13: Parse error.", "a second document"),
    (#"{"rules":{}},"#, "1:13: Parse error.", "nor a comma"),
    ("[]", "1:1: Parse error.", "a document is an object"),
    ("true", "1:1: Parse error.", "nothing else"),
    ("5", "1:1: Parse error.", "no number"),
    (#""x""#, "1:1: Parse error.", "no text"),
    ("rules", "1:1: Parse error.", "really"),
    ("invalid json %{!@[", "1:1: Parse error.", "no JSON at all"),
    ("// Bolt\ntype Room { name: String }\n", "2:1: Parse error.", "rules in another language"),
    (#"{"rules":x}"#, "1:10: Parse error.", "a word in place of the rules"),
    (#"{"rules":{".read":true,,}}"#, #"1:24: Expected '"'."#, "a doubled comma"),
    (#"{"rules":{".indexOn":["a",,]}}"#, #"1:27: Expected '"'."#, "in an array too"),
    (#"{"rules":{,".read":true}}"#, "1:11: Unexpected ','.", "a leading comma"),
    (#"{"rules":{,}}"#, "1:11: Unexpected ','.", "a comma and nothing else"),
    (#"{"rules":{".indexOn":[,]}}"#, "1:23: Unexpected ','.", "in an array too"),
    ("{rules:{}}", "1:2: Parse error.", "an unquoted name"),
    ("{'rules':{}}", "1:2: Parse error.", "single quotes"),
    ("{true:{}}", #"1:2: Expected '"'."#, "a name is a string"),
    (#"{"rules" {}}"#, "1:10: Expected ':'.", "a missing colon"),
    (#"{"rules":{".read":true ".write":true}}"#, "1:24: Expected ',' or '}'.", "a missing comma"),
    (#"{"rules":{".indexOn":["a" "b"]}}"#, "1:27: Expected ',' or ']'.", "in an array too"),
    (#"{"rules":{".indexOn":["a"}}"#, "1:26: Expected ',' or ']'.", "the wrong bracket"),
    (#"{"rules":{]}"#, #"1:11: Expected '"'."#, "the wrong bracket in an object"),
    (#"{"rules":}"#, "1:10: Unexpected '}'.", "no value"),
    (#"{"rules":{".read":,}}"#, "1:19: Unexpected ','.", "no value for a rule"),
    (#"{"rules":{".read":auth != null}}"#, "1:19: \(badExpression)", "an expression without quotes"),
    (#"{"rules":{".read":True}}"#, "1:19: \(badExpression)", "a constant misspelled"),
    (#"{"rules":{".indexOn":name}}"#, "1:22: \(badIndex)", "an index without quotes"),
    (#"{"rules":{"a":tru}}"#, "1:15: Parse error.", "no word either"),
    ("{\"rules\":{\".read\":\"a\\\nb\"}}", "1:21: Invalid escape: '\\\n'", "a backslash before a line end"),
    (#"{"rules":{".read":"\q"}}"#, #"1:20: Invalid escape: '\q'"#, "no such escape"),
    (#"{"rules":{".read":"\é"}}"#, #"1:20: Invalid escape: '\é'"#, "half of a surrogate pair"),
    (#"{"rules":{".read":"\u00g0"}}"#, #"1:20: Invalid escape: '\u00'"#, "no hexadecimal"),
    (#"{"rules":{".read":"\ud83d"}}"#, #"1:20: Invalid escape: '\ud83d'"#, "half a pair"),
    (
        #"{"rules":{".read":"\ud83d\u0061"}}"#, #"1:20: Invalid escape: '\ud83d\u0061'"#,
        "half of a surrogate pair, then a letter"
    ),
    (#"{"rules":{".read":"\udc35"}}"#, #"1:20: Invalid escape: '\udc35'"#, "the other half"),
    ("{\"rules\":{\".read\":\"a\u{1}\"}}", "1:21: Parse error.", "a control character"),
    ("{\"rules\":{\".read\":\"a\u{0}\"}}", "1:21: Parse error.", "NUL is no end"),
    (#"{"rules":{".read":"auth}}"#, "1:19: Unterminated string.", "a missing quote"),
    (#"{"rules":{".read":"auth\"#, "1:19: Unterminated string.", "in the middle of an escape"),
    (#"{"rules":{/* }}"#, "1:11: Unterminated comment.", "a comment without end"),
    (#"{"rules":{}}/*/"#, "1:13: Unterminated comment.", "nor is this one"),
    (#"{"rules":{/}}"#, "1:11: Parse error.", "half of a comment's beginning"),
    ("{\"rules\":{# x\n}}", "1:11: Parse error.", "not our comments"),
    ("\u{FEFF}{}", "1:1: Parse error.", "a byte order mark is no white space"),
    ("{\u{A0}\"rules\":{}}", "1:2: Parse error.", "other Unicode spaces are not white space"),
    (#"{"rules":{},"x":01}"#, "1:17: Unexpected '01'.", "a number that JSON does not have"),
    (#"{"rules":{},"x":1.}"#, "1:17: Unexpected '1.'.", "digits after the point"),
    (#"{"rules":{},"x":[+1]}"#, "1:18: Unexpected '+1'.", "no plus"),
])
func syntax(document: String, expected: String, reason: String) {
    #expect(problems(document) == [expected], "\(reason)")
}

@Test(arguments: ["0", "-0", "10", "1.5", "-1.25e+10", "1E9", "2e-3"])
func numbersAreJSON(number: String) {
    #expect(problems(#"{"rules":{},"x":\#(number)}"#) == ["1:13: Unexpected property 'x'."])
}

@Test func problemsBeforeSyntaxErrorAreReported() {
    #expect(
        problems("{\"rules\":{\".read\":1,\n\"$a\":{},\"$b\":{},,")
            == [
                "1:19: \(badExpression)", "2:9: Cannot have multiple default rules ('$a' and '$b').",
                #"2:17: Expected '"'."#,
            ])
}

@Test func invalidUTF8IsReportedAtItsBeginning() {
    for bytes: [UInt8] in [[0xFF], [0xC3, 0x28], [0xED, 0xA0, 0x80], [0xF0, 0x9F, 0x90]] {
        let document = Array("{\"rules\":\n{\"é🐵".utf8) + bytes
        #expect(problems(document) == ["2:6: Invalid UTF-8."])
    }
}

@Test func reportedProblemsAreLimited() {
    let members = (0..<5000).map { #""k\#($0)":1"# }.joined(separator: ",\n")
    let found = problems("{\"rules\":{\n\(members)}}")
    #expect(found.count == RulesLimits.problemCount)
    #expect(found.first == "2:6: Expected '{'.")
    #expect(found.last == "201:8: Expected '{'.")
}

@Test func eachProblemHasOneLine() throws {
    let error = try #require(throws: InvalidRules.self) { try load("{\"rules\":{\".read\":1,\n\"a\":2}}") }
    #expect(error.description == "1:19: \(badExpression)\n2:5: Expected '{'.\n")
}

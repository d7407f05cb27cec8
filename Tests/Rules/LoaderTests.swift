import PandoBytes
import PandoTree
import Testing

@testable import PandoRules

/// Spellings that are accepted, beside what they mean (rules §1.1).
@Test(arguments: [
    // document                                       means                              because
    (#"{"rules":{}}"#, "{}", "no rule at all"),
    ("\n\t {\r\n \"rules\" : { } }\r ", "{}", "white space anywhere"),
    (#"/**/{/*a*/"rules"/*b*/:/*c*/{/*d*/}/*e*/}/*f*/"#, "{}", "comments between any two tokens"),
    (
        "//x\n{//x\r\n\"rules\"//x\r://x\n{//x\n}//x\n}//x", "{}",
        "line comments, ended by any line end or the end"
    ),
    (#"{"rules":{/* // " } { \ * / **/}}"#, "{}", "the text of a comment is ignored"),
    ("{\"rules\":{// /* \"\n}}", "{}", "the text of a line comment is ignored"),
    (#"{"rules":{".read":true,},}"#, "{read=<true>+}", "one trailing comma"),
    ("{\"rules\":{\".read\":false, // x\n}}", "{read=<false>-}", "a trailing comma before a comment"),
    (
        #"{"rules":{".indexOn":["a","b",/**/]}}"#, #"{index=["child(/a)", "child(/b)"]}"#,
        "a trailing comma in an array"
    ),
    (#"{"rules":{".indexOn":[]}}"#, "{}", "an empty list of indexes"),
    (
        #"{"rules":{".read":"true",".write":" \n false\t"}}"#, "{read=<true>+ write=< \n false\t>-}",
        "strings that are constants"
    ),
    (
        #"{"rules":{".read":"true ","a":{},".write":"1 > 2 || !!true"}}"#,
        "{read=<true >+ write=<1 > 2 || !!true>+ a:{}}",
        "expressions without data or variables"
    ),
    (
        #"{"rules":{".read":"now>1","a":{".read":"true && 1 < 'a'"}}}"#,
        "{read=<now>1> a:{read=<true && 1 < 'a'>}}",
        "expressions with data, or with an error"
    ),
    (
        "{\"rules\":{\".read\":\"now\n\r\n\t>1\"}}", "{read=<now\n\r\n\t>1>}",
        "line ends and tabs inside strings"
    ),
    (
        #"{"rules":{".read":"\"\\\\\/\"==\f\n\r\t'\u00e9\ud83d\udc35/*no*/'"}}"#,
        "{read=<\"\\\\/\"==\u{C}\n\r\t'é🐵/*no*/'>-}", "escapes are resolved; strings hold no comments"
    ),
    (#"{"rules":{"\u0061":{}}}"#, "{a:{}}", "in names too"),
    (#"{"\u0072ules":{}}"#, "{}", "and in `rules`"),
    (
        #"{"rules":{"$a":{"$b":{},"x":{}},"y":{"$a":{}}}}"#,
        "{y:{$a:{}} $a:{x:{} $b:{}}}", "one wildcard a node; its name again beside, not below"
    ),
    (#"{"rules":{"$":{},"$a":{}}}"#, "", "two wildcards"),
    (#"{"rules":{"$":{}}}"#, "{$:{}}", "a wildcard without a name"),
    (#"{"rules":{"$a-b c":{}}}"#, "{$a-b c:{}}", "a wildcard's name is as declared"),
    (
        #"{"rules":{"a b":{},"é🐵":{},"-":{},"0":{}}}"#, "{0:{} -:{} a b:{} é🐵:{}}",
        "any key that data may have"
    ),
    (
        #"{"rules":{".validate":"newData.val().matches(/^\\d+$/)"}}"#,
        #"{validate=<newData.val().matches(/^\d+$/)>}"#, "a backslash doubles in JSON"
    ),
])
func spellings(document: String, outline: String, reason: String) throws {
    if outline.isEmpty {
        #expect(!problems(document).isEmpty, "\(reason)")
    } else {
        #expect(try load(document).root.outline == outline, "\(reason)")
    }
}

@Test func commentsBetweenAnyTokens() throws {
    let tokens = [
        "{", #""rules""#, ":", "{", #"".read""#, ":", "true", ",", #"".indexOn""#, ":", "[", #""a""#, ",",
        #""b""#,
        "]", ",", #""$x""#, ":", "{", #"".write""#, ":", #""auth != null""#, "}", ",", "}", ",", "}",
    ]
    let plain = try load(tokens.joined())
    for comment in [
        "/**/", "/***/", "/* \" */", "//\n", "// */ \" {\r\n", " \t\r\n", "/* a\n */ // b\n /* c */",
    ] {
        for place in 0...tokens.count {
            let document = tokens[..<place].joined() + comment + tokens[place...].joined()
            let loaded = try load(document)
            #expect(loaded.root.outline == plain.root.outline, "\(comment) before token \(place)")
            #expect(loaded.strictJSON == plain.strictJSON, "\(comment) before token \(place)")
        }
    }
}

@Test func sourceIsKeptUnchanged() throws {
    let document = "\r\n// a comment\n{ \"rules\":\t{ \".read\" : \"auth\n!= null\", /* é🐵 */ }, }\n\n"
    #expect(try load(document).source.bytes == Array(document.utf8))
}

@Test func documentAtSizeLimitIsLoaded() throws {
    let document = #"{"rules":{".read":true}}"#
    func padded(to count: Int) -> String {
        document + String(repeating: " ", count: count - document.utf8.count)
    }
    let limit = RulesLimits.sourceByteCount
    #expect(limit == 256 << 10)
    _ = try load(padded(to: limit))
    #expect(problems(padded(to: limit + 1)) == ["1:1: Rules are too large: 262145 bytes, at most 262144."])
}

@Test(arguments: ["a", "$"])
func nodesAtDepthLimitAreLoaded(prefix: String) throws {
    func nested(_ levels: Int, _ inner: String) -> String {
        let open = (0..<levels).map { #"{"\#(prefix)\#($0)":"# }.joined()
        return "{\"rules\":\n\(open)\(inner)\(String(repeating: "}", count: levels + 1))"
    }
    let path = Path((0..<32).map { Key(unchecked: Text("a\($0)")) })
    let deepest = try load(nested(32, #"{".read":true,".indexOn":["x"]}"#))
    #expect(Access.loaded(deepest).allowsRead(at: path, query: nil, in: scope(.anonymous)))
    #expect(!Access.loaded(deepest).allowsRead(at: path.parent, query: nil, in: scope(.anonymous)))
    #expect(deepest.hasIndex(.child("x"), at: path))
    for levels in [33, 1000, 20_000] {
        let found = problems(nested(levels, "{}"))
        let column = 1 + (0..<33).reduce(0) { $0 + 4 + prefix.count + "\($1)".count }
        #expect(found == ["2:\(column): Rules are nested too deeply: at most 32 levels."])
    }
    for inner in [String(repeating: "[", count: 50_000), String(repeating: #"{"x":"#, count: 30_000)] {
        for place in [".indexOn", ".read", "other"] {
            #expect(!problems(#"{"rules":{"\#(place)":\#(inner)"#).isEmpty)
            #expect(!problems(#"{"\#(place)":\#(inner)"#).isEmpty)
        }
    }
}

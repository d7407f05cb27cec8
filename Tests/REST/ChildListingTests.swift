import PandoBytes
import PandoHTTP
import PandoTree
import Testing

@testable import PandoREST

@Suite struct ChildListingTests {
    private static func listing(_ query: String) throws(RESTError) -> ChildListing {
        try ChildListing(QueryString(Array(query.utf8)[...], plusIsSpace: true))
    }

    private static func answer(_ query: String, _ json: String) throws -> String {
        let root = try Node(json: Array(json.utf8).rawSpan)
        return String(decoding: try listing(query).json(of: root), as: UTF8.self)
    }

    private static let tree =
        #"{"a":{"x":1,"y":{"z":true}},"b":"text","c":{".value":2.5,".priority":"p"},"10":false,"9":-1}"#

    @Test(
        arguments: [
            // query                     answer
            (
                "",
                #"{"kind":"object","count":5,"offset":0,"children":[{"key":"9","kind":"number","value":-1},{"key":"10","kind":"boolean","value":false},{"key":"a","kind":"object","count":2,"preview":{"x":1,"y":{}}},{"key":"b","kind":"string","value":"text"},{"key":"c","kind":"number","value":2.5,"priority":"p"}]}"#
            ),
            (
                "path=/&offset=1&limit=1",
                #"{"kind":"object","count":5,"offset":1,"children":[{"key":"10","kind":"boolean","value":false}]}"#
            ),
            ("offset=5", #"{"kind":"object","count":5,"offset":5,"children":[]}"#),
            ("offset=9223372036854775807", #"{"kind":"object","count":5,"offset":5,"children":[]}"#),
            (
                "from=aa&limit=1",
                #"{"kind":"object","count":5,"offset":3,"children":[{"key":"b","kind":"string","value":"text"}]}"#
            ),
            ("from=z", #"{"kind":"object","count":5,"offset":5,"children":[]}"#),
            (
                "path=/a/&measure=true",
                #"{"kind":"object","count":2,"nodes":4,"offset":0,"children":[{"key":"x","kind":"number","value":1},{"key":"y","kind":"object","count":1,"preview":{"z":true}}]}"#
            ),
            ("path=a/x&measure=true", #"{"kind":"number","value":1,"nodes":1}"#),
            ("path=/nothing/there&measure=true", #"{"kind":"null","nodes":0}"#),
        ])
    func pages(query: String, answer: String) throws {
        #expect(try Self.answer(query, Self.tree) == answer)
    }

    @Test(
        arguments: [
            ("path=/a%23", .invalidPath), ("from=a%2Fb", .invalidPath),
            ("offset=x", .limitNotInteger(.first)),
            ("offset=-1", .limitNotPositive(.first)), ("limit=0", .limitNotPositive(.first)),
            ("limit=99999999999999999999", .limitNotInteger(.first)),
            ("path=" + String(repeating: "/a", count: 33), .pathTooDeep),
        ] as [(String, RESTError)])
    func refusals(query: String, error: RESTError) {
        #expect(throws: error) { try Self.listing(query) }
    }

    @Test func onlyAdministratorsGetTheNumberOfNodes() throws {
        let root = try Node(json: Array(Self.tree.utf8).rawSpan)
        let query = QueryString(Array("path=a/x&measure=true".utf8)[...], plusIsSpace: true)
        let json = try ChildListing(query, mayMeasure: false).json(of: root)
        #expect(String(decoding: json, as: UTF8.self) == #"{"kind":"number","value":1}"#)
    }

    @Test func longStringsAreCutBetweenCharacters() throws {
        // 511 bytes, then a character of three.
        let text = String(repeating: "a", count: 511) + "€" + String(repeating: "b", count: 100)
        let answer = try Self.answer("path=s", #"{"s":"\#(text)"}"#)
        #expect(
            answer
                == #"{"kind":"string","value":"\#(String(repeating: "a", count: 511))","length":614}"#)
    }

    @Test func previewsAreShort() throws {
        let long = String(repeating: "k", count: 49)
        let answer = try Self.answer(
            "", #"{"a":{"1":"\#(long)","2":2,"3":3,"4":4,"5":5},"b":{"\#(long)":1}}"#)
        #expect(answer.contains(##""preview":{"1":"\##(long.dropLast())","2":2,"3":3,"4":4}}"##))
        #expect(answer.contains(#""key":"b","kind":"object","count":1,"preview":{}}"#))
    }

    @Test func aPageAndACountHaveLimits() throws {
        let json = "[" + (0..<2000).map { "{\"v\":\($0)}" }.joined(separator: ",") + "]"
        let page = try Self.answer("limit=5000", json)
        #expect(page.split(separator: "\"key\"").count == 1001)
        #expect(page.hasPrefix(#"{"kind":"object","count":2000,"offset":0,"#))
        let many = "{\"a\":[" + (0..<100_001).map { _ in "1" }.joined(separator: ",") + "]}"
        #expect(try Self.answer("measure=true", many).contains(#""nodes":100000,"more":true"#))
    }
}

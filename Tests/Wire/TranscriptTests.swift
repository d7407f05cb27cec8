import PandoBytes
import PandoTree
import Testing

@testable import PandoWire

/// The client's lines of realtime §15, and recorded messages of single SDKs.
enum Transcript {
    static let requests: [(line: String, number: Int64, action: Action)] = [
        // 15.1
        (#"{"t":"d","d":{"r":1,"a":"s","b":{"c":{"sdk.js.12-18-0":1}}}}"#, 1, .statistics),
        // 15.2
        (
            #"{"t":"d","d":{"r":2,"a":"q","b":{"p":"/room/a","h":""}}}"#, 2,
            .listen(Listen(path: "/room/a", hash: ""))
        ),
        (
            #"{"t":"d","d":{"r":3,"a":"p","b":{"p":"/room/a","d":{"text":"hi","at":{".sv":"timestamp"}}}}}"#,
            3,
            put("/room/a", #"{"text":"hi","at":{".sv":"timestamp"}}"#)
        ),
        (
            #"{"t":"d","d":{"r":4,"a":"p","b":{"p":"/room/a/text","d":{".value":"yo",".priority":2}}}}"#, 4,
            .put(Write(Target("/room/a/text"), Draft(.string("yo").with(priority: .number(2)))))
        ),
        (
            #"{"t":"d","d":{"r":5,"a":"p","b":{"p":"/room/a/.priority","d":5}}}"#, 5,
            .put(Write(Target("/room/a", isPriority: true), Draft(.integer(5))))
        ),
        (
            #"{"t":"d","d":{"r":6,"a":"p","b":{"p":"/room/a","d":null}}}"#, 6,
            .put(Write(Target("/room/a"), Draft(.empty)))
        ),
        // 15.3
        (
            #"{"t":"d","d":{"r":7,"a":"q","b":{"p":"/room","h":""}}}"#, 7,
            .listen(Listen(path: "/room", hash: ""))
        ),
        (#"{"t":"d","d":{"r":8,"a":"g","b":{"p":"/zzz","q":{}}}}"#, 8, .get("/zzz", Query())),
        (
            #"{"t":"d","d":{"r":9,"a":"g","b":{"p":"/list","q":{"l":2,"vf":"r","i":"a/b"}}}}"#, 9,
            .get("/list", Query(order: .child("a/b"), limit: .init(count: 2, anchor: .last)))
        ),
        (#"{"t":"d","d":{"r":10,"a":"n","b":{"p":"/room"}}}"#, 10, .unlisten("/room", nil, tag: nil)),
        (
            #"{"t":"d","d":{"r":5,"a":"q","b":{"p":"/x","h":"gIphxiFGusLh2VwSNVKSvNu90m4="}}}"#, 5,
            .listen(Listen(path: "/x", hash: "gIphxiFGusLh2VwSNVKSvNu90m4="))
        ),
        (#"{"t":"d","d":{"r":6,"a":"p","b":{"p":"/x/b","d":2}}}"#, 6, put("/x/b", "2")),
        // 15.4
        (
            #"{"t":"d","d":{"r":11,"a":"q","b":{"p":"/top","q":{"l":2,"vf":"r","i":"score"},"t":1,"h":""}}}"#,
            11,
            .listen(
                Listen(
                    path: "/top", query: Query(order: .child("score"), limit: .init(count: 2, anchor: .last)),
                    tag: 1, hash: ""), queryText: #"{"l":2,"vf":"r","i":"score"}"#)
        ),
        (
            #"{"t":"d","d":{"r":12,"a":"n","b":{"p":"/top","q":{"l":2,"vf":"r","i":"score"},"t":1}}}"#, 12,
            .unlisten("/top", query(#"{"l":2,"vf":"r","i":"score"}"#), tag: 1)
        ),
        // 15.5
        (
            #"{"t":"d","d":{"r":13,"a":"m","b":{"p":"/","d":{"users/u1/name":"Ann","users/u2":null,"index/ann":"u1","log/x":1}}}}"#,
            13,
            .merge(
                .root,
                [
                    entry("users/u1/name", #""Ann""#), entry("users/u2", "null"),
                    entry("index/ann", #""u1""#),
                    entry("log/x", "1"),
                ])
        ),
        // 15.6
        (
            #"{"t":"d","d":{"r":14,"a":"p","b":{"p":"/c","d":6,"h":"w28swksk9+tXf5jEdS9R5oSFAv8="}}}"#, 14,
            put("/c", "6", hash: "w28swksk9+tXf5jEdS9R5oSFAv8=")
        ),
        // 15.7
        (
            #"{"t":"d","d":{"r":16,"a":"o","b":{"p":"/status/u1","d":{"state":"offline","at":{".sv":"timestamp"}}}}}"#,
            16,
            .onDisconnectPut(
                Write(Target("/status/u1"), draft(#"{"state":"offline","at":{".sv":"timestamp"}}"#)))
        ),
        (
            #"{"t":"d","d":{"r":17,"a":"om","b":{"p":"/rooms/r1","d":{"typing/u1":null,"left":{".sv":{"increment":1}}}}}}"#,
            17,
            .onDisconnectMerge(
                "/rooms/r1",
                [entry("rooms/r1/typing/u1", "null"), entry("rooms/r1/left", #"{".sv":{"increment":1}}"#)])
        ),
        (
            #"{"t":"d","d":{"r":18,"a":"oc","b":{"p":"/rooms/r1/left","d":null}}}"#, 18,
            .onDisconnectCancel(Target("/rooms/r1/left"))
        ),
        // 15.8
        (
            #"{"t":"d","d":{"r":2,"a":"auth","b":{"cred":"eyJhbGciOi"}}}"#, 2,
            .authenticate(AuthenticationRequest(token: "eyJhbGciOi"))
        ),
        (#"{"t":"d","d":{"r":9,"a":"unauth","b":{}}}"#, 9, .unauthenticate),
        (
            #"{"t":"d","d":{"r":2,"a":"gauth","b":{"cred":"owner"}}}"#, 2,
            .authenticate(AuthenticationRequest(token: "owner"))
        ),
        (
            #"{"t":"d","d":{"r":2,"a":"gauth","b":{"cred":"x","noauth":true}}}"#, 2,
            .authenticate(AuthenticationRequest(token: "x", isUnauthenticated: true))
        ),
        (
            #"{"t":"d","d":{"r":2,"a":"gauth","b":{"cred":"x","authvar":{"uid":"u","https://a.b/c":true}}}}"#,
            2,
            .authenticate(
                AuthenticationRequest(
                    token: "x",
                    authVariable: .children(
                        Children(ascending: [
                            .init(key: "https://a.b/c", node: .boolean(true)),
                            .init(key: "uid", node: .string("u")),
                        ]))))
        ),
        (
            #"{"t":"d","d":{"r":2,"a":"gauth","b":{"cred":"x","authvar":{}}}}"#, 2,
            .authenticate(AuthenticationRequest(token: "x", authVariable: .empty))
        ),
        (#"{"t":"d","d":{"r":3,"a":"appcheck","b":{"token":"x"}}}"#, 3, .appCheck),
        (#"{"t":"d","d":{"r":3,"a":"unappcheck","b":{}}}"#, 3, .dropAppCheck),
        (#"{"t":"d","d":{"r":3,"a":"unappeck","b":{}}}"#, 3, .dropAppCheck),
        // 11.2
        (
            #"{"t":"d","d":{"r":6,"a":"p","b":{"p":"/c","d":1,"h":"","cv":true}}}"#, 6,
            .transaction(
                Write(Target("/c"), Draft(.integer(1))), expectedHash: "", wantsCurrentValue: true)
        ),
        // 9.7, from a mobile client
        (
            #"{"t":"d","d":{"r":9,"a":"q","b":{"p":"/t","h":"x","ch":{"ps":["a/x","b","c/.priority"],"hs":["1","2","3",""]}}}}"#,
            9,
            .listen(
                Listen(
                    path: "/t", hash: "x",
                    compoundHash: CompoundHash(
                        paths: ["a/x", "b", "c/.priority"], hashes: ["1", "2", "3", ""])))
        ),
        // Android: numbers begin at 0, no leading slash, and slashes are escaped, on iOS too.
        (#"{"t":"d","d":{"r":0,"a":"p","b":{"p":"a\/b","d":1}}}"#, 0, put("/a/b", "1")),
        // C++: members sorted, no hash on listens, an empty path for writes at the root.
        (#"{"d":{"a":"p","b":{"d":{"x":1},"p":""},"r":4},"t":"d"}"#, 4, put("/", #"{"x":1}"#)),
        (
            #"{"d":{"a":"m","b":{"d":{"x":1,"y/z":2},"p":"a"},"r":4},"t":"d"}"#, 4,
            .merge("/a", [entry("a/x", "1"), entry("a/y/z", "2")])
        ),
        (#"{"d":{"a":"q","b":{"p":"/"},"r":1},"t":"d"}"#, 1, .listen(Listen(path: .root))),
        (#"{"t":"d","d":{"r":1,"a":"xyz","b":{}}}"#, 1, .unknown("xyz")),
        (#"{"t":"d","d":{"r":1,"a":"l","b":{}}}"#, 1, .unknown("l")),
    ]
}

@Test func everyClientLineOfTheTranscripts() throws {
    for row in Transcript.requests {
        #expect(
            try parse(row.line) == .request(Request(number: row.number, action: row.action)), "\(row.line)")
    }
}

@Test(
    arguments: [
        (#"{"t":"c","d":{"t":"p","d":{}}}"#, ClientMessage.ping),
        (#"{"t":"c","d":{"t":"a","d":{}}}"#, .upgrade),
        (#"{"t":"c","d":{"t":"n","d":{}}}"#, .endOfTransmission),
        (#"{"t":"c","d":{"t":"zz","d":{}}}"#, .unknownControl("zz")),
        (#"{"d":{"d":{},"t":"p"},"t":"c"}"#, .ping),
        (#" { "x" : [ { } ] , "t" : "c" , "d" : { "t" : "p" } } "#, .ping),
    ] as [(String, ClientMessage)])
func controlMessages(line: String, expected: ClientMessage) throws {
    #expect(try parse(line) == expected)
}

/// SDKs differ in the order of members, which has no meaning.
@Test(
    arguments: [
        ("p", [#""p":"/a/b""#, #""d":{"x":{".sv":"timestamp"}}"#, #""h":"hash""#, #""cv":true"#]),
        ("p", [#""p":"/a/.priority""#, #""d":{".value":1}"#]),
        ("p", [#""p":"/a/$""#, #""d":{"$":1}"#, #""h":"\ud800""#]),
        ("m", [#""p":"/a""#, #""d":{"b/c":1,"d":{"e":2},".priority":3}"#, #""x":[1,{}]"#]),
        ("m", [#""p":"/a""#, #""d":{".info/x":1}"#]),
        ("m", [#""p":"/""#, #""d":{".info/x":1}"#]),
        ("om", [#""p":"/a""#, #""d":{"b":1,"b/c":1}"#]),
        ("q", [#""p":"/a""#, #""q":{"l":2}"#, #""t":3"#, #""h":"x""#, #""ch":{"ps":[],"hs":[""]}"#]),
        ("n", [#""p":"/a""#, #""q":{"l":2}"#, #""t":3"#]),
        ("g", [#""p":"/a""#, #""q":{"i":"x"}"#]),
        ("o", [#""p":"/a""#, #""d":[1,null,2]"#]),
        ("oc", [#""p":"/a""#, #""d":null"#]),
        ("auth", [#""cred":"x""#, #""noauth":true"#, #""authvar":{"uid":1}"#]),
        ("s", [#""c":{"a.b":1}"#]),
    ] as [(String, [String])])
func orderOfMembersMakesNoDifference(verb: String, members: [String]) throws {
    var first: ClientMessage?
    for body in permutations(members) {
        let request = [#""r":5"#, #""a":"\#(verb)""#, #""b":{\#(body.joined(separator: ","))}"#]
        for request in permutations(request) {
            for envelope in permutations([#""t":"d""#, #""d":{\#(request.joined(separator: ","))}"#]) {
                let line = "{\(envelope.joined(separator: ","))}"
                let message = try parse(line)
                if first == nil { first = message }
                #expect(message == first, "\(line)")
            }
        }
    }
}

@Test(
    arguments: [
        (#"{"t":"c","t":"d","d":{"r":1,"a":"s"}}"#, Action.statistics, "the kind"),
        (
            #"{"t":"d","d":{"t":"p"},"d":{"r":1,"a":"s"}}"#, .statistics,
            "the content, though the first is none"
        ),
        (
            #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a"},"a":"n"}}"#, .unlisten("/a", nil, tag: nil),
            "the action"
        ),
        (#"{"t":"d","d":{"r":"x","r":1,"a":"s"}}"#, .statistics, "the number, though the first is none"),
        (#"{"t":"d","d":{"r":1,"a":"p","b":7,"b":{"p":"/a","d":1}}}"#, put("/a", "1"), "the body"),
        (
            #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/$","d":0,"p":"/a","d":1}}}"#, put("/a", "1"),
            "path and data"
        ),
        (
            #"{"t":"d","d":{"r":1,"a":"m","b":{"p":"/$","d":{"x":1},"p":"/a"}}}"#,
            .merge("/a", [entry("a/x", "1")]),
            "a base after the entries"
        ),
        (
            #"{"t":"d","d":{"r":1,"a":"m","b":{"p":"/b","d":{"x":1},"p":"/a"}}}"#,
            .merge("/a", [entry("a/x", "1")]),
            "a base after the entries were read below another"
        ),
        (
            #"{"t":"d","d":{"r":1,"a":"m","b":{"p":"/a","d":{"x":1,"y":2,"x":3}}}}"#,
            .merge("/a", [entry("a/y", "2"), entry("a/x", "3")]), "an entry"
        ),
        (
            #"{"t":"d","d":{"r":1,"a":"m","b":{"p":"/a","d":{"x":1,"\u0078":3}}}}"#,
            .merge("/a", [entry("a/x", "3")]),
            "an entry, one name with an escape"
        ),
    ] as [(String, Action, String)])
func lastOfTwoEqualMembersCounts(line: String, expected: Action, which: String) throws {
    #expect(try parse(line) == .request(Request(number: 1, action: expected)), "\(which)")
}

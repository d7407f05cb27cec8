import PandoBytes
import PandoRandom
import PandoTree
import Testing

@testable import PandoWire

/// These close the connection (realtime §4.0).
@Test(
    arguments: [
        (#""#, nil, "nothing at all"),
        (#"5"#, .missing("t"), "JSON, but no object"),
        (#"[]"#, .missing("t"), "JSON, but no object"),
        (#"{}"#, .missing("t"), "an empty object"),
        (#"{"t":"d"}"#, .missing("d"), "no content"),
        (#"{"d":{"r":1,"a":"s"}}"#, .missing("t"), "no kind"),
        (#"{"t":"x","d":{}}"#, .unknownKind, "a kind of another protocol"),
        (#"{"t":1,"d":{}}"#, .wrongType("t"), "a kind that is no text"),
        (#"{"t":"d","d":[]}"#, .wrongType("d"), "content that is no object"),
        (#"{"t":"c","d":1}"#, .wrongType("d"), "control content that is no object"),
        (#"{"t":"c","d":{"d":{}}}"#, .missing("t"), "a control message without a verb"),
        (#"{"t":"c","d":{"t":null}}"#, .wrongType("t"), "a control verb that is no text"),
        (#"{"t":"d","d":{"a":"s","b":{}}}"#, .missing("r"), "no number for the reply"),
        (#"{"t":"d","d":{"r":"1","a":"s"}}"#, .wrongType("r"), "a number in quotes"),
        (#"{"t":"d","d":{"r":1.5,"a":"s"}}"#, .wrongType("r"), "a number that is no integer"),
        (#"{"t":"d","d":{"r":1e999,"a":"s"}}"#, .wrongType("r"), "a number beyond all numbers"),
        (#"{"t":"d","d":{"r":1}}"#, .missing("a"), "no action"),
        (#"{"t":"d","d":{"r":1,"a":2}}"#, .wrongType("a"), "an action that is no text"),
        (#"{"t":"d","d":{"r":1,"a":"p"}}"#, .missing("b"), "a put without a body"),
        (#"{"t":"d","d":{"r":1,"a":"p","b":[]}}"#, .wrongType("b"), "a body that is no object"),
        (#"{"t":"d","d":{"r":1,"a":"p","b":{"d":1}}}"#, .missing("p"), "a put to nowhere"),
        (#"{"t":"d","d":{"r":1,"a":"p","b":{"p":5,"d":1}}}"#, .wrongType("p"), "a path that is no text"),
        (
            #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a"}}}"#, .missing("d"),
            "a put of nothing: null must be written"
        ),
        (#"{"t":"d","d":{"r":1,"a":"m","b":{"p":"/a"}}}"#, .missing("d"), "a merge of nothing"),
        (
            #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1,"h":null}}}"#, .wrongType("h"),
            "a hash that is none must not become a plain put"
        ),
        (
            #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1,"cv":1}}}"#, .wrongType("cv"),
            "a flag that is none"
        ),
        (
            #"{"t":"d","d":{"r":1,"a":"q","b":{"p":"/a","q":{"l":1}}}}"#, .missing("t"),
            "a query without a tag"
        ),
        (#"{"t":"d","d":{"r":1,"a":"q","b":{"p":"/a","q":{"l":1},"t":0}}}"#, .wrongType("t"), "a tag of 0"),
        (
            #"{"t":"d","d":{"r":1,"a":"q","b":{"p":"/a","q":{"l":1},"t":"1"}}}"#, .wrongType("t"),
            "a tag in quotes"
        ),
        (#"{"t":"d","d":{"r":1,"a":"x-agg","b":{"p":"/a"}}}"#, .missing("f"), "no aggregates"),
        (#"{"t":"d","d":{"r":1,"a":"x-agg","b":{"f":["count"]}}}"#, .missing("p"), "an aggregate of nothing"),
        (#"{"t":"d","d":{"r":1,"a":"x-agg","b":{"p":"/a","f":"count"}}}"#, .wrongType("f"), "no array"),
        (#"{"t":"d","d":{"r":1,"a":"x-agg","b":{"p":"/a","f":["count",1]}}}"#, .wrongType("f"), "no string"),
        (
            #"{"t":"d","d":{"r":1,"a":"x-agg","b":{"p":"/a","f":["count"],"t":-1}}}"#, .wrongType("t"),
            "a tag below 0"
        ),
        (#"{"t":"d","d":{"r":1,"a":"x-agg","b":{"p":"/a","f":["count",]}}}"#, nil, "a comma too many"),
        (
            #"{"t":"d","d":{"r":1,"a":"x-unagg","b":{"p":"/a","f":["count"]}}}"#, .missing("t"),
            "the end of no live one"
        ),
        (#"{"t":"d","d":{"r":1,"a":"auth","b":{}}}"#, .missing("cred"), "no credential"),
        (
            #"{"t":"d","d":{"r":1,"a":"auth","b":{"cred":"x","authvar":null}}}"#, .wrongType("authvar"),
            "an administrator that asks for fewer rights must not keep all of them"
        ),
        (#"{"t":"d","d":{"r":1,"a":"auth","b":{"cred":"x","noauth":1}}}"#, .wrongType("noauth"), "as above"),
        (#"{"t":"d","d":{"r":1,"a":"s"}} {}"#, nil, "two values"),
        (#"{"t":"d","d":{"r":1,"a":"s"},}"#, nil, "a comma too many"),
        (#"{"t":"d","d":{"r":01,"a":"s"}}"#, nil, "a leading zero"),
        (#"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":tru}}}"#, nil, "half a literal"),
        (#"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a\x","d":1}}}"#, nil, "an escape that JSON does not have"),
        (#"{"t":"d","d":{"r":1,"a":"m","b":{"p":"/a","d":{7:1}}}}"#, nil, "a name without quotes"),
    ] as [(String, MalformedMessage?, String)])
func malformed(line: String, expected: MalformedMessage?, reason: String) {
    do {
        let message = try parse(line)
        Issue.record("\(reason): accepted as \(message)")
    } catch {
        if let expected {
            #expect(error == expected, "\(reason)")
        } else if case .json = error {
        } else {
            Issue.record("\(reason): \(error)")
        }
    }
}

/// A path, then its error; keys are checked by the module Tree.
private let deep = (1...33).map { "k\($0)" }.joined(separator: "/")

/// These get an error reply; the connection stays open (§8.6).
@Test(
    arguments: [
        ("p", #"{"p":"/a$","d":1}"#, .key("a$"), "an illegal key in the path"),
        ("p", #"{"p":"/.info/connected","d":1}"#, .reservedPath, ".info"),
        ("q", #"{"p":".info"}"#, .reservedPath, ".info, listened to"),
        ("p", #"{"p":"/a/.info","d":1}"#, .key(".info"), ".info further down"),
        ("p", #"{"p":"/a/.priority/b","d":1}"#, .reservedPath, "below a priority"),
        ("q", #"{"p":"/a/.priority"}"#, .reservedPath, "a listen to a priority"),
        ("g", #"{"p":"/a/.priority"}"#, .reservedPath, "a get of a priority"),
        ("m", #"{"p":"/a/.priority","d":{}}"#, .reservedPath, "a merge into a priority"),
        ("p", #"{"p":"\#(deep)","d":1}"#, .tooDeep, "33 segments"),
        (
            "p", #"{"p":"\#(deep.dropFirst(3))","d":{"x":1}}"#, .tooDeep,
            "32 segments, and data one level deep"
        ),
        ("p", #"{"p":"/a/\ud800","d":1}"#, .loneSurrogate, "half a character in a path"),
        ("p", #"{"p":"/a","d":"\ud800"}"#, .loneSurrogate, "half a character in data"),
        ("p", #"{"p":"/a","d":1e400}"#, .numberOutOfRange, "a number beyond a double"),
        ("p", #"{"p":"/a","d":{"b.c":1}}"#, .key("b.c"), "an illegal key in data"),
        ("p", #"{"p":"/a","d":{".sv":"nonsense"}}"#, .serverValue, "an unknown server value"),
        ("p", #"{"p":"/a/.priority","d":true}"#, .priority, "a boolean for a priority"),
        ("p", #"{"p":"/a/.priority","d":{"b":1}}"#, .priority, "an object for a priority"),
        (
            "p", #"{"p":"/a/.priority","d":{".value":1,".priority":2}}"#, .priority,
            "a priority with a priority"
        ),
        ("o", #"{"p":"/a/.priority","d":false}"#, .priority, "later is no better"),
        ("m", #"{"p":"/a","d":{"b/.priority":[1]}}"#, .priority, "an array for a priority"),
        ("m", #"{"p":"/a","d":5}"#, .notAnObject, "a merge of a leaf"),
        ("m", #"{"p":"/a","d":null}"#, .notAnObject, "a merge of nothing"),
        ("m", #"{"p":"/a","d":[1]}"#, .notAnObject, "a merge of an array"),
        ("m", #"{"p":"/","d":{".info/x":1}}"#, .reservedPath, ".info by way of the root"),
        ("m", #"{"p":"/a","d":{"b$":1}}"#, .key("b$"), "an illegal key in an entry's path"),
        ("m", #"{"p":"/a","d":{"\#(deep.dropFirst(3))":1}}"#, .tooDeep, "33 segments in two parts"),
        ("m", #"{"p":"/a","d":{"b":1,"b/c":2}}"#, .ancestorConflict("a/b"), "a path and its child"),
        (
            "m", #"{"p":"/a","d":{"b/c/d":1,"x":1,"b":2}}"#, .ancestorConflict("a/b"),
            "a grandchild, the other way round"
        ),
        ("m", #"{"p":"/a","d":{"b":1,"/b":2}}"#, .ancestorConflict("a/b"), "one path in two spellings"),
        (
            "m", #"{"p":"/a","d":{"b":1,"b/":2,"b":3}}"#, .ancestorConflict("a/b"),
            "two spellings, one of them twice"
        ),
        (
            "m", #"{"p":"/a","d":{"b":1,"b/.priority":2}}"#, .ancestorConflict("a/b"),
            "a value and its own priority"
        ),
        ("m", #"{"p":"/a","d":{"":1,"b":2}}"#, .key(""), "the base itself and a child"),
        ("m", #"{"p":"/a","d":{"":1}}"#, .key(""), "the base itself, which is a put"),
        ("om", #"{"p":"/a","d":{"b":1,"//":null}}"#, .key(""), "the base itself in another spelling"),
        (
            "m", #"{"p":"/a","d":{"b/.priority":1,"b//.priority":2}}"#, .ancestorConflict("a/b"),
            "one priority twice"
        ),
        ("om", #"{"p":"/","d":{"b":1,"b/c":2}}"#, .ancestorConflict("b"), "later is no better"),
        ("q", #"{"p":"/a","q":5,"t":1}"#, .notAnObject, "a query that is no object"),
        (
            "q", #"{"p":"/a","q":{"l":0},"t":1}"#, .query("l must be an integer from 1 to 2147483647"),
            "a limit of 0"
        ),
        ("g", #"{"p":"/a","q":{"i":7}}"#, .query("i must be a string"), "an index that is no text"),
        ("g", #"{"p":"/a","q":{"w":5}}"#, .query("w must be an object"), "where that is no object"),
        ("g", #"{"p":"/a","q":{"w":{"b":{}}}}"#, .query("w has the wrong type"), "an object in where"),
        ("x-agg", #"{"p":"/a","f":[]}"#, .query("no aggregate"), "no aggregate"),
        (
            "x-agg", #"{"p":"/a","f":["count","a","b","c","d","e","f","g","h","i"]}"#,
            .query("at most 8 aggregates"), "too many"
        ),
        ("x-agg", #"{"p":"/a","f":["sum(b$)"]}"#, .key("b$"), "an illegal key in a field"),
        ("x-agg", #"{"p":"/a","f":["count","\ud800"]}"#, .loneSurrogate, "half a character in an aggregate"),
        (
            "x-agg", #"{"p":"/a$","f":["count"],"t":1}"#, .key("a$"),
            "an illegal key in the path of an aggregate"
        ),
        (
            "x-agg", #"{"p":"/a","f":["count"],"q":{"l":0},"t":1}"#,
            .query("l must be an integer from 1 to 2147483647"), "its query"
        ),
        (
            "x-unagg", #"{"p":"/a","f":["nonsense"],"t":1}"#,
            .query("an aggregate is count, sum(field), avg(field), min(field) or max(field)"),
            "the end of no aggregate"
        ),
        ("auth", #"{"cred":"\udc00"}"#, .loneSurrogate, "half a character in a credential"),
    ] as [(String, String, InvalidData, String)])
func invalid(verb: String, body: String, problem: InvalidData, reason: String) throws {
    #expect(try action(verb, body) == .invalid(Text(verb), problem), "\(reason)")
}

/// These are close to an error, but valid.
@Test(
    arguments: [
        (
            "p", #"{"p":"\#(deep.dropFirst(3))","d":1}"#,
            put(Path((2...33).map { Key(unchecked: Text("k\($0)")) }), "1"), "32 segments"
        ),
        ("p", #"{"p":"//a///b/","d":1}"#, put("/a/b", "1"), "empty segments do not count"),
        ("p", #"{"p":"","d":null}"#, put("/", "null"), "the root, as C++ spells it"),
        (
            "p", #"{"p":"/a/.priority","d":{".sv":"timestamp"}}"#,
            .put(Write(Target("/a", isPriority: true), draft(#"{".sv":"timestamp"}"#))),
            "a priority may be a server value"
        ),
        (
            "p", #"{"p":"/a/.priority","d":{"x":null}}"#,
            .put(Write(Target("/a", isPriority: true), Draft(.empty, depth: 1))),
            "an object of nothing is nothing"
        ),
        ("p", #"{"p":"/é/日本/🐵","d":1}"#, put("/é/日本/🐵", "1"), "keys beyond ASCII"),
        ("p", #"{"p":"/\u00e9\/b","d":1}"#, put("/é/b", "1"), "an escaped character"),
        ("p", #"{"p":"/a\"b\\c","d":1}"#, put(#"/a"b\c"#, "1"), "quotes and backslashes are legal"),
        (
            "p", #"{"p":"\#(deep.dropFirst(3))\/.priority/\u002f//","d":1}"#,
            .put(
                Write(
                    Target(Path((2...33).map { Key(unchecked: Text("k\($0)")) }), isPriority: true),
                    Draft(.integer(1)))),
            "32 segments, a priority, and slashes behind it"
        ),
        ("m", #"{"p":"/a","d":{}}"#, .merge("/a", []), "a merge of no entries succeeds"),
        (
            "m", #"{"p":"/a","d":{"b/.priority":1,"b/c":2}}"#,
            .merge(
                "/a",
                [
                    Write(Target("/a/b", isPriority: true), Draft(.integer(1))),
                    entry("a/b/c", "2"),
                ]), "a priority and a child of the same node"
        ),
        (
            "m", #"{"p":"/a","d":{".priority":null,"b":2}}"#,
            .merge(
                "/a",
                [Write(Target("/a", isPriority: true), Draft(.empty)), entry("a/b", "2")]),
            "the base's own priority"
        ),
        (
            "m", #"{"p":"/a","d":{"b":1,"b-c":2,"bc":3}}"#,
            .merge("/a", [entry("a/b", "1"), entry("a/b-c", "2"), entry("a/bc", "3")]),
            "a prefix is no ancestor"
        ),
        (
            "q", #"{"p":"/a","t":"x"}"#, .listen(Listen(path: "/a")),
            "a tag without a query does not matter"
        ),
        ("q", #"{"p":"/a","t":5}"#, .listen(Listen(path: "/a")), "a default listen has no tag"),
        (
            "q", #"{"p":"/a","q":{"i":"x"},"t":5}"#,
            .listen(
                Listen(path: "/a", query: Query(order: .child("x")), tag: 5), queryText: #"{"i":"x"}"#),
            "a query without a filter keeps its tag"
        ),
        (
            "q", #"{"p":"/a","q":{ "l":1, "zz":[] },"t":5}"#,
            .listen(
                Listen(
                    path: "/a", query: query(#"{"l":1}"#), tag: 5), queryText: #"{ "l":1, "zz":[] }"#),
            "the query as it was sent"
        ),
        (
            "q", #"{"p":"/a","h":"","ch":7}"#,
            .listen(Listen(path: "/a", hash: "", compoundHash: .unusable)),
            "a compound hash of no use"
        ),
        (
            "q", #"{"p":"/a","ch":{"ps":["a"],"hs":[""]}}"#,
            .listen(Listen(path: "/a", compoundHash: .unusable)),
            "a hash too few"
        ),
        (
            "q", #"{"p":"/a","ch":{"ps":["b","a"],"hs":["","",""]}}"#,
            .listen(
                Listen(
                    path: "/a", compoundHash: CompoundHash(paths: ["b", "a"], hashes: ["", "", ""]))),
            "ranges out of order: the tree will see"
        ),
        (
            "q", #"{"p":"/a","ch":{"ps":["/"],"hs":["x",""]}}"#,
            .listen(
                Listen(path: "/a", compoundHash: CompoundHash(paths: [.root], hashes: ["x", ""]))),
            "a leaf's range"
        ),
        ("g", #"{"p":"/a"}"#, .get("/a", Query()), "a get without a filter"),
        (
            "x-agg", #"{"p":"/a","f":["count"]}"#, .get("/a", try! Query().aggregating(["count"])),
            "an aggregate"
        ),
        (
            "x-agg", #"{"f":["sum(b)","count"],"q":{"l":2,"vf":"l"},"t":3,"p":"a"}"#,
            .listen(
                Listen(
                    path: "/a",
                    query: try! Query(limit: .init(count: 2, anchor: .first)).aggregating(["count", "sum(b)"]
                    ), tag: 3),
                queryText: #"{"f":["sum(b)","count"],"q":{"l":2,"vf":"l"},"t":3,"p":"a"}"#),
            "a live one"
        ),
        (
            "x-unagg", #"{"p":"/a","f":["count"],"t":3}"#,
            .unlisten("/a", try! Query().aggregating(["count"]), tag: 3), "its end"
        ),
        ("s", #"[]"#, .statistics, "statistics are not looked at"),
        ("s", #"{"c":{"\ud800.$#":1e999}}"#, .statistics, "statistics are not looked at"),
        (
            "oc", #"{"p":"/a/.priority"}"#, .onDisconnectCancel(Target("/a", isPriority: true)),
            "a queued priority"
        ),
        ("p", #"{"p":"/a","d":1,"x":"\ud800"}"#, put("/a", "1"), "unknown members are not looked at"),
    ] as [(String, String, Action, String)])
func accepted(verb: String, body: String, expected: Action, reason: String) throws {
    #expect(try action(verb, body) == expected, "\(reason)")
}

/// A message that is not UTF-8 is refused, wherever the invalid byte is.
@Test func everyStringIsCheckedForUTF8() throws {
    let line = Array(#"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/aé","d":{"é":"é"},"x":"é","h":"é"}}}"#.utf8)
    _ = try parse(line)
    for index in line.indices where line[index] >= 0x80 {
        for byte in [0x20, 0xC0, 0xFF] as [UInt8] {
            var broken = line
            broken[index] = byte
            #expect(throws: MalformedMessage.self, "byte \(index)") { try parse(broken) }
        }
    }
}

/// The parser of paths here and the one of the module Tree accept the same.
@Test func pathsAreReadAsByTarget() throws {
    var generator = SeededGenerator(seed: 11)
    let pieces = [
        "a", "/", "//", "b1", ".priority", ".info", "$", "é", "🐵", "-K_x", "a long key of many bytes", ".",
        "\u{7F}", "#",
    ]
    for _ in 0..<3000 {
        let path = (0..<Int.random(in: 0...6, using: &generator))
            .map { _ in pieces.randomElement(using: &generator) ?? "" }.joined()
        let found = try action("oc", #"{"p":"\#(path)"}"#)
        do throws(InvalidData) {
            #expect(found == .onDisconnectCancel(try Target(wire: Text(path))), "\(path)")
        } catch {
            // An error has only the first characters of a key.
            let problem =
                if case .key(let key) = error { InvalidData.key(String(key.prefix(64))) } else { error }
            #expect(found == .invalid("oc", problem), "\(path)")
        }
        // With an escape for the same text, by the general parser.
        let escaped = path.replacing("/", with: #"\u002f"#)
        #expect(try action("oc", #"{"p":"\#(escaped)"}"#) == found, "\(path)")
        #expect(try action("oc", #"{"p":"\#(path.replacing("/", with: #"\/"#))"}"#) == found, "\(path)")
    }
}

/// Overlaps, against the definition.
@Test(arguments: 0..<8 as Range<UInt64>)
func overlapsAreFoundAsByDefinition(seed: UInt64) throws {
    var generator = SeededGenerator(seed: seed)
    for _ in 0..<400 {
        var names: Set<String> = []
        for _ in 0..<Int.random(in: 1...6, using: &generator) {
            let keys = (0..<Int.random(in: 1...3, using: &generator)).map { _ in
                ["a", "b", "10", "9"].randomElement(using: &generator) ?? ""
            }
            let isPriority = Int.random(in: 0..<4, using: &generator) == 0
            names.insert((keys + (isPriority ? [".priority"] : [])).joined(separator: "/"))
        }
        let overlap = names.contains { upper in names.contains { lower in lower.hasPrefix(upper + "/") } }
        let body = names.shuffled(using: &generator).map { #""\#($0)":1"# }.joined(separator: ",")
        let found = try action("m", #"{"p":"/x","d":{\#(body)}}"#)
        if case .invalid(_, .ancestorConflict) = found {
            #expect(overlap, "\(body)")
        } else if case .merge(_, let entries) = found {
            #expect(!overlap && entries.count == names.count, "\(body)")
        } else {
            Issue.record("\(body)")
        }
    }
}

/// A printed request shows no secret or token.
@Test func printedCredentialHidesItsToken() throws {
    let message = try parse(
        #"{"t":"d","d":{"r":1,"a":"auth","b":{"cred":"hunter2","authvar":{"uid":"hunter2"}}}}"#)
    for text in ["\(message)", String(describing: message), String(reflecting: message)] {
        #expect(!text.contains("hunter2"), "\(text)")
    }
    var dumped = ""
    dump(message, to: &dumped)
    #expect(!dumped.contains("hunter2"))
}

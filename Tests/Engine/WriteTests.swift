import PandoBytes
import PandoEngine
import PandoTree
import Testing

/// What writes do to the tree (realtime §4.5, §4.6, §8.4, §10).
@Suite struct Writes {
    @Test(
        arguments: [
            // before                               path          value                           after                                     because
            ("null", "a/b/c", "1", #"{"a":{"b":{"c":1}}}"#, "missing ancestors appear"),
            (#"{"a":5}"#, "a/b", "1", #"{"a":{"b":1}}"#, "an ancestor leaf becomes an object"),
            (
                #"{"a":{".value":5,".priority":2}}"#, "a/b", "1", #"{"a":{".priority":2,"b":1}}"#,
                "and keeps its priority"
            ),
            (
                #"{"a":{".priority":2,"b":{"c":1}}}"#, "a/b/c", "null", "null",
                "emptied ancestors vanish with their priorities"
            ),
            (#"{"a":5}"#, "a/b", "null", #"{"a":5}"#, "nothing is removed below a leaf"),
            (#"{"a":5}"#, "x/y", "null", #"{"a":5}"#, "nor below nothing"),
            (#"{"a":{".value":5,".priority":2}}"#, "a", "6", #"{"a":6}"#, "a put replaces the priority too"),
            (#"{"a":{"b":1}}"#, "a", #"{"c":{},"d":null}"#, "null", "an empty object is nothing"),
            (#"{"a":5}"#, "a/.priority", "3", #"{"a":{".value":5,".priority":3}}"#, "a priority alone"),
            (#"{"a":{".value":5,".priority":3}}"#, "a/.priority", "null", #"{"a":5}"#, "and away"),
            (
                #"{"a":{".value":5,".priority":3}}"#, "a/.priority", #"{".sv":{"increment":2}}"#,
                #"{"a":{".value":5,".priority":5}}"#, "its base is the current priority"
            ),
            (
                #"{"a":{".value":5,".priority":"p"}}"#, "a/.priority", #"{".sv":{"increment":2}}"#,
                #"{"a":{".value":5,".priority":2}}"#, "a text counts as nothing"
            ),
            (#"{"a":5}"#, ".priority", "3", #"{".priority":3,"a":5}"#, "the root's own"),
            // Server values
            ("null", "a", #"{".sv":"timestamp"}"#, #"{"a":1000}"#, "server time"),
            (
                "null", "a", #"{"x":{".sv":"timestamp"},"y":{"z":{".sv":"timestamp"}}}"#,
                #"{"a":{"x":1000,"y":{"z":1000}}}"#, "one instant"
            ),
            (#"{"a":5}"#, "a", #"{".sv":{"increment":3}}"#, #"{"a":8}"#, "integers"),
            (#"{"a":5}"#, "a", #"{".sv":{"increment":0.5}}"#, #"{"a":5.5}"#, "a double on an integer"),
            (#"{"a":5.5}"#, "a", #"{".sv":{"increment":0.5}}"#, #"{"a":6}"#, "an integral sum is an integer"),
            (
                #"{"a":9223372036854775807}"#, "a", #"{".sv":{"increment":1}}"#,
                #"{"a":9.223372036854776e+18}"#, "overflow: the double sum"
            ),
            (
                #"{"a":1e308}"#, "a", #"{".sv":{"increment":1.7e308}}"#, #"{"a":1e+308}"#,
                "infinity is no number: the value stays"
            ),
            ("null", "a", #"{".sv":{"increment":3}}"#, #"{"a":3}"#, "absent"),
            (#"{"a":"text"}"#, "a", #"{".sv":{"increment":3}}"#, #"{"a":3}"#, "text"),
            (#"{"a":true}"#, "a", #"{".sv":{"increment":3}}"#, #"{"a":3}"#, "a boolean"),
            (#"{"a":{"b":1}}"#, "a", #"{".sv":{"increment":3}}"#, #"{"a":3}"#, "an object"),
            (
                #"{"a":{"b":1,"c":2}}"#, "a", #"{"b":{".sv":{"increment":3}}}"#, #"{"a":{"b":4}}"#,
                "reads the value that the put overwrites"
            ),
            (
                #"{"a":{".value":5,".priority":1}}"#, "a", #"{".sv":{"increment":3}}"#, #"{"a":8}"#,
                "the priority follows the put"
            ),
            (
                #"{"a":{".value":5,".priority":1}}"#, "a",
                #"{".value":{".sv":{"increment":3}},".priority":{".sv":{"increment":1}}}"#,
                #"{"a":{".value":8,".priority":2}}"#, "each from its own base"
            ),
            (
                #"{"a":5}"#, "a", #"{"x":1,".priority":{".sv":"timestamp"}}"#,
                #"{"a":{".priority":1000,"x":1}}"#, "time as a priority"
            ),
            (
                #"{"a":[1,2]}"#, "a", #"[{".sv":{"increment":10}},7]"#, #"{"a":{"0":11,"1":7}}"#,
                "inside an array"
            ),
        ] as [(String, String, String, String, String)])
    func put(before: String, path: String, json: String, after: String, because: String) {
        var scene = Scene(before)
        #expect(scene.put(1, path, json) == ["ok"], "\(because)")
        #expect(scene.tree == after, "\(because)")
    }

    @Test(
        arguments: [
            // before                        entries                                                      after                                because
            (#"{"b":{"k":1}}"#, [("x", "1"), ("k", "null")], #"{"b":{"x":1}}"#, "puts beside one another"),
            (
                #"{"b":{".priority":2,"k":1}}"#, [("x", "1"), ("k", "2")],
                #"{"b":{".priority":2,"k":2,"x":1}}"#, "the base keeps its priority"
            ),
            (
                #"{"b":{".priority":2,"k":1}}"#, [("k", "null"), ("x", "1")], #"{"b":{".priority":2,"x":1}}"#,
                "though it lost all it had"
            ),
            (
                #"{"b":{".priority":2,"k":1}}"#, [("k", "null"), ("x", "null")], "null",
                "unless nothing is left"
            ),
            (
                #"{"b":{"k":1}}"#, [(".priority", "2"), ("k/.priority", "3")],
                #"{"b":{".priority":2,"k":{".value":1,".priority":3}}}"#, "priorities alone"
            ),
            (
                #"{"b":{"k":1}}"#, [("new/.priority", "3"), ("new/v", "1")],
                #"{"b":{"k":1,"new":{".priority":3,"v":1}}}"#, "a priority for what the same write makes"
            ),
            (
                #"{"b":{"k":1}}"#, [("x", "1"), ("gone/.priority", "2")], #"{"b":{"k":1,"x":1}}"#,
                "a priority for nothing has no effect"
            ),
            (
                #"{"b":{"k":1}}"#,
                [("k", "null"), ("other", "2"), ("k2/.priority", #"{".sv":"timestamp"}"#)],
                #"{"b":{"other":2}}"#, "nor has a server value as one"
            ),
            (#"{"b":{"k":1}}"#, [("gone/.priority", "null")], #"{"b":{"k":1}}"#, "nothing to take away"),
            (
                #"{"b":{"c":5,"d":7}}"#,
                [
                    ("c", #"{".sv":{"increment":3}}"#), ("at", #"{".sv":"timestamp"}"#),
                    ("d/.priority", #"{".sv":{"increment":1}}"#),
                ], #"{"b":{"at":1000,"c":8,"d":{".value":7,".priority":1}}}"#,
                "server values, each from its base"
            ),
            ("null", [], "null", "an empty merge succeeds"),
        ] as [(String, [(String, String)], String, String)])
    func merge(before: String, entries: [(String, String)], after: String, because: String) {
        var scene = Scene(before)
        #expect(scene.merge(1, "b", entries) == ["ok"], "\(because)")
        #expect(scene.tree == after, "\(because)")
    }

    @Test(arguments: [
        ([("x", "1"), ("k/.priority", "true")], "a boolean is no priority"),
        ([("x", "1"), ("k/.priority", #"{"a":1}"#)], "nor is an object"),
    ])
    func refusedMerges(entries: [(String, String)], because: String) {
        var scene = Scene(#"{"b":{"k":1}}"#)
        scene.listen(2, "")
        #expect(scene.merge(1, "b", entries) == ["failed"], "\(because)")
        #expect(scene.tree == #"{"b":{"k":1}}"#, "all or nothing")
        #expect(scene.records.isEmpty)
    }

    @Test(arguments: [
        ("gone/.priority", "1", "no data there"),
        ("gone/.priority", "null", "clients use the failure as a round trip"),
        ("k/.priority", "true", "no priority"),
        ("k/.priority", #"{"x":1}"#, "no priority"),
    ])
    func refusedPuts(path: String, json: String, because: String) {
        var scene = Scene(#"{"k":{".value":1,".priority":9}}"#)
        #expect(scene.put(1, path, json) == ["failed"], "\(because)")
        #expect(scene.tree == #"{"k":{".value":1,".priority":9}}"#)
    }

    /// The echo carries what the server values came to (§10).
    @Test func workedExample() {
        var scene = Scene(#"{"c":5}"#)
        scene.time = 1_700_000_000_123
        scene.listen(1, "")
        #expect(
            scene.merge(1, "", [("c", #"{".sv":{"increment":3}}"#), ("at", #"{".sv":"timestamp"}"#)])
                == [#"S1 m  {"c":8,"at":1700000000123}"#, "ok"])
    }

    /// A no-change write leaves no trace; a priority costs the journal no copy of its node.
    @Test func records() throws {
        var scene = Scene(#"{"a":{"big":"data","more":1}}"#)
        scene.put(1, "a/more", "1")
        scene.merge(1, "a", [("more", "1")])
        scene.put(1, "a/.priority", "null")
        #expect(scene.records.isEmpty)
        scene.put(1, "a/.priority", "2")
        let payload = scene.records[0].payload
        let (authorship, changes) = try EngineRecord.authoredChanges(reading: payload.rawSpan)
        #expect(authorship == Authorship(.anonymous, isOnDisconnect: false))
        #expect(changes == [Change(path: "a/.priority", node: .integer(2))])
    }

    // MARK: Transactions (§11.2)

    static let five = "w28swksk9+tXf5jEdS9R5oSFAv8="

    @Test(
        arguments: [
            // before                              path          hash   reply                              because
            (#"{"c":5}"#, "c", five, ["ok"], "the right hash"),
            (#"{"c":6}"#, "c", five, nil, "a wrong hash"),
            ("null", "c", "", ["ok"], "nothing is there, as the client thinks"),
            (#"{"c":5}"#, "c", "", nil, "the client thinks that nothing is there"),
            ("null", "c", five, ["datastale null "], "gone"),
            (#"{"c":{".value":5,".priority":1}}"#, "c", five, nil, "the hash covers the priority"),
            (
                #"{"c":{".value":7,".priority":5}}"#, "c/.priority", five, ["ok"],
                "a priority compares with itself"
            ),
        ] as [(String, String, String, [String]?, String)])
    func compareAndSet(before: String, path: String, hash: String, reply: [String]?, because: String) {
        var scene = Scene(before)
        let node = scene.engine.root.value(at: Path(text: path))
        #expect(
            scene.put(1, path, "9", hash: hash) == reply ?? ["datastale \(node) \(node.hash)"], "\(because)")
        if reply != ["ok"] { #expect(scene.tree == Node(before).description, "nothing was written") }
    }

    @Test func currentValueOfStaleTransaction() {
        var scene = Scene(#"{"c":5}"#)
        let stale = "datastale 5 \(Self.five)"
        #expect(
            scene.put(1, "c", "9", hash: "x") == [stale],
            "without a listen the client gets the value in the result")
        scene.listen(1, "c", #"{"l":1}"#, tag: 1)
        #expect(scene.put(1, "c", "9", hash: "x") == [stale], "a window is not the location")
        scene.listen(1, "c/d")
        #expect(scene.put(1, "c", "9", hash: "x") == [stale], "a listen below does not cover it")
        scene.listen(1, "")
        #expect(scene.put(1, "c", "9", hash: "x") == ["datastale"], "a listen above covers it")
        #expect(scene.put(1, "c", "9", hash: "x", wantsCurrentValue: true) == [stale], "asked for")
        #expect(scene.put(2, "c", "9", hash: "x") == [stale], "another session's listen is none of ours")
    }

    @Test func transcript15_6() {
        var scene = Scene(#"{"c":5}"#)
        scene.listen(1, "c")
        #expect(scene.put(2, "c", "100") == ["S1 d c 100", "ok"], "queued before the refusal")
        #expect(scene.put(1, "c", "6", hash: Self.five) == ["datastale"])
        #expect(scene.put(1, "c", "101", hash: "5PG1TllwFpsPMPTAduN1cJllS2g=") == ["S1 d c 101", "ok"])
    }
}

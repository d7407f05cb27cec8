import PandoEngine
import PandoTree
import Testing

/// The pushes of a write (realtime §6.3–6.5, §15.2–15.5).
@Suite struct FanOut {
    /// One listener at `/l`, data there, one put by another session.
    @Test(
        arguments: [
            // path     value                 pushed                       because
            ("l", #"{"x":1}"#, [#"S1 d l {"x":1}"#], "the write is at the listen"),
            ("l/a/b", "2", ["S1 d l/a/b 2"], "the write is below: its own path, its own value"),
            (
                "l/new", #"{"x":{"y":1}}"#, [#"S1 d l/new {"x":{"y":1}}"#],
                "missing parents are the client's business"
            ),
            (
                "", #"{"l":5,"z":1}"#, ["S1 d l 5"],
                "the write is above: pushed at the listen, nothing else leaks"
            ),
            ("", #"{"z":1}"#, ["S1 d l null"], "gone with what was above"),
            ("", #"{"l":{"a":{"b":1},"k":3},"z":1}"#, [], "the write is above and the value is what it was"),
            ("l/a/b", "1", [], "nothing changes"),
            ("l/zzz", "null", [], "removing nothing changes nothing"),
            ("l/k/x", "null", [], "nothing is below a leaf"),
            ("l/k/x", "1", ["S1 d l/k/x 1"], "a leaf becomes an object, and the client's does too"),
            ("l/a/b", "null", ["S1 d l/a/b null"], "the emptied parent vanishes on both sides"),
            ("other", "1", [], "beside the listen"),
            ("lx", "1", [], "keys are compared whole"),
            (
                "l/.priority", "7", [#"S1 d l {".priority":7,"a":{"b":1},"k":3}"#],
                "a priority is pushed as the whole node"
            ),
            ("l/k/.priority", #""p""#, [#"S1 d l/k {".value":3,".priority":"p"}"#], "a leaf's as well"),
            ("l/k/.priority", "null", [], "it has none"),
            (
                "l/k", #"{".value":3,".priority":1}"#, [#"S1 d l/k {".value":3,".priority":1}"#],
                "a priority is part of the value"
            ),
        ] as [(String, String, [String], String)])
    func put(path: String, json: String, pushed: [String], because: String) {
        var scene = Scene(#"{"l":{"a":{"b":1},"k":3}}"#)
        scene.listen(1, "l")
        #expect(scene.put(2, path, json) == pushed + ["ok"], "\(because)")
    }

    /// Listens of session 1, and a merge at `/b` of session 2.
    @Test(
        arguments: [
            // listens        entries                               pushed                                        because
            (["b"], [("x", "1"), ("y/z", "2")], [#"S1 m b {"x":1,"y/z":2}"#], "at the writer's place"),
            ([""], [("x", "1"), ("y/z", "2")], [#"S1 m b {"x":1,"y/z":2}"#], "above it: the same message"),
            (["b/y"], [("x", "1"), ("y/z", "2")], ["S1 d b/y/z 2"], "one entry inside: an overwrite"),
            (
                ["b/y"], [("y/z", "2"), ("x", "1"), ("y/w", "3")], [#"S1 m b/y {"z":2,"w":3}"#],
                "two inside: a merge of the listen"
            ),
            (
                ["b/y/z"], [("x", "1"), ("y", #"{"z":2}"#)], ["S1 d b/y/z 2"],
                "an entry above: the listen's value"
            ),
            (
                ["b/x", "b/y"], [("x", "1"), ("y", "2")], ["S1 d b/x 1", "S1 d b/y 2"],
                "one message for each listen"
            ),
            (
                ["b", "b/x"], [("x", "1"), ("y", "2")], [#"S1 m b {"x":1,"y":2}"#],
                "the wider one speaks for the narrower"
            ),
            (["b"], [("x", "1")], ["S1 d b/x 1"], "a single entry"),
            (
                ["b"], [("x", "1"), ("old", "5")], ["S1 d b/x 1"],
                "an entry that changes nothing is not pushed"
            ),
            (["b"], [("old", "5")], [], "nothing changes"),
            (["b"], [], [], "an empty merge is no change"),
            (
                ["b"], [("x", "1"), (".priority", "2")], [#"S1 d b {".priority":2,"old":5,"x":1}"#],
                "a priority is pushed as the whole node"
            ),
            (["b"], [("x", "1"), ("x2/.priority", "null")], ["S1 d b/x 1"], "no priority to take away"),
            (
                ["b"], [("n/v", "1"), ("n/.priority", "2"), ("y", "3")],
                [#"S1 m b {"n":{".priority":2,"v":1},"y":3}"#], "a new node and its priority"
            ),
        ] as [([Path], [(String, String)], [String], String)])
    func merge(listens: [Path], entries: [(String, String)], pushed: [String], because: String) {
        var scene = Scene(#"{"b":{"old":5}}"#)
        for path in listens { scene.listen(1, path) }
        #expect(scene.merge(2, "b", entries) == pushed + ["ok"], "\(because)")
    }

    /// The only change of a merge has the merge's base, for event streams (rest §8.2). Nothing else has one.
    @Test func theOnlyChangeOfAMergeHasItsBase() {
        var scene = Scene(#"{"b":{"old":5}}"#)
        scene.listen(1, "")
        func bases(_ operation: PandoEngine.Operation) -> [Path?] {
            let command = Command(
                session: SessionID(2), credential: .anonymous, time: 1, operation: operation)
            return scene.engine.execute(command).1.pushes.map(\.mergeBase)
        }
        let old = Write("b/old", "5")
        #expect(bases(.merge(base: "b", [Write("b/x", "1")])) == ["b"])
        #expect(bases(.merge(base: "b", [Write("b/x", "2"), old])) == ["b"], "the other one changes nothing")
        #expect(bases(.merge(base: "b", [Write("b/y/z", "1"), old])) == ["b"])
        #expect(
            bases(.merge(base: "b", [Write("b/x", "3"), Write("b/y", "3")])) == [nil], "a merge as it is")
        #expect(bases(.put(Write("b/x", "4"))) == [nil])
        #expect(bases(.onDisconnect([Write("x", "5")])).isEmpty)
        #expect(bases(.endSession) == [nil], "a put")
    }

    @Test func transcript15_5() {
        var scene = Scene(#"{"users":{"u2":{"name":"Bob"}}}"#)
        scene.listen(1, "users")
        scene.listen(1, "index")
        let pushed = scene.merge(
            1, "",
            [("users/u1/name", #""Ann""#), ("users/u2", "null"), ("index/ann", #""u1""#), ("journal/x", "1")])
        #expect(
            pushed == [#"S1 m users {"u1/name":"Ann","u2":null}"#, #"S1 d index/ann "u1""#, "ok"],
            "one message per listen, nothing of /journal")
    }

    @Test func transcript15_2() {
        var scene = Scene()
        scene.time = 1_700_000_000_123
        #expect(scene.listen(1, "room/a", hash: "") == ["ok {}"], "empty, and the hash says so: no push")
        #expect(
            scene.put(1, "room/a", #"{"text":"hi","at":{".sv":"timestamp"}}"#)
                == [#"S1 d room/a {"at":1700000000123,"text":"hi"}"#, "ok"], "echo first, then the reply")
        #expect(
            scene.put(1, "room/a/text", #"{".value":"yo",".priority":2}"#)
                == [#"S1 d room/a/text {".value":"yo",".priority":2}"#, "ok"])
        #expect(
            scene.put(1, "room/a/.priority", "5") == [
                #"S1 d room/a {".priority":5,"at":1700000000123,"text":{".value":"yo",".priority":2}}"#, "ok",
            ])
        #expect(scene.put(1, "room/a", "null") == ["S1 d room/a null", "ok"])
    }

    @Test func transcript15_3() {
        var scene = Scene(
            #"{"room":{"m1":{"text":"hi"}},"list":{"k4":{"a":{"b":7}},"k9":{"a":{"b":9}},"k1":{"a":{"b":1}}}}"#
        )
        #expect(scene.listen(1, "room", hash: "") == [#"S1 d room {"m1":{"text":"hi"}}"#, "ok {}"])
        #expect(scene.put(2, "room/m2", #"{"text":"yo"}"#) == [#"S1 d room/m2 {"text":"yo"}"#, "ok"])
        #expect(scene.run(1, .get("zzz", Query())) == ["ok null"])
        #expect(
            scene.run(1, .get("list", Query(#"{"l":2,"vf":"r","i":"a/b"}"#)))
                == [#"ok {"k4":{"a":{"b":7}},"k9":{"a":{"b":9}}}"#])
        #expect(
            scene.put(2, "", #"{"room":{"m3":1}}"#) == [#"S1 d room {"m3":1}"#, "ok"], "pushed at the listen")
        #expect(scene.unlisten(1, "room") == ["ok"])
        #expect(scene.put(2, "room", "1") == ["ok"], "no push may follow")
    }

    /// Sessions with the same message share one push.
    @Test func sharing() {
        var scene = Scene()
        for session in 1...3 { scene.listen(UInt64(session), "a") }
        scene.listen(4, "")
        let (_, effects) = scene.engine.execute(
            Command(
                session: SessionID(9), credential: .anonymous, time: 1,
                operation: .put(Write("a/b", "1"))))
        #expect(effects.pushes.count == 1)
        #expect(effects.pushes[0].recipients.map(\.count) == [1, 3])
    }

    /// Several entries that remove a node's last children and bring it new ones: the node was never gone.
    @Test(arguments: [
        ([("n/a", "null"), ("n/b", "1")], "removal first"),
        ([("n/b", "1"), ("n/a", "null")], "removal last"),
    ])
    func priorityStaysWhenAllChildrenAreReplaced(entries: [(String, String)], because: String) {
        var scene = Scene(#"{"n":{"a":1,".priority":5}}"#)
        scene.listen(1, "")
        #expect(scene.merge(2, "", entries) == [#"S1 d n {".priority":5,"b":1}"#, "ok"], "\(because)")
        #expect(scene.tree == #"{"n":{".priority":5,"b":1}}"#)
    }

    /// A client gets the stored value: a leaf that becomes an object keeps its priority.
    @Test func leafBecomesObject() {
        var scene = Scene(#"{"l":{".value":1,".priority":5}}"#)
        scene.listen(1, "")
        #expect(scene.put(2, "l/x", "2") == ["S1 d l/x 2", "ok"])
        #expect(scene.tree == #"{"l":{".priority":5,"x":2}}"#)
        scene.put(2, "l/x", "null")
        #expect(scene.tree == "null", "the emptied parent vanishes with its priority")
    }

    /// Pushes of listens below a change are in the order of keys.
    @Test func keyOrder() {
        var scene = Scene()
        for key in ["b", "10", "2", "a", "zz", "-1"] { scene.listen(1, Path(text: "p/" + key)) }
        let pushed = scene.put(2, "p", #"{"2":1,"10":1,"a":1,"b":1,"-1":1}"#)
        #expect(pushed == ["S1 d p/-1 1", "S1 d p/2 1", "S1 d p/10 1", "S1 d p/a 1", "S1 d p/b 1", "ok"])
    }

    /// Depth 32: the longest path there is, with a listen at every level of it.
    @Test func deepest() {
        var scene = Scene()
        let keys = (0..<Limits.pathDepth).map { "k\($0)" }
        for depth in 0...Limits.pathDepth {
            scene.listen(UInt64(depth), Path(text: keys.prefix(depth).joined(separator: "/")))
        }
        #expect(scene.put(99, keys.joined(separator: "/"), "1").count == Limits.pathDepth + 2)
        #expect(scene.put(99, "", "null").count == Limits.pathDepth + 2)
        for depth in 0...Limits.pathDepth { scene.run(UInt64(depth), .endSession) }
        #expect(scene.engine.checkInvariants() == (1, 0), "nothing is left of them")
    }
}

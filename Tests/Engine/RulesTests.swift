import PandoBytes
import PandoEngine
import PandoRules
import PandoTree
import Testing

/// What the engine asks of rules, and with which trees (rules §2.4, §2.5).
struct RulesTests {
    private func scene(_ rules: String, _ json: String = "null", as uid: String? = "u1") throws -> Scene {
        let ruleset = try Ruleset(loading: Array(#"{"rules":\#(rules)}"#.utf8))
        var scene = Scene(json, access: .loaded(ruleset))
        scene.credential = Credential(authVariable: uid.map { Text(#"{"uid":"\#($0)"}"#) })
        return scene
    }

    /// Rules look at values that are resolved, at one instant, and at the tree that all paths together leave.
    @Test func serverValuesAreResolvedBeforeRules() throws {
        var scene = try scene(
            #"{".read":true,"t":{".write":"newData.val() == now"},"n":{".write":"newData.val() <= 3"},"#
                + #""pair":{"$k":{".write":"newData.parent().child('other').exists()"}}}"#, #"{"n":1}"#)
        scene.time = 5000
        #expect(scene.put(1, "t", #"{".sv":"timestamp"}"#) == ["ok"])
        #expect(scene.put(1, "t", "4999") == ["permission_denied"])
        #expect(scene.put(1, "n", #"{".sv":{"increment":2}}"#) == ["ok"])
        #expect(scene.put(1, "n", #"{".sv":{"increment":2}}"#) == ["permission_denied"])
        #expect(scene.put(1, "pair/one", "1") == ["permission_denied"])
        #expect(scene.merge(1, "pair", [("one", "1"), ("other", "2")]) == ["ok"])
        #expect(scene.tree == #"{"n":3,"pair":{"one":1,"other":2},"t":5000}"#)
    }

    /// One denied entry denies all of them; removals are checked too.
    @Test func mergeIsDoneWhollyOrNotAtAll() throws {
        var scene = try scene(
            #"{"a":{".write":true},"b":{".write":"newData.exists()"}}"#, #"{"a":1,"b":2}"#)
        #expect(scene.merge(1, "", [("a", "7"), ("b", "null")]) == ["permission_denied"])
        #expect(scene.merge(1, "", [("a", "7"), ("c", "1")]) == ["permission_denied"])
        #expect(scene.tree == #"{"a":1,"b":2}"#)
        #expect(scene.merge(1, "", [("a", "7"), ("b", "3")]) == ["ok"])
        #expect(scene.merge(1, "b", []) == ["ok"])
        #expect(scene.merge(1, "c", []) == ["ok"], "an update of nothing is a no-op that succeeds (§4.6)")
    }

    /// A write that changes nothing is a write (rules §2.3 #5).
    @Test func rulesDecideUnchangingWrites() throws {
        var scene = try scene(
            #"{".write":true,"v":{".validate":"newData.val() != data.val()"}}"#, #"{"v":1}"#)
        #expect(scene.put(1, "v", "1") == ["permission_denied"])
        #expect(scene.merge(1, "", [("v", "1")]) == ["permission_denied"])
        #expect(scene.put(1, "v", "2") == ["ok"])
    }

    /// Permission first, so that guesses cannot be tested. Then the tag of the data.
    @Test func transactions() throws {
        var scene = try scene(
            #"{".read":"auth.uid == 'u2'","v":{".write":"newData.val() > 1"}}"#, #"{"v":5}"#)
        let hash = Text(Node("5").hash).string
        #expect(scene.put(1, "v", "1", hash: hash) == ["permission_denied"])
        #expect(scene.put(1, "v", "1", hash: "wrong") == ["permission_denied"])
        #expect(scene.put(1, "v", "6", hash: "wrong", wantsCurrentValue: true) == ["datastale"])
        scene.credential = Credential(authVariable: #"{"uid":"u2"}"#)
        #expect(
            scene.put(1, "v", "6", hash: "wrong", wantsCurrentValue: true) != ["datastale"],
            "with permission to read")
        #expect(scene.put(1, "v", "6", hash: hash) == ["ok"])
    }

    /// A priority is a write of its node (rules §2.5).
    @Test func priorities() throws {
        var scene = try scene(#"{"v":{".write":"newData.getPriority() == 7"}}"#, #"{"v":1}"#)
        #expect(scene.put(1, "v/.priority", "8") == ["permission_denied"])
        #expect(scene.put(1, "v/.priority", "true") == ["permission_denied"], "no priority at all")
        #expect(scene.put(1, "v/.priority", "7") == ["ok"])
        #expect(scene.put(1, "v", "2") == ["permission_denied"], "a plain put clears it")
    }

    @Test func rulesSeeQueryOfReads() throws {
        var scene = try scene(
            #"{"list":{".read":"query.limitToLast <= 2"}}"#, #"{"list":{"a":1,"b":2,"c":3}}"#)
        #expect(scene.listen(1, "list") == ["permission_denied"])
        #expect(scene.listen(1, "list", #"{"l":3,"vf":"r"}"#, tag: 1) == ["permission_denied"])
        #expect(scene.listen(1, "list", #"{"l":2,"vf":"r"}"#, tag: 1).last == "ok {}")
        #expect(scene.run(1, .get("list", Query(#"{"l":3,"vf":"r"}"#))) == ["permission_denied"])
        #expect(scene.run(1, .get("list", Query(#"{"l":1,"vf":"r"}"#))) == [#"ok {"c":3}"#])
        // A listen is not checked again when data changes (rules §2.5), but when the credential does.
        let denied = scene.engine.listens(of: SessionID(1), deniedTo: .anonymous, at: 0)
        #expect(denied.isEmpty, "this rule does not look at the credential")
    }

    // MARK: onDisconnect

    /// Each write is checked with the credential that queued it, against the tree that all permitted ones
    /// leave. A denied write is dropped alone, and so is one that depended on it.
    @Test func dependentQueuedWritesAreCheckedTogether() throws {
        let rules = """
            {"a":{".write":"newData.parent().child('b').exists()"},"b":{".write":"newData.parent().child('c').exists()"},
             "c":{".write":"auth.uid == 'u1'"},"d":{".write":true}}
            """
        for (uid, left, why) in [
            ("u1", #"{"a":1,"b":1,"c":1,"d":1}"#, "all may run"),
            ("u2", #"{"d":1}"#, "without c no b, and without b no a"),
        ] {
            var scene = try scene(#"{".write":true}"#)
            for path in ["a", "b", "c", "d"] {
                #expect(scene.run(1, .onDisconnect([Write(path, "1")])) == ["ok"])
            }
            let rules = rules.replacing("auth.uid == 'u1'", with: "auth.uid == '\(uid)'")
            scene.engine.access = .loaded(try Ruleset(loading: Array(#"{"rules":\#(rules)}"#.utf8)))
            scene.run(1, .endSession)
            #expect(scene.tree == left, "\(why)")
        }
    }

    /// A row of writes each of which needs the next one is given up after a bounded number of rounds, and
    /// never done in part: what runs is what the rules allow.
    @Test func chainOfDependentQueuedWritesIsBounded() throws {
        var scene = try scene(#"{".write":true}"#)
        let count = 200
        for index in 0..<count { scene.run(1, .onDisconnect([Write("r/k\(index)", "1")])) }
        scene.run(1, .onDisconnect([Write("r/alone", "1")]))
        scene.credential = .admin
        scene.run(1, .onDisconnect([Write("free", "1")]))
        let members = (0..<count).map {
            #""k\#($0)":{".write":"newData.parent().child('k\#($0 + 1)').exists()"}"#
        }
        let rules = #"{"rules":{"r":{"alone":{".write":true},\#(members.joined(separator: ","))}}}"#
        scene.engine.access = .loaded(try Ruleset(loading: Array(rules.utf8)))
        scene.run(1, .endSession)
        #expect(
            scene.tree == #"{"free":1,"r":{"alone":1}}"#,
            "the last one is denied, so all that depend on it are"
        )
    }

    /// They run with the `now` of the end, and with the credential that queued them.
    @Test func queuedWritesKeepTheirCredential() throws {
        var scene = try scene(#"{"mine":{".write":"auth.uid == 'u1' && newData.val() == now"}}"#)
        #expect(scene.run(1, .onDisconnect([Write("mine", #"{".sv":"timestamp"}"#)])) == ["ok"])
        scene.credential = .anonymous
        #expect(
            scene.run(1, .onDisconnect([Write("mine", #"{".sv":"timestamp"}"#)])) == ["permission_denied"])
        scene.time = 9000
        scene.run(1, .endSession)
        #expect(scene.tree == #"{"mine":9000}"#)
    }

    // MARK: Explanations

    /// A denial is explained if and only if there is one.
    @Test(arguments: [
        ("null", "a", "1"), ("null", "b", "1"), (#"{"b":1}"#, "b", "null"), ("null", "b/c", #"{"x":1}"#),
    ])
    func explanationsAgreeWithDecisions(json: String, path: String, value: String) throws {
        let rules =
            #"{".read":"auth.uid == 'u1'","a":{".write":"auth.uid == 'u1'"},"b":{".write":"newData.exists()"}}"#
        for uid in ["u1", "u2", nil] {
            let scene = try scene(rules, json, as: uid)
            let get = Operation.get(Path(text: path), Query())
            let listen = Operation.listen(Listen(path: Path(text: path)))
            let write = Write(path, value)
            let put =
                uid.map {
                    Operation.transaction(write, expectedHash: Text($0), wantsCurrentValue: $0 == "u2")
                } ?? .put(write)
            let merge = Operation.merge(base: .root, [Write(path, value), Write("a", "2")])
            let queue = Operation.onDisconnect([Write(path, value)])
            for operation in [get, listen, put, queue] + (path == "a" ? [] : [merge]) {
                let command = Command(
                    session: SessionID(1), credential: scene.credential, time: 1, operation: operation)
                let delta = scene.engine.decide(command)
                let isDenied = if case .permissionDenied? = delta.result { true } else { false }
                // What was denied comes back whole.
                if case .denied(let denied) = delta.kind {
                    #expect(isDenied && "\(denied)" == "\(operation)")
                } else {
                    #expect(!isDenied)
                }
                #expect((scene.engine.explainDenial(of: command) != nil) == isDenied, "\(operation)")
            }
        }
    }
}

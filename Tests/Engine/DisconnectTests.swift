import PandoBytes
import PandoRules
import PandoTree
import Testing

@testable import PandoEngine

/// onDisconnect (realtime §12).
@Suite struct Disconnect {
    @Test func transcript15_7() {
        var scene = Scene(#"{"rooms":{"r1":{"typing":{"u1":true}}}}"#)
        #expect(
            scene.run(
                1, .onDisconnect([Write("status/u1", #"{"state":"offline","at":{".sv":"timestamp"}}"#)])) == [
                    "ok"
                ])
        #expect(
            scene.run(
                1,
                .onDisconnect([
                    Write("rooms/r1/typing/u1", "null"), Write("rooms/r1/left", #"{".sv":{"increment":1}}"#),
                ])) == ["ok"])
        #expect(scene.run(1, .cancelOnDisconnect("rooms/r1/left")) == ["ok"])
        scene.put(1, "status/u1", #"{"state":"online"}"#)
        scene.listen(2, "status")
        scene.listen(2, "rooms")
        scene.time = 1_700_000_009_000
        #expect(
            scene.run(1, .endSession) == [
                #"S2 d status/u1 {"at":1700000009000,"state":"offline"}"#, "S2 d rooms/r1/typing/u1 null",
            ])
        #expect(scene.tree == #"{"status":{"u1":{"at":1700000009000,"state":"offline"}}}"#)
        #expect(scene.run(1, .endSession) == [], "the queue runs once")
    }

    /// One event for each listener, whatever was queued.
    @Test func oneWrite() {
        var scene = Scene(#"{"b":{"c":1,"d":2},"n":5}"#)
        scene.listen(2, "")
        scene.run(1, .onDisconnect([Write("b/c", "9")]))
        scene.run(1, .onDisconnect([Write("b/d", "null")]))
        scene.run(
            1, .onDisconnect([Write("n", #"{".sv":{"increment":2}}"#), Write("t", #"{".sv":"timestamp"}"#)]))
        scene.put(3, "n", "6")
        #expect(
            scene.run(1, .endSession) == [#"S2 m  {"b/c":9,"n":8,"t":1000,"b/d":null}"#],
            "on what is there now")
    }

    @Test func priorities() {
        var scene = Scene(#"{"a":1}"#)
        scene.run(1, .onDisconnect([Write("a/.priority", "5"), Write("gone/.priority", "5")]))
        #expect(scene.run(1, .onDisconnect([Write("a/.priority", "true")])) == ["failed"])
        scene.run(1, .endSession)
        #expect(scene.tree == #"{"a":{".value":1,".priority":5}}"#, "what has no node is dropped")
    }

    /// Each write runs with its own credential; writes that are no longer permitted are dropped, one by one.
    @Test func credentials() {
        var scene = Scene()
        scene.run(1, .onDisconnect([Write("a", "1")]))
        scene.credential = .admin
        scene.run(1, .onDisconnect([Write("b", "1")]))
        scene.credential = .anonymous
        scene.engine.access = .locked
        scene.run(1, .endSession)
        #expect(scene.tree == #"{"b":1}"#)
    }

    @Test func queuesAreBounded() {
        var scene = Scene()
        let many = (0..<10_000).map { Write("q/k\($0)", "1") }
        #expect(scene.run(1, .onDisconnect(many)) == ["ok"])
        #expect(scene.run(1, .onDisconnect([Write("r", "1")])) == ["failed"])
        #expect(scene.run(2, .onDisconnect([Write("r", "1")])) == ["ok"], "another session has its own")
        scene.run(1, .cancelOnDisconnect("q/k7"))
        #expect(scene.run(1, .onDisconnect([Write("r", "1")])) == ["ok"])
        #expect(scene.run(1, .onDisconnect([])) == ["ok"])
        scene.run(1, .cancelOnDisconnect(.root))
        scene.run(2, .cancelOnDisconnect("r"))
        #expect(
            scene.engine.checkInvariants() == (1, 0),
            "a session without listens and queued writes has no state")
    }

    @Test func cancellingNothingLeavesNoState() {
        var scene = Scene()
        #expect(scene.run(1, .cancelOnDisconnect("a")) == ["ok"])
        #expect(scene.run(1, .onDisconnect([])) == ["ok"])
        scene.run(1, .endSession)
        #expect(scene.records.isEmpty)
    }

    /// All sequences of up to three operations over a few paths and values, against the SDKs' sparse tree;
    /// then the session ends.
    @Test func shortSequencesOfQueueOperations() {
        enum Step {
            case write([(path: [String], value: Sketch)])
            case cancel([String])
        }
        let five = Sketch.leaf(.scalar(.number(5)), priority: nil)
        let time = Sketch.leaf(.server(.timestamp), priority: nil)
        let tree = Sketch.object(
            [
                "a": .leaf(.server(.increment(1)), priority: .server(.increment(1))),
                "b": .object(["a": five], priority: nil),
            ],
            priority: .scalar(.number(3)))
        let paths: [[String]] = [[], ["a"], ["b"], ["a", "a"], ["b", "a"]]
        var steps: [Step] = []
        for path in paths {
            steps += [five, time, tree, .nothing].map { .write([(path, $0)]) }
            steps.append(.cancel(path))
            steps.append(.write([(path + [".priority"], time)]))
        }
        steps.append(.write([(["a"], five), (["b", "a"], time)]))
        steps.append(.write([(["a", ".priority"], .nothing), (["b"], .nothing)]))
        steps.append(.cancel(["a", ".priority"]))

        let before = Value(Node(#"{"a":{".value":1,".priority":1},"b":{"a":2,"c":3,".priority":2}}"#))
        func check(_ sequence: [Step]) {
            var scene = Scene(#"{"a":{".value":1,".priority":1},"b":{"a":2,"c":3,".priority":2}}"#)
            let model = SparseTree()
            for step in sequence {
                switch step {
                case .write(let writes):
                    for write in writes { model.remember(write.path, write.value) }
                    scene.run(1, .onDisconnect(writes.map { Write($0.path.slashed, $0.value.json) }))
                case .cancel(let path):
                    _ = model.forget(path)
                    scene.run(1, .cancelOnDisconnect(Path(text: path.slashed)))
                }
            }
            #expect(scene.engine.hasQueue(SessionID(1)) == !model.all.isEmpty, "\(sequence)")
            scene.run(1, .endSession)
            let after = before.merging(model.all, time: 1000)
            #expect(Value(scene.engine.root) == after, "\(sequence)")
        }
        for first in steps {
            check([first])
            for second in steps {
                check([first, second])
                for third in steps { check([first, second, third]) }
            }
        }
    }

    // MARK: Several people in one queue

    private static func person(_ number: Int) -> Credential {
        Credential(authVariable: Text(#"{"uid":"u\#(number)"}"#))
    }

    /// A write below a queued one becomes part of it, and runs with the credentials of all its authors; a
    /// checkpoint keeps all of them.
    @Test func checkpointKeepsAllCredentials() throws {
        var scene = Scene()
        for number in 0..<3 {
            scene.credential = Self.person(number)
            let path = number == 0 ? "a" : "a/k\(number)"
            #expect(scene.run(1, .onDisconnect([Write(path, #"{"n":\#(number)}"#)])) == ["ok"])
        }
        let records = scene.engine.queueRecords
        #expect(records.count == 1)
        var other = Engine(access: .open)
        for record in records { try other.replay(record.kind, record.payload.rawSpan) }
        #expect(other.queueRecords.map(\.payload) == records.map(\.payload))
        #expect(
            other.queues[SessionID(1)]?.pending.map(\.authors) == [
                (0..<3).map { .init(credential: Self.person($0)) }
            ])
        // And only where all of them may write it is written.
        for (uid, left) in [
            ("auth.uid != 'u2'", "null"), ("auth != null", #"{"a":{"k1":{"n":1},"k2":{"n":2},"n":0}}"#),
        ] {
            var third = Engine(
                access: .loaded(try Ruleset(loading: Array(#"{"rules":{".write":"\#(uid)"}}"#.utf8))))
            for record in records { try third.replay(record.kind, record.payload.rawSpan) }
            _ = third.execute(
                Command(session: SessionID(1), credential: .anonymous, time: 5, operation: .endSession))
            #expect(Value(third.root) == Value(Node(left)), "\(uid)")
        }
    }

    /// The number of authors of one queued write is limited; those that it has already may add more.
    @Test func authorsOfOneWriteAreLimited() {
        var scene = Scene()
        scene.credential = Self.person(0)
        #expect(scene.run(1, .onDisconnect([Write("a", "1")])) == ["ok"])
        for number in 1..<DisconnectQueue.authorLimit {
            scene.credential = Self.person(number)
            #expect(scene.run(1, .onDisconnect([Write("a/\(number)", "1")])) == ["ok"])
        }
        scene.credential = Self.person(DisconnectQueue.authorLimit)
        #expect(scene.run(1, .onDisconnect([Write("a/more", "1")])) != ["ok"])
        #expect(scene.run(1, .onDisconnect([Write("b", "1")])) == ["ok"], "elsewhere it may")
        scene.credential = Self.person(1)
        #expect(scene.run(1, .onDisconnect([Write("a/more", "1")])) == ["ok"])
    }

    // MARK: Revocation

    private static func queue(_ path: String, _ json: String, by signIn: UInt32) -> PandoEngine.Operation {
        .onDisconnect([Write(path, json)], signIn: signIn)
    }

    /// What a revoked sign-in has put something into never runs; the rest does, and the journal says the
    /// same.
    @Test(
        arguments: [
            // revoked        left in the tree at the end                                  because
            ([], #"{"a":{"x":1,"y":2},"b":2,"c":0,"d":{"z":3},"p":{".value":1,".priority":7}}"#, "nothing"),
            (
                [9], #"{"a":{"x":1,"y":2},"b":2,"c":0,"d":{"z":3},"p":{".value":1,".priority":7}}"#,
                "a stranger"
            ),
            ([0], #"{"a":{"x":1,"y":2},"b":2,"d":{"z":3},"p":{".value":1,".priority":7}}"#, "signed out"),
            ([1], #"{"b":2,"c":0,"d":{"z":3},"p":1}"#, "one, and what another has put into the same"),
            ([2], #"{"c":0,"d":{"z":3},"p":{".value":1,".priority":7}}"#, "the other, likewise"),
            ([1, 3], #"{"b":2,"c":0,"p":1}"#, "two"),
            ([0, 1, 2, 3], #"{"p":1}"#, "all"),
        ] as [(Set<UInt32>, String, String)])
    func revocation(revoked: Set<UInt32>, left: String, because: String) throws {
        var scene = Scene(#"{"p":1}"#)
        // The same credential throughout: only the sign-ins differ.
        scene.run(1, Self.queue("a", #"{"x":1}"#, by: 1))
        scene.run(1, Self.queue("a/y", "2", by: 2))
        scene.run(1, Self.queue("b", "2", by: 2))
        scene.run(1, Self.queue("c", "0", by: 0))
        scene.run(1, Self.queue("d/z", "3", by: 3))
        scene.run(1, Self.queue("p/.priority", "7", by: 1))
        scene.run(2, Self.queue("other", "1", by: 1))
        #expect(scene.run(1, .revokeOnDisconnect(revoked)).isEmpty)
        var other = Engine(root: Node(#"{"p":1}"#), access: .open)
        for record in scene.records { try other.replay(record.kind, record.payload.rawSpan) }
        #expect(other.queueRecords.map(\.payload) == scene.engine.queueRecords.map(\.payload))
        scene.run(1, .endSession)
        #expect(scene.tree == left, "\(because)")
        _ = scene.engine.checkInvariants()
        // Another session's sign-ins have numbers of their own.
        scene.run(2, .endSession)
        #expect(scene.engine.root["other" as Key] == .integer(1))
    }

    @Test func revocationOfWholeQueueIsOneRecord() {
        var scene = Scene()
        let many = (0..<1000).map { Write("r/k\($0)", "1") }
        scene.run(1, .onDisconnect(many, signIn: 4))
        scene.records = []
        scene.run(1, .revokeOnDisconnect([4]))
        #expect(scene.records.count == 1 && !scene.engine.hasQueue(SessionID(1)))
        scene.run(1, .onDisconnect(many, signIn: 4))
        scene.run(1, Self.queue("kept", "1", by: 5))
        scene.records = []
        scene.run(1, .revokeOnDisconnect([4]))
        #expect(scene.records.count == 1000)
        scene.run(1, .endSession)
        #expect(scene.tree == #"{"kept":1}"#)
    }

    @Test func replacedWriteHasOnlyNewAuthors() {
        var scene = Scene()
        scene.run(1, Self.queue("a/b", "1", by: 1))
        scene.run(1, Self.queue("a", #"{"c":2}"#, by: 2))
        scene.run(1, .revokeOnDisconnect([1]))
        scene.run(1, .endSession)
        #expect(scene.tree == #"{"a":{"c":2}}"#)
    }
}

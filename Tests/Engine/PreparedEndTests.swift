import PandoBytes
import PandoRandom
import PandoRules
import PandoTree
import Testing

@testable import PandoEngine

/// Ends of sessions that another thread has prepared on a snapshot: what is decided is the same as without.
@Suite("prepared ends of sessions") struct PreparedEndTests {
    private static let rules = [
        "true", "!data.exists()", "root.child('open').val() === true", "auth != null && auth.uid === 'ann'",
        "newData.parent().child('k1').exists()", "data.val() !== 3", "root.child('l/k2').val() !== 2",
        "newData.val() !== 3", "newData.parent().child('k1').val() !== 2",
    ]

    private static func access(_ random: inout SeededGenerator) -> Access {
        if random.chance(30) { return .open }
        let text = #"""
            {"rules":{".read":true,"open":{".write":true},
              "l":{"$k":{".write":"\#(random.pick(rules))",".validate":"\#(random.pick(rules))"}}}}
            """#
        return .loaded(try! Ruleset(loading: Array(text.utf8)))
    }

    private static func write(_ random: inout SeededGenerator) -> Write {
        let value = random.pick(["1", "2", "3", "null", #"{"a":1}"#, #"{".sv":{"increment":1}}"#])
        if random.chance(10) { return Write("open", random.pick(["true", "false"])) }
        return Write(random.pick(["l/k1", "l/k2", "l/k3", "l/k1/a", "l/k2/.priority"]), value)
    }

    /// Of whatever others write between the preparation and the end: either that is noticed, or nothing is
    /// different.
    @Test func decidesAsWithoutPreparation() {
        var (adoptedCount, refusedCount) = (0, 0)
        for seed in UInt64(0)..<3000 {
            var random = SeededGenerator(seed: seed)
            let access = Self.access(&random)
            let root = Node(#"{"open":true,"l":{"k1":1,"k2":2,"k4":{"a":1}}}"#)
            let engines = [
                Held(Engine(root: root, access: access)), Held(Engine(root: root, access: access)),
            ]
            func both(_ session: UInt64, _ operation: PandoEngine.Operation, as credential: Credential)
                -> [[String]]
            {
                engines.map { held in
                    held.engine.execute(
                        Command(
                            session: SessionID(session), credential: credential, time: 1000,
                            operation: operation)
                    ).1.lines
                }
            }
            let ann = Credential(authVariable: #"{"uid":"ann"}"#)
            _ = both(2, .listen(Listen(path: "l")), as: .admin)
            // Below the location that is written: then changes are done one by one.
            if seed % 2 == 0 { _ = both(3, .listen(Listen(path: "l/k2")), as: .admin) }
            for _ in 0..<Int.random(in: 1...5, using: &random) {
                _ = both(
                    1, .onDisconnect([Self.write(&random)]),
                    as: random.pick([ann, .anonymous, .admin]))
            }
            let prepared = engines[0].engine.preparation(
                forEndOf: SessionID(1), at: 1000, moreThan: 0)?.perform()
            let isContested = random.chance(60)
            if isContested { _ = both(4, .put(Self.write(&random)), as: .admin) }
            if random.chance(10) { _ = both(1, .onDisconnect([Self.write(&random)]), as: .admin) }
            if random.chance(10) { _ = both(1, .cancelOnDisconnect("l/k1"), as: .admin) }
            if let prepared {
                if engines[0].engine.adopt(prepared) { adoptedCount += 1 } else { refusedCount += 1 }
            }
            let command = Command(
                session: SessionID(1), credential: .anonymous, time: 1000, operation: .endSession)
            let hadQueue = engines[0].engine.hasQueue(SessionID(1))
            let deltas = engines.map { $0.engine.decide(command) }
            let records = deltas.map { $0.records(hadQueue: hadQueue).map(\.payload) }
            // Where no rules were asked, a value that others have written meanwhile is written once more.
            let mayRepeat = isContested && prepared?.ruleDecision == nil
            #expect(mayRepeat || records[0] == records[1], "seed \(seed)")
            let lines = zip(engines, deltas).map { $0.engine.commit($1).lines.sorted() }
            engines[0].engine.discardPreparedWrite()
            #expect(mayRepeat || lines[0] == lines[1], "seed \(seed)")
            #expect(engines[0].engine.root == engines[1].engine.root, "seed \(seed)")
        }
        #expect(adoptedCount > 1000 && refusedCount > 100, "\(adoptedCount) \(refusedCount)")
    }

    @Test("few writes under simple rules need no other thread; many, and searches of texts, do")
    func whenItIsPrepared() {
        func isPrepared(_ count: Int, _ rule: String?) -> Bool {
            let access: Access =
                if let rule {
                    .loaded(try! Ruleset(loading: Array(#"{"rules":{".write":"\#(rule)"}}"#.utf8)))
                } else { .open }
            let held = Held(Engine(access: access))
            for number in 0..<count {
                _ = held.engine.execute(
                    Command(
                        session: SessionID(1), credential: .admin, time: 1,
                        operation: .onDisconnect([Write("l/k\(number)", "1")])))
            }
            return held.engine.preparation(forEndOf: SessionID(1), at: 1) != nil
        }
        #expect(!isPrepared(Engine.queueCountAtOnce, nil))
        #expect(isPrepared(Engine.queueCountAtOnce + 1, nil))
        #expect(!isPrepared(Engine.judgedQueueCountAtOnce, "auth == null"))
        #expect(isPrepared(Engine.judgedQueueCountAtOnce + 1, "auth == null"))
        #expect(isPrepared(1, "root.child('t').val().contains('x')"))
        #expect(!isPrepared(0, "root.child('t').val().contains('x')"))
    }

    @Test("few writes at long paths need another thread, too; and their keys count as bytes that are queued")
    func longPaths() {
        let path = Path(
            Array(repeating: Key(unchecked: Text(String(repeating: "k", count: 740))), count: 29))
        for (count, isPrepared) in [(5, false), (20, true)] {
            let held = Held(Engine(access: .open))
            for number in 0..<count {
                let target = Target(path.appending(Key(unchecked: Text("n\(number)"))))
                _ = held.engine.execute(
                    Command(
                        session: SessionID(1), credential: .anonymous, time: 1,
                        operation: .onDisconnect([Write(target, Draft("1"))])))
            }
            #expect(held.engine.queueSize(of: SessionID(1)).byteCount > count * path.keyByteCount)
            let preparation = held.engine.preparation(forEndOf: SessionID(1), at: 1)
            #expect((preparation != nil) == isPrepared, "\(count)")
        }
    }

    @Test("writes whose rules take many steps need another thread, though they are few and small")
    func whenRulesTakeLong() throws {
        let lookups = (0..<400).map { "root.child('c/a/b/c\($0)').val() !== 1" }.joined(separator: " && ")
        for (rule, count, isPrepared) in [
            (lookups, 8, false), (lookups, 32, true), ("auth == null", 32, false),
        ] {
            let text = #"{"rules":{"l":{"$k":{".write":"\#(rule)"}}}}"#
            let held = Held(Engine(access: .loaded(try Ruleset(loading: Array(text.utf8)))))
            for number in 0..<count {
                _ = held.engine.execute(
                    Command(
                        session: SessionID(1), credential: .anonymous, time: 1,
                        operation: .onDisconnect([Write("l/k\(number)", "1")])))
            }
            #expect(held.engine.queueSize(of: SessionID(1)).count == count)
            let preparation = held.engine.preparation(forEndOf: SessionID(1), at: 1)
            #expect((preparation != nil) == isPrepared, "\(count)")
        }
    }
}

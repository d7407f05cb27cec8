import PandoBytes
import PandoRandom
import PandoRules
import PandoTree
import Testing

@testable import PandoEngine

/// Merges of many paths that another thread has done, while others write to the same location.
@Suite struct PreparedMergeTests {
    private static let keys = (0..<6).map { Key(unchecked: Text("k\($0)")) }
    private static let values = [
        "null", "1", "2", #"{"n":1}"#, #"{"n":2,"m":1}"#, #"{".value":3,".priority":1}"#,
        #"{".sv":"timestamp"}"#, #"{".sv":{"increment":1}}"#, #"{"n":{".sv":{"increment":2}}}"#,
    ]

    /// Writes of distinct children, or of something in them.
    private static func writes(_ random: inout SeededGenerator) -> [Write] {
        keys.filter { _ in random.chance(50) }.map { key in
            let path = Path(random.chance(30) ? ["list", key, "n"] : ["list", key])
            return Write(Target(path), Draft(random.pick(values)))
        }
    }

    private static func disturb(_ root: inout Node, _ random: inout SeededGenerator) {
        let path = Path(random.chance(40) ? ["list", random.pick(keys), "n"] : ["list", random.pick(keys)])
        root.set(Node(random.pick(["null", "5", "1", #"{"m":7}"#])), at: path)
    }

    /// What a merge leaves is what it would leave if it was done now, or it is not adopted.
    @Test(arguments: 0..<4) func resultsAreThoseWithoutPreparation(seed: Int) {
        var random = SeededGenerator(seed: seed)
        var (adopted, refused, followed, afterRemovalsCount) = (0, 0, 0, 0)
        for step in 0..<2000 {
            var root = Node(#"{"list":{"k0":1,"k1":{"n":1},"k2":{"n":2,"m":1},"k3":2,"other":true}}"#)
            let writes = Self.writes(&random)
            guard var merge = PreparedMerge(writes, base: "list", in: root, at: 7) else { continue }
            for _ in 0..<Int.random(in: 0...2, using: &random) { Self.disturb(&root, &random) }
            if random.chance(50), let later = merge.following(to: root, replacing: true) {
                merge = later
                followed += 1
                Self.disturb(&root, &random)
            }
            guard let result = merge.result(over: root, replacing: true) else {
                refused += 1
                continue
            }
            adopted += 1
            var expected = root
            for change in root.changes(of: writes, at: 7) { expected.apply(change) }
            var whole = root
            whole.set(result.change.node, at: merge.location)
            #expect(whole == expected, "seed \(seed), step \(step): \(writes)")
            guard let afterRemovals = result.afterRemovals else { continue }
            afterRemovalsCount += 1
            var bare = root
            for change in root.changes(of: writes, at: 7) where change.node.isEmpty { bare.apply(change) }
            whole.set(afterRemovals.node, at: merge.location)
            #expect(whole == bare, "seed \(seed), step \(step): the removals of \(writes)")
        }
        #expect(
            adopted > 200 && refused > 50 && followed > 100 && afterRemovalsCount > 50,
            "seed \(seed): \(adopted) \(refused) \(followed) \(afterRemovalsCount)")
    }

    @Test(
        arguments: [
            // of the merge,                    what others write to k1, adopted, and with rules
            ("k1", "5", "k1", "6", true, false),
            ("k1", "5", "k1/x", "6", true, false),
            ("k1", "5", "k1", "null", true, false),
            ("k1/n", "5", "k1/m", "6", false, false),
            ("k1", #"{".sv":{"increment":1}}"#, "k1", "6", false, false),
            ("k1", "null", "k1", "6", false, false),
            // It is as it would be: nothing was to be done.
            ("k1", "1", "k1", "6", false, false),
            ("k1", "5", "k2", "6", true, true),
        ] as [(String, String, String, String, Bool, Bool)])
    func whatOthersMayWrite(
        path: String, value: String, other: String, otherValue: String, isAdopted: Bool, withRules: Bool
    ) throws {
        let root = Node(#"{"list":{"k1":1,"k2":1,"k3":1}}"#)
        let writes = [Write("list/" + path, value), Write("list/k3", "7")]
        let merge = try #require(PreparedMerge(writes, base: "list", in: root, at: 7))
        var now = root
        now.set(Node(otherValue), at: Path(text: "list/" + other))
        #expect((merge.result(over: now, replacing: true) != nil) == isAdopted)
        #expect((merge.result(over: now, replacing: false) != nil) == withRules)
    }

    // MARK: Engines

    private static func many(_ count: Int, adding: Int) -> [Write] {
        (0..<count).map { Write("list/a\($0)", "\($0 + adding)") }
    }

    private func run(_ engine: inout Engine, _ operation: PandoEngine.Operation) {
        _ = engine.execute(
            Command(session: SessionID(2), credential: .admin, time: 3, operation: operation))
    }

    /// More was written meanwhile than is taken over at once: the next preparation does only that, and holds.
    @Test(arguments: [false, true]) func preparationsFollowWhatOthersWrite(hasRules: Bool) throws {
        let text = #"{"rules":{".read":true,".write":"root.child('open').val() === true"}}"#
        let access = hasRules ? Access.loaded(try Ruleset(loading: Array(text.utf8))) : .open
        let held = Held(Engine(root: Node(#"{"open":true,"list":{"b0":0}}"#), access: access))
        let writes = Self.many(Engine.largeMergeCount + 1, adding: 0)
        func prepare(following former: PreparedWrite? = nil) -> PreparedWrite {
            held.engine.preparation(
                for: writes, mergeBase: "list", as: .anonymous, at: former == nil ? 10 : 20, following: former
            )!.perform()
        }
        let first = prepare()
        let others = (0...PreparedMerge.differenceLimit).map { Write("list/b\($0)", "1") }
        run(&held.engine, .merge(base: "list", others))
        let isFirstAdopted = held.engine.adopt(first)
        #expect(!isFirstAdopted)
        let second = prepare(following: first)
        #expect(second.time == 10, "it goes on with the first one")
        run(&held.engine, .put(Write("list/b0", "2")))
        let isAdopted = held.engine.adopt(second)
        #expect(isAdopted)
        let command = Command(
            session: SessionID(1), credential: .anonymous, time: second.time,
            operation: .merge(base: "list", writes))
        let (delta, _) = held.engine.execute(command)
        guard case .ok? = delta.result else {
            Issue.record("it is permitted")
            return
        }
        held.engine.discardPreparedWrite()
        #expect(held.engine.root["list" as Path].children.count == writes.count + others.count)
        #expect(
            held.engine.root["list/b0" as Path] == .integer(2)
                && held.engine.root["list/a7" as Path] == .integer(7))
        // What the rules have read has changed: they are asked again.
        let third = prepare()
        run(&held.engine, .put(Write("open", "false")))
        let isThirdAdopted = held.engine.adopt(third)
        #expect(isThirdAdopted == !hasRules)
        held.engine.discardPreparedWrite()
        #expect(prepare(following: third).isDenied == hasRules)
    }

    /// The client of another listen below may apply the entries one by one, and see the child without its
    /// data, or without its value in the window's order: it is pushed whole.
    @Test(arguments: [
        (#"{"l":1,"vf":"l"}"#, ""),
        (#"{"i":"list/m","l":1,"vf":"l"}"#, #","x":2"#),
    ])
    func childrenThatTheRemovalsWouldEmptyArePushedWhole(query: String, besides: String) {
        let removed: [String] = (0...Engine.largeMergeCount).map { number in "m\(number)" }
        for keepsOther in [false, true] {
            let members = (removed + (keepsOther ? ["other"] : [])).map { key in "\"\(key)\":1" }
            let list = #"{"m":{\#(members.joined(separator: ","))}}"#
            var scene = Scene(#"{"q":{"a":{"list":\#(list)\#(besides)}}}"#)
            scene.listen(1, "q", query, tag: 1)
            let writes = removed.map { Write("q/a/list/m/\($0)", "null") } + [Write("q/a/list/m/z", "1")]
            let prepared = scene.engine.preparation(
                for: writes, mergeBase: "q/a/list/m", as: .anonymous, at: 1)!.perform()
            let isAdopted = scene.engine.adopt(prepared)
            #expect(isAdopted)
            let lines = scene.merge(2, "q/a/list/m", removed.map { ($0, "null") } + [("z", "1")])
            let pushed =
                keepsOther ? #"d q/a/list/m {"other":1,"z":1}"# : #"d q/a {"list":{"m":{"z":1}}\#(besides)}"#
            #expect(lines == ["S1#1 " + pushed, "ok"])
        }
    }

    /// A denial holds, whatever has changed since.
    @Test func denialsNeedNoSecondPreparation() throws {
        let text = #"{"rules":{".write":"root.child('open').val() === true"}}"#
        let held = Held(Engine(access: .loaded(try Ruleset(loading: Array(text.utf8)))))
        let writes = Self.many(Engine.largeMergeCount + 1, adding: 0)
        let prepared = held.engine.preparation(
            for: writes, mergeBase: "list", as: .anonymous, at: 1)!.perform()
        #expect(prepared.isDenied)
        run(&held.engine, .put(Write("open", "true")))
        run(&held.engine, .put(Write("list/a1", "9")))
        held.engine.adoptDenial(prepared)
        func decide() -> CommandResult? {
            held.engine.decide(
                Command(
                    session: SessionID(1), credential: .anonymous, time: 1,
                    operation: .merge(base: "list", writes))
            ).result
        }
        guard case .permissionDenied? = decide() else {
            Issue.record("it was denied")
            return
        }
        held.engine.discardPreparedWrite()
        guard case .ok? = decide() else {
            Issue.record("now it is permitted")
            return
        }
    }
}

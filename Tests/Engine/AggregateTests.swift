import PandoBytes
import PandoRandom
import PandoRules
import PandoTree
import Testing

@testable import PandoEngine

extension Query {
    fileprivate init(_ json: String, _ names: [String]) {
        self = try! Query(json).aggregating(names.map { Text($0) })
    }
}

/// Live aggregates and reads of them, on one engine.
@Suite struct AggregateTests {
    private static func scene(_ count: Int = 5) -> Scene {
        var scene = Scene()
        let children = (0..<count).map { #""\#($0)":{"n":\#($0),"p":\#(Double($0) / 2)}"# }
        scene.put(9, "q", "{\(children.joined(separator: ","))}")
        return scene
    }

    private static let all = ["count", "sum(p)"]

    @Test func aReadGivesTheValues() {
        var scene = Self.scene()
        for (query, expected) in [
            ("{}", #"ok {"count":5,"sum(p)":5}"#),
            (#"{"i":"n","sp":1,"ep":2}"#, #"ok {"count":2,"sum(p)":1.5}"#),
            (#"{"i":"n","l":2,"vf":"r"}"#, #"ok {"count":2,"sum(p)":3.5}"#),
            (#"{"i":"n","sp":9}"#, #"ok {"count":0,"sum(p)":0}"#),
            (#"{"w":{"p":1},"i":"n"}"#, #"ok {"count":1,"sum(p)":1}"#),
            (#"{"i":".key","sp":"3"}"#, #"ok {"count":2,"sum(p)":3.5}"#),
        ] { #expect(scene.run(1, .get("q", Query(query, Self.all))) == [expected], "\(query)") }
        #expect(scene.run(1, .get("nowhere", Query("{}", Self.all))) == [#"ok {"count":0,"sum(p)":0}"#])
        #expect(scene.run(1, .get("nowhere", Query("{}", ["avg(p)"]))) == ["ok null"])
        #expect(
            scene.run(1, .get("q/1/n", Query("{}", ["count"]))) == [#"ok {"count":0}"#],
            "a leaf has no children")
    }

    @Test func aLiveAggregateIsSentEachNewValueAndNoOther() {
        var scene = Self.scene()
        let query = Query(#"{"i":"n","sp":1,"ep":3}"#, Self.all)
        #expect(
            scene.run(1, .listen(Listen(path: "q", query: query, tag: 7)))
                == [#"S1#7 d q {"count":3,"sum(p)":3}"#, "ok {}"])
        #expect(scene.put(2, "q/2/p", "5") == [#"S1#7 d q {"count":3,"sum(p)":7}"#, "ok"])
        #expect(scene.put(2, "q/2/other", "5") == ["ok"], "another field")
        #expect(scene.put(2, "q/4/p", "5") == ["ok"], "a child outside the range")
        #expect(
            scene.put(2, "q/4/n", "3") == [#"S1#7 d q {"count":4,"sum(p)":12}"#, "ok"],
            "it comes into the range")
        #expect(
            scene.merge(2, "q", [("4", "null"), ("new", #"{"n":2,"p":5}"#)]) == ["ok"],
            "the same values as before")
        #expect(scene.put(2, "q/2/p", "null") == [#"S1#7 d q {"count":4,"sum(p)":7}"#, "ok"])
        #expect(scene.put(2, "q", "null") == [#"S1#7 d q {"count":0,"sum(p)":0}"#, "ok"])
        #expect(
            scene.put(2, "", #"{"q":{"a":{"n":2,"p":1}}}"#) == [#"S1#7 d q {"count":1,"sum(p)":1}"#, "ok"])
        #expect(scene.run(1, .unlisten("q", query, tag: 7)) == ["ok"])
        #expect(scene.put(2, "q", "null") == ["ok"])
        #expect(scene.engine.checkInvariants().nodes == 1)
    }

    @Test func equalOnesShareAPushAndWindowsAreBesideThem() {
        var scene = Self.scene(3)
        let query = Query("{}", ["count"])
        scene.run(1, .listen(Listen(path: "q", query: query, tag: 1)))
        scene.run(2, .listen(Listen(path: "q", query: query, tag: 2)))
        scene.listen(3, "q", #"{"i":".key","l":1,"vf":"l"}"#, tag: 3)
        #expect(
            scene.put(9, "q/0", "null")
                == [
                    #"S1#1 d q {"count":2}"#, #"S2#2 d q {"count":2}"#,
                    #"S3#3 m q {"0":null,"1":{"n":1,"p":0.5}}"#, "ok",
                ])
        scene.run(1, .endSession)
        scene.run(2, .endSession)
        scene.run(3, .endSession)
        #expect(scene.engine.checkInvariants().nodes == 1)
    }

    @Test func numbersOfLiveAggregatesAreBounded() {
        var scene = Self.scene()
        func listen(_ session: UInt64, _ number: Int) -> String? {
            let query = Query(#"{"i":"n","sp":\#(number)}"#, ["count"])
            return scene.run(session, .listen(Listen(path: "q", query: query, tag: Int64(number) + 1))).last
        }
        for number in 0..<SessionListens.aggregateLimit { #expect(listen(1, number) == "ok {}") }
        #expect(listen(1, 5000) == "failed", "of one session")
        var (session, number) = (UInt64(2), SessionListens.aggregateLimit)
        while number < ListenerTable.aggregateLimit {
            #expect(listen(session, number) == "ok {}")
            number += 1
            if number % SessionListens.aggregateLimit == 0 { session += 1 }
        }
        #expect(listen(50, 5000) == "failed", "of one location")
        #expect(listen(50, 3) == "ok {}", "one that is there")
        scene.run(1, .endSession)
        #expect(listen(50, 5000) == "ok {}")
    }

    @Test func permissionIsThatOfTheQuery() throws {
        let rules =
            #"{"rules":{"q":{".read":"query.orderByChild == 'n' && query.limitToFirst <= 2"},"p":{".read":true}}}"#
        var scene = Scene(
            #"{"q":{"a":{"n":1}},"p":{"a":1}}"#, access: .loaded(try Ruleset(loading: Array(rules.utf8))))
        let limited = Query(#"{"i":"n","l":2,"vf":"l"}"#, ["count"])
        let unlimited = Query(#"{"i":"n","sp":0}"#, ["count"])
        #expect(scene.run(1, .get("q", limited)) == [#"ok {"count":1}"#])
        for query in [unlimited, Query("{}", ["count"])] {
            #expect(scene.run(1, .get("q", query)) == ["permission_denied"])
            #expect(scene.run(1, .listen(Listen(path: "q", query: query, tag: 1))) == ["permission_denied"])
        }
        #expect(scene.run(1, .get("p", Query("{}", ["count"]))) == [#"ok {"count":1}"#], "a plain read")
        scene.run(1, .listen(Listen(path: "q", query: limited, tag: 1)))
        scene.engine.access = .locked
        #expect(
            scene.engine.listens(of: SessionID(1), deniedTo: .anonymous, at: 0).map(\.tag) == [1],
            "to be revoked")
    }

    @Test func aSessionThatLagsGetsTheNewestValue() {
        var scene = Self.scene()
        let query = Query("{}", ["count"])
        scene.run(1, .listen(Listen(path: "q", query: query, tag: 4)))
        scene.put(2, "q/x", "1")
        scene.put(2, "q/y", "1")
        let pushes = scene.engine.tree.catchUp(SessionID(1), paths: [], tags: [4])
        #expect(Effects(pushes: pushes).lines == [#"S1#4 d q {"count":7}"#])
    }
}

// MARK: - Against a model

/// What an aggregate is, by its definition. Numbers are quarters, whose sums are exact.
private func naive(_ query: Query, over node: Node) -> Node {
    var plain = query
    var selected: [Node] = []
    if let bare = query.withoutAggregates {
        plain = bare
        selected = Window(plain, over: node).entries.map(\.node)
    } else {
        node.children.forEach { _, child in
            selected.append(child)
            return true
        }
    }
    var result = Node.empty
    for aggregate in query.aggregates {
        let numbers = selected.compactMap { aggregate.field?.number(of: $0).doubleValue }
        let sum = numbers.reduce(0, +)
        let value: Node =
            switch aggregate.function {
            case .count: .integer(Int64(selected.count))
            case .sum: .number(sum)
            case .average: numbers.isEmpty ? .empty : .number(sum / Double(numbers.count))
            case .minimum: numbers.min().map { .number($0) } ?? .empty
            case .maximum: numbers.max().map { .number($0) } ?? .empty
            }
        result.set(value, at: Path([aggregate.name]))
    }
    return result
}

/// Random rules with indexes, trees, writes, reads and live aggregates; other threads' work comes late, in
/// parts.
private struct AggregateWorld {
    var random: SeededGenerator
    let seed: UInt64
    let held: Held
    /// What each live aggregate has been sent last.
    var shown: [Int64: Node] = [:]
    var live: [Int64: Query] = [:]
    var lateJobs: [IndexJob] = []
    var nextTag: Int64 = 1

    init(seed: UInt64) {
        self.seed = seed
        var generator = SeededGenerator(seed: seed)
        let declared = [#""n""#, #""g+n""#, #"".value""#].filter { _ in Bool.random(using: &generator) }
        random = generator
        let rules =
            #"{"rules":{".read":true,".write":true,"q":{".indexOn":[\#(declared.joined(separator: ","))]}}}"#
        held = Held(Engine(access: .loaded(try! Ruleset(loading: Array(rules.utf8)))))
        var tree = Node.empty
        for number in 0..<random.pick([30, 600]) { tree.set(child(), at: Path(["q", Key(index: number)])) }
        put("q", tree["q" as Key])
    }

    mutating func child() -> Node {
        if random.chance(10) { return .integer(.random(in: 0..<9, using: &random)) }
        var node = Node.empty
        node.set(.boolean(true), at: "z")
        if random.chance(80) { node.set(.integer(.random(in: 0..<30, using: &random)), at: "n") }
        if random.chance(80) { node.set(.string(random.pick(["CH", "FR"])), at: "g") }
        if random.chance(80) {
            node.set(
                random.chance(20)
                    ? .string("x") : .number(Double(Int.random(in: -99..<99, using: &random)) / 4), at: "p")
        }
        return node
    }

    mutating func query() -> Query {
        var parts: [String] = []
        let order = random.pick(["n", "n", ".value", ".key", ""])
        if !order.isEmpty { parts.append(#""i":"\#(order)""#) }
        if order == "n", random.chance(40) { parts.append(#""w":{"g":"CH"}"#) }
        if order == "n" || order == ".value" {
            if random.chance(50) { parts.append(#""sp":\#(Int.random(in: 0..<30, using: &random))"#) }
            if random.chance(50) { parts.append(#""ep":\#(Int.random(in: 0..<30, using: &random))"#) }
        }
        if !order.isEmpty, random.chance(30) {
            parts.append(#""l":\#(random.pick([1, 10, 300])),"vf":"\#(random.pick(["l", "r"]))""#)
        }
        let names = ["count", "sum(p)", "avg(p)", "min(p)", "max(p)", "sum($value)"].filter { _ in
            Bool.random(using: &random)
        }
        return Query("{\(parts.joined(separator: ","))}", names + ["count"])
    }

    private func run(_ operation: PandoEngine.Operation) -> Effects {
        held.engine.execute(
            Command(session: SessionID(1), credential: .anonymous, time: 1, operation: operation)
        ).1
    }

    private mutating func note(_ pushes: [Push]) {
        for push in pushes {
            guard case .overwrite(let path, let node) = push.body, path == "q" else {
                Issue.record("seed \(seed): another push")
                continue
            }
            for recipient in push.taggedRecipients {
                #expect(
                    shown[recipient.tag] != node || live[recipient.tag] == nil,
                    "seed \(seed): the same value again")
                shown[recipient.tag] = node
            }
        }
    }

    private mutating func put(_ path: Path, _ node: Node) {
        note(run(.put(Write(Target(path), Draft(node)))).pushes)
    }

    mutating func step() {
        switch Int.random(in: 0..<12, using: &random) {
        case 0 where live.count < 12:
            let query = query()
            live[nextTag] = query
            note(run(.listen(Listen(path: "q", query: query, tag: nextTag))).pushes)
            nextTag += 1
        case 1:
            guard let tag = live.keys.sorted().randomElement(using: &random),
                let query = live.removeValue(forKey: tag)
            else { break }
            shown[tag] = nil
            _ = run(.unlisten("q", query, tag: tag))
        case 2: put("q", random.chance(30) ? .empty : rebuilt(random.pick([20, 700])))
        case 3:
            let writes = (0..<5).map { _ in
                Write(
                    Target(Path(["q", Key(index: .random(in: 0..<700, using: &random))])),
                    Draft(random.chance(20) ? .empty : child()))
            }
            var seen: Set<Path> = []
            note(run(.merge(base: "q", writes.filter { seen.insert($0.target.path).inserted })).pushes)
        case 4...6:
            put(
                Path([
                    "q", Key(index: .random(in: 0..<700, using: &random)), random.pick(["n", "p", "g", "y"]),
                ]), .integer(.random(in: 0..<30, using: &random)))
        default:
            put(
                Path(["q", Key(index: .random(in: 0..<700, using: &random))]),
                random.chance(20) ? .empty : child())
        }
        let query = query()
        held.engine.tree.noteUse(of: query, at: "q", isLasting: false, at: 1)
        let found = held.engine.tree.indexed(query, at: "q").result(over: held.engine.root["q" as Key])
        #expect(found == naive(query, over: held.engine.root["q" as Key]), "seed \(seed): \(query)")
        work(all: false)
        check(
            isSettled: held.engine.root["q" as Key].children.count <= LiveTree.inlineQueryChildCount
                && lateJobs.isEmpty && !held.engine.tree.hasIndexWork)
    }

    private mutating func rebuilt(_ count: Int) -> Node {
        var node = Node.empty
        for number in 0..<count { node.set(child(), at: Path([Key(index: number)])) }
        return node
    }

    mutating func work(all: Bool) {
        repeat {
            lateJobs += held.engine.tree.takeIndexWork().jobs
            while !lateJobs.isEmpty, all || random.chance(40) {
                held.engine.tree.finish(
                    lateJobs.remove(at: Int.random(in: 0..<lateJobs.count, using: &random)).perform())
                note(held.engine.tree.removeScanPushes())
            }
        } while all && (held.engine.tree.hasIndexWork || !lateJobs.isEmpty)
    }

    /// - Parameter isSettled: Nothing is under way: each live aggregate has been sent the value of now.
    func check(isSettled: Bool) {
        guard isSettled else { return }
        for (tag, query) in live {
            #expect(shown[tag] == naive(query, over: held.engine.root["q" as Key]), "seed \(seed): \(query)")
        }
    }
}

@Test(arguments: 1...8 as ClosedRange<UInt64>)
func aggregatesAreThoseOfANaiveModel(seed: UInt64) {
    var world = AggregateWorld(seed: seed)
    for step in 0..<40 {
        world.step()
        guard step % 10 == 9 else { continue }
        world.work(all: true)
        world.check(isSettled: true)
        _ = world.held.engine.checkInvariants()
    }
}

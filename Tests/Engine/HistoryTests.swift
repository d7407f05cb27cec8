import PandoBytes
import PandoRandom
import PandoRules
import PandoTree
import Testing

@testable import PandoEngine

/// Who wrote, and what one location held, as records tell it.
@Suite struct HistoryTests {
    static let user = Credential(authVariable: #"{"uid":"ann","provider":"custom","token":{}}"#)

    // MARK: Writers

    static let writerCases: [(Credential, Writer, [UInt8], String)] = [
        (.anonymous, .anonymous, [0], "signed out"),
        (.admin, .administrator, [1], "an administrator"),
        (user, .user("ann"), [2, 3] + Array("ann".utf8), "a user"),
        (Credential(authVariable: #"{"d":1}"#), .withoutUID, [3], "no uid"),
        (Credential(authVariable: #"{"uid":""}"#), .withoutUID, [3], "an empty uid"),
        (Credential(authVariable: #"{"uid":7}"#), .withoutUID, [3], "a uid that is no string"),
        (
            Credential(authVariable: Text("{\"uid\":\"" + String(repeating: "é", count: 500) + "\"}")),
            .user(Text(String(repeating: "é", count: 384))),
            [2, 0x80, 6] + Array(String(repeating: "é", count: 384).utf8), "cut to 768 bytes"
        ),
        (
            Credential(authVariable: Text("{\"uid\":\"x" + String(repeating: "é", count: 500) + "\"}")),
            .user(Text("x" + String(repeating: "é", count: 383))),
            [2, 0xFF, 5] + Array(("x" + String(repeating: "é", count: 383)).utf8), "cut between characters"
        ),
    ]

    @Test(arguments: 0..<writerCases.count)
    func writers(index: Int) throws {
        let (credential, writer, bytes, reason) = Self.writerCases[index]
        #expect(Writer(credential) == writer, "\(reason)")
        for isOnDisconnect in [false, true] {
            let record = EngineRecord.delta(
                [Change(path: "a", node: .integer(1))], by: credential, isOnDisconnect: isOnDisconnect)
            var expected = bytes
            if isOnDisconnect { expected[0] += 4 }
            #expect(Array(record.payload.prefix(expected.count)) == expected, "\(reason)")
            let (authorship, changes) = try EngineRecord.authoredChanges(reading: record.payload.rawSpan)
            #expect(authorship == Authorship(writer, isOnDisconnect: isOnDisconnect), "\(reason)")
            #expect(changes == [Change(path: "a", node: .integer(1))])
        }
    }

    /// The bytes of a former version, and those of this one: they differ in the writer alone.
    @Test func goldenBytes() throws {
        let old: [UInt8] = [3] + Array("a/b".utf8) + [1, 0, 1, 0, 0, 0] + Array("7".utf8)
        let changes = [Change(path: "a/b", node: .integer(7))]
        #expect(EngineRecord.delta(changes).payload == old)
        #expect(EngineRecord.delta(changes).kind == .delta)
        #expect(EngineRecord.delta(changes, by: Self.user).payload == [2, 3] + Array("ann".utf8) + old)
        #expect(EngineRecord.delta(changes, by: Self.user).kind == .authoredDelta)
        for record in [EngineRecord.delta(changes), EngineRecord.delta(changes, by: Self.user)] {
            var engine = Engine(access: .open)
            try engine.replay(record.kind, record.payload.rawSpan)
            #expect(engine.root["a/b" as Path] == .integer(7))
        }
        let touch = try EngineRecord.touch(of: "a", by: .delta, old.rawSpan)
        #expect(touch == EngineRecord.Touch(authorship: nil, first: "a/b", count: 1))
    }

    /// The end of a session writes as those that have queued its writes.
    @Test func onDisconnectWritersAreThoseThatQueued() throws {
        var scene = Scene()
        scene.credential = Self.user
        scene.run(1, .onDisconnect([Write("a/1", "1"), Write("c/1", "null")]))
        scene.credential = .admin
        scene.run(1, .onDisconnect([Write("b/1", "1"), Write("c", #"{"2":2}"#)]))
        scene.credential = .anonymous
        scene.run(1, .onDisconnect([Write("c/2", "3")]))
        scene.records = []
        scene.run(1, .endSession)
        let authors = try scene.records.filter { $0.kind == .authoredDelta }.map {
            let (authorship, changes) = try EngineRecord.authoredChanges(reading: $0.payload.rawSpan)
            return "\(authorship): " + changes.map { "\($0.path)" }.joined(separator: " ")
        }
        #expect(
            authors == ["user ann, onDisconnect: /a/1", "administrator, onDisconnect: /b/1 /c"],
            "a write of several authors is the first one's")
        #expect(scene.records.map(\.kind) == [.authoredDelta, .authoredDelta, .onDisconnectCancelled])
        #expect(scene.engine.root == Node(#"{"a":{"1":1},"b":{"1":1},"c":{"2":3}}"#))
    }

    // MARK: One location

    static let keys = ["a", "b", "c", "007", "a long key that lies on the heap", "é"]

    static func path(_ random: inout SeededGenerator, _ lengths: ClosedRange<Int>) -> [String] {
        (0..<Int.random(in: lengths, using: &random)).map { _ in random.pick(keys) }
    }

    static func json(_ random: inout SeededGenerator, depth: Int) -> String {
        switch Int.random(in: 0..<(depth > 0 ? 9 : 4), using: &random) {
        case 0: return "null"
        case 1: return "\(Int.random(in: 0..<100, using: &random))"
        case 2: return "\"t\\\"{,:\(Int.random(in: 0..<10, using: &random))\""
        case 3: return #"{".value":true,".priority":\#(Int.random(in: 0..<5, using: &random))}"#
        default:
            var names = Set((0..<Int.random(in: 1...3, using: &random)).map { _ in random.pick(keys) })
                .sorted()
            var members = names.map { "\"\($0)\":\(json(&random, depth: depth - 1))" }
            if random.chance(20) { members.insert(#"".priority":"p""#, at: 0) }
            names.removeAll()
            return "{" + members.joined(separator: ",") + "}"
        }
    }

    /// Random writes, from a random checkpoint on: the value of any location is that of the whole tree, and
    /// it is touched by each write that changes it.
    @Test(arguments: 0..<60 as Range<UInt64>)
    func isTheValueOfTheWholeTree(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let paths = (0..<12).map { _ in Path(text: Self.path(&random, 0...4).joined(separator: "/")) }
        var scene = Scene()
        for _ in 0..<20 {
            scene.put(1, Self.path(&random, 0...3).joined(separator: "/"), Self.json(&random, depth: 3))
        }
        var replays = paths.map { SubtreeReplay(at: $0, byteLimit: 1 << 20) }
        let parts = TreeRecordTests.records(
            of: scene.engine.root, byteLimit: random.pick([1, 30, 100, 1 << 20]))
        for part in parts { for index in replays.indices { try replays[index].replay(.tree, part.rawSpan) } }
        for step in 0..<60 {
            for (path, replay) in zip(paths, replays) {
                #expect(replay.value == scene.engine.root[path], "seed \(seed), step \(step), \(path)")
            }
            let before = scene.engine.root
            scene.records = []
            scene.credential = random.pick([.anonymous, .admin, Self.user])
            switch Int.random(in: 0..<10, using: &random) {
            case 0:
                scene.put(1, (Self.path(&random, 0...3) + [".priority"]).joined(separator: "/"), "\(step)")
            case 1, 2:
                var writes: [String: Write] = [:]
                for _ in 0..<4 {
                    let (first, rest) = (random.pick(Self.keys), Self.path(&random, 0...2))
                    let text = ([first] + rest).joined(separator: "/")
                    writes[first] = Write(text, Self.json(&random, depth: 2))
                }
                scene.run(1, .merge(base: .root, writes.sorted { $0.key < $1.key }.map(\.value)))
            case 3:
                let write = Write(
                    Self.path(&random, 1...3).joined(separator: "/"), Self.json(&random, depth: 1))
                scene.run(2, .onDisconnect([write]))
                scene.run(2, .endSession)
            default:
                scene.put(1, Self.path(&random, 0...4).joined(separator: "/"), Self.json(&random, depth: 3))
            }
            for record in scene.records {
                for index in replays.indices {
                    try replays[index].replay(record.kind, record.payload.rawSpan)
                }
            }
            for path in paths where before[path] != scene.engine.root[path] {
                let touches = try scene.records.compactMap {
                    try EngineRecord.touch(of: path, by: $0.kind, $0.payload.rawSpan)
                }
                #expect(!touches.isEmpty, "seed \(seed), step \(step): \(path) changed without a write")
                #expect(touches.allSatisfy { $0.authorship?.writer == Writer(scene.credential) })
            }
        }
    }

    @Test(arguments: [
        ("a/b", "a/b", true), ("a/b", "a", true), ("a/b", "a/b/c", true), ("a/b", "", true),
        ("", "z/y", true),
        ("a/b", "a/c", false), ("a/b", "ab", false), ("a/b", "a/b/.priority", true),
        ("a/b", "a/b/c/.priority", true), ("a/b", "a/.priority", false), ("", ".priority", true),
    ])
    func touches(path: String, changed: String, isTouched: Bool) throws {
        let record = EngineRecord.delta([Change(path: Path(text: changed), node: .integer(1))], by: .admin)
        let touch = try EngineRecord.touch(of: Path(text: path), by: record.kind, record.payload.rawSpan)
        #expect((touch != nil) == isTouched)
    }

    /// A value beyond the limit is forgotten, until all of it is replaced.
    @Test func limit() throws {
        var replay = SubtreeReplay(at: "a", byteLimit: 1000)
        func put(_ path: String, _ json: String) throws {
            let record = EngineRecord.delta([Change(path: Path(text: path), node: Node(json))], by: .admin)
            try replay.replay(record.kind, record.payload.rawSpan)
        }
        let long = "\"" + String(repeating: "x", count: 400) + "\""
        try put("a/1", long)
        try put("a/2", long)
        #expect(replay.value != nil)
        try put("a/3", long)
        #expect(replay.value == nil, "the sum")
        try put("a/1", "1")
        #expect(replay.value == nil, "what is below is not known any more")
        try put("a", "{\"k\":1}")
        #expect(replay.value == Node("{\"k\":1}"))
        for number in 0..<100 { try put("a/\(number % 3)", "\"\(number)\"") }
        #expect(replay.value != nil, "many small writes are no large value")
        try put("", "{\"a\":{\"1\":\(long),\"2\":\(long),\"3\":\(long)},\"b\":2}")
        #expect(replay.value == nil, "from above")
        try put("b", "3")
        #expect(replay.value == nil)
        try put("", "{\"b\":2}")
        #expect(replay.value == .empty)
        try put("a", "{\"1\":\(long),\"2\":\(long),\"3\":\(long)}")
        #expect(replay.value == nil, "at the path")
        replay.startOver()
        #expect(replay.value == .empty)
    }

    /// Payloads cut short, and with any byte changed: read or refused, never a trap.
    @Test func damage() {
        var random = SeededGenerator(seed: 3)
        var scene = Scene()
        scene.put(1, "a", #"{"b":{"c":[1,2,{".value":3,".priority":"p"}]},"x":"y"}"#)
        scene.put(1, "", #"{"a":{"b":{"c":1}},"z":2.5,".priority":1}"#)
        scene.run(1, .merge(base: "a", [Write("a/b", "1"), Write("a/c/.priority", "2"), Write("a/d", "{}")]))
        var payloads = scene.records.map { ($0.kind, $0.payload) }
        let tree = Node(#"{"a":{"b":{"c":{"1":true,"2":"text"},".priority":"p"}},"z":2.5,".priority":1}"#)
        for limit in [1, 30, 1000] {
            payloads += TreeRecordTests.records(of: tree, byteLimit: limit).map { (.tree, $0) }
        }
        for (kind, payload) in payloads {
            func survives(_ payload: [UInt8]) {
                for path: Path in ["", "a", "a/b/c", "a/b/c/1", "q"] {
                    var replay = SubtreeReplay(at: path, byteLimit: 1000)
                    try? replay.replay(kind, payload.rawSpan)
                    _ = replay.value
                    _ = try? EngineRecord.touch(of: path, by: kind, payload.rawSpan)
                }
            }
            for count in payload.indices { survives(Array(payload[..<count])) }
            for index in payload.indices {
                var changed = payload
                changed[index] = .random(in: 0...255, using: &random)
                survives(changed)
            }
        }
    }
}

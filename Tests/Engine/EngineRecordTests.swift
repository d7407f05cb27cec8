import PandoBytes
import PandoEngine
import PandoRandom
import PandoRules
import PandoTree
import Testing

/// What is written down is read back, and nothing else is.
@Suite struct EngineRecords {
    /// A scene with every kind of record.
    static func scene() -> Scene {
        var scene = Scene()
        scene.put(
            1, "",
            #"{"a":{"b":1,"é🐵":"\u0000\"\\","10":true},"n":-9223372036854775808,"d":0.1,".priority":"p"}"#)
        scene.merge(1, "a", [("b", "null"), ("c/d", "1e300"), (".priority", "2.5")])
        scene.put(1, "n/.priority", "7")
        scene.run(
            1, .onDisconnect([Write("x", #"{"a":{".sv":"timestamp"},"b":{".sv":{"increment":-0.5}}}"#)]))
        scene.run(
            1,
            .onDisconnect([
                Write("x/c", #"{".value":{".sv":"timestamp"},".priority":{".sv":{"increment":3}}}"#)
            ]))
        scene.credential = Credential(isAdmin: true, authVariable: #"{"uid":"u"}"#)
        scene.run(2, .onDisconnect([Write("y/.priority", "null"), Write("z", deepNulls), Write("", "5")]))
        scene.credential = Credential(authVariable: "null")
        scene.run(3, .onDisconnect([Write("p/q", #"{"r":1,"s":2}"#)]))
        scene.run(3, .cancelOnDisconnect("p/q/r"))
        scene.run(4, .onDisconnect([Write("left", "1")]))
        scene.run(4, .endSession)
        scene.run(5, .onDisconnect([Write("left", "1")]))
        scene.run(5, .endSession)
        return scene
    }

    /// Deeper than its record is long.
    static let deepNulls =
        String(repeating: #"{"k":"#, count: 31) + "null" + String(repeating: "}", count: 31)

    @Test func roundTrip() throws {
        var scene = Self.scene()
        var other = Engine(access: .open)
        for record in scene.records { try other.replay(record.kind, record.payload.rawSpan) }
        #expect(other.root == scene.engine.root)
        #expect(other.queueRecords.map(\.payload) == scene.engine.queueRecords.map(\.payload))
        #expect(other.sessionsWithQueue.map(\.rawValue) == [1, 2, 3])
        #expect(other.checkInvariants() == (1, 3))
        // What they do is the same, too.
        for session in scene.engine.sessionsWithQueue {
            let end = Command(session: session, credential: .anonymous, time: 77, operation: .endSession)
            _ = scene.engine.execute(end)
            _ = other.execute(end)
        }
        #expect(other.root == scene.engine.root)
        #expect(other.sessionsWithQueue.isEmpty)
    }

    // MARK: Printed ahead

    private static func large(_ seed: Int) -> String {
        "{" + (0..<4000).map { #""k\#($0)":\#($0 + seed)"# }.joined(separator: ",") + "}"
    }

    private static let longString = "\"" + String(repeating: "é\\u0001", count: 1 << 14) + "\""

    /// What is printed ahead makes the same records, whatever is written, and is used.
    @Test(
        arguments: [
            (.put(Write("a", large(0))), 0),
            (
                .put(
                    Write("a/b", #"{".priority":1,"x":\#(large(0))}"#)), 0
            ),
            // A server value makes another node of it.
            (
                .put(
                    Write("a", #"{"t":{".sv":"timestamp"},"x":\#(large(0))}"#)), 1
            ),
            (.merge(base: "m", [Write("m/a", large(0)), Write("m/b", "1"), Write("m/c", large(1))]), 0),
            // What is there already is left out of a merge.
            (.merge(base: "m", [Write("m/there", large(7)), Write("m/b", "1"), Write("m/c", large(1))]), 0),
            (.onDisconnect([Write("q/a", large(0)), Write("q/b", "2")]), 0),
            (.put(Write("a", longString)), 0),
            (.put(Write("a", #"{".priority":1,".value":\#(longString)}"#)), 0),
            (
                .merge(
                    base: "m",
                    [Write("m/a", longString), Write("m/there", large(7)), Write("m/b", longString)]), 0
            ),
            (.endSession, 0),
        ] as [(PandoEngine.Operation, Int)])
    func nodesPrintedAheadGiveTheSameRecords(operation: PandoEngine.Operation, unusedCount: Int) {
        var scene = Scene(#"{"m":{"there":\#(Self.large(7))}}"#)
        scene.run(
            1, .onDisconnect([Write("z/b", Self.large(3)), Write("z/a", Self.large(2)), Write("z/c", "1")]))
        let nodes: [Node]
        switch operation {
        case .put(let write), .transaction(let write, _, _): nodes = [write.draft.node]
        case .merge(_, let writes), .onDisconnect(let writes, _): nodes = writes.map(\.draft.node)
        default: nodes = scene.engine.queuedNodes(of: SessionID(1))
        }
        var printed: PrintedNodes? = PrintedNodes(nodes)
        var delta = scene.engine.decide(
            Command(session: SessionID(1), credential: .anonymous, time: 1, operation: operation))
        let expected = delta.records(hadQueue: true).map(\.payload)
        let records = (0..<delta.recordCount(hadQueue: true)).map { index in
            var payload: [UInt8] = []
            _ = delta.append(record: index, by: .anonymous, to: &payload, using: &printed)
            for insertion in (printed?.takeInsertions() ?? []).reversed() {
                payload.insert(contentsOf: insertion.bytes, at: insertion.offset)
            }
            return payload
        }
        #expect(records == expected)
        #expect(printed?.unusedCount == unusedCount)
    }

    @Test func smallNodesAreNotPrintedAhead() {
        let nodes = [
            Node("1"), Node(#"{"a":1}"#), Node("\"" + String(repeating: "x", count: 1 << 10) + "\""),
        ]
        #expect(PrintedNodes(nodes).unusedCount == 0)
    }

    /// A put is written down as the one change of several is.
    @Test(arguments: ["", "a", "a/.priority", "a/007/-Nabcdefghijklmnopqr/a long key that is on the heap"])
    func putsAreWrites(path: String) {
        let scene = Scene(#"{"a":{"x":1}}"#)
        var putCount = 0
        for json in ["null", "1", #""text""#, #"{"a":{".value":"\"","b":null,".priority":2},"é":[1]}"#] {
            let put = Operation.put(Write(path, json))
            let delta = scene.engine.decide(
                Command(session: SessionID(1), credential: .anonymous, time: 1, operation: put))
            guard case .put(let change) = delta.kind else { continue }
            putCount += 1
            #expect(
                delta.records(hadQueue: false).map(\.payload) == [
                    EngineRecord.delta([change], by: .anonymous).payload
                ])
        }
        #expect(putCount >= 2)
    }

    @Test func kinds() {
        var scene = Scene()
        func kinds() -> [EngineRecord.Kind] {
            defer { scene.records = [] }
            return scene.records.map(\.kind)
        }
        scene.put(1, "a", "1")
        #expect(kinds() == [.authoredDelta])
        scene.listen(1, "a")
        scene.unlisten(1, "a")
        scene.run(1, .get("a", Query()))
        scene.run(1, .endSession)
        #expect(kinds() == [], "what leaves no trace")
        scene.run(1, .onDisconnect([Write("b", "1")]))
        scene.run(1, .cancelOnDisconnect("c"))
        scene.run(1, .endSession)
        #expect(
            kinds() == [
                .onDisconnectRegistered, .onDisconnectCancelled, .authoredDelta, .onDisconnectCancelled,
            ])
        scene.run(1, .onDisconnect([Write("b", "1")]))
        scene.run(1, .endSession)
        #expect(
            kinds() == [.onDisconnectRegistered, .onDisconnectCancelled],
            "the write changed nothing; the queue is gone")
    }

    /// Every record cut short, and with every byte changed: read, or refused, never a trap.
    @Test func damage() {
        var random = SeededGenerator(seed: 1)
        for record in Self.scene().records {
            func survives(_ payload: [UInt8]) {
                var engine = Engine(access: .open)
                do {
                    try engine.replay(record.kind, payload.rawSpan)
                    for session in engine.sessionsWithQueue {
                        _ = engine.execute(
                            Command(session: session, credential: .admin, time: 1, operation: .endSession))
                    }
                } catch {}
            }
            for length in 0..<record.payload.count {
                survives(Array(record.payload[..<length]))
                #expect(
                    throws: UnreadableRecord.self, "a record of \(length) of \(record.payload.count) bytes"
                ) {
                    let payload = Array(record.payload[..<length])
                    var engine = Engine(access: .open)
                    try engine.replay(record.kind, payload.rawSpan)
                }
            }
            for index in record.payload.indices {
                for byte: UInt8 in [0, 1, 0x2E, 0x2F, 0x7F, 0x80, 0xFF, .random(in: 0...255, using: &random)]
                {
                    var payload = record.payload
                    payload[index] = byte
                    survives(payload)
                }
            }
            #expect(throws: UnreadableRecord.self, "a byte too many") {
                let payload = record.payload + [0]
                var engine = Engine(access: .open)
                try engine.replay(record.kind, payload.rawSpan)
            }
        }
    }

    @Test(arguments: [
        (
            String(repeating: "a/", count: 100_000) + "a",
            "deeper than a path can be: the tree is walked by recursion"
        ),
        ("a/.priority/b", "a priority has nothing below it"),
        (".info/x", "reserved"),
        ("a/b.c", "no key"),
    ])
    func impossiblePaths(path: String, because: String) {
        var payload: [UInt8] = []
        payload.append(varint: 1)
        payload.append(counted: path)
        payload.append(littleEndian: UInt32(1))
        payload.append("1")
        #expect(throws: UnreadableRecord.self, "\(because)") {
            try EngineRecord.changes(reading: payload.rawSpan)
        }
    }

    /// Paths are written as they are spelled, whatever their keys are kept as, and whatever their lengths add
    /// up to.
    @Test func pathsRoundTrip() throws {
        let kinds: [Key] = [
            "a", "fifteen bytes!!", "sixteen bytes!!!", "-NaBcDeFgHiJkLmNoPqR", "0", "12", "-7", "2147483647",
            "007", "ümläut",
            Key(unchecked: Text("0" + String(repeating: "0", count: 40) + "5")),
            Key(unchecked: Text(String(repeating: "k", count: 768))),
        ]
        var paths = [Path(), Path([".priority"])]
        for first in kinds {
            for last in kinds {
                paths += [
                    Path([first]), Path([first, last]), Path([first, last, first, last]),
                    Path(["x", first, "y", last, ".priority"]),
                ]
            }
        }
        for byteCount in [126, 127, 128, 129, 16_382, 16_383, 16_384, 16_385] {
            // Keys of up to 700 bytes, with a slash between them.
            var keys: [Key] = []
            var left = byteCount
            while left > 0 {
                let count = left > 702 ? 700 : left
                keys.append(Key(unchecked: Text(String(repeating: "b", count: count))))
                left -= count + 1
            }
            paths.append(Path(keys))
        }
        for path in paths {
            var expected: [UInt8] = []
            let text = Array(path.wireText.utf8)
            expected.append(varint: UInt64(text.count))
            expected += text
            expected.append(varint: 1)
            expected.append(varint: 0)
            expected.append(littleEndian: UInt32(1))
            expected.append(UInt8(ascii: "1"))
            #expect(
                EngineRecord.delta([Change(path: path, node: .integer(1))]).payload == expected, "\(path)")
            // And below a base that is not the root.
            guard path.count > 1, let first = path.keys.first else { continue }
            let other = Change(path: Path([first, "~"]), node: .integer(1))
            let changes = [Change(path: path, node: .integer(1)), other]
            let payload = EngineRecord.delta(changes).payload
            #expect(
                try EngineRecord.changes(reading: payload.rawSpan).map(\.path) == changes.map(\.path),
                "\(path)")
        }
    }
}

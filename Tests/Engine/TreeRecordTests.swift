import PandoBytes
import PandoRandom
import PandoRules
import PandoTree
import Testing

@testable import PandoEngine

/// A tree in parts, and put together again.
@Suite struct TreeRecordTests {
    static func records(of node: Node, byteLimit: Int = treeRecordByteLimit) -> [[UInt8]] {
        var payloads: [[UInt8]] = []
        var records = TreeRecords(of: node, byteLimit: byteLimit)
        while let record = records.next() { payloads.append(record.payload) }
        return payloads
    }

    static func tree(of payloads: [[UInt8]]) throws -> Node {
        var engine = Engine(access: .open)
        for payload in payloads { try engine.replay(.tree, payload.rawSpan) }
        engine.root.children.checkInvariants()
        return engine.root
    }

    static func random(_ random: inout SeededGenerator, depth: Int = 0) -> Node {
        var node: Node
        switch Int.random(in: depth > 5 ? 0..<5 : depth == 0 ? 5..<6 : 0..<10, using: &random) {
        case 0: node = .boolean(random.chance(50))
        case 1: node = .integer(.random(in: .min ... .max, using: &random))
        case 2: node = .number(.random(in: -1e9...1e9, using: &random))
        case 3: node = .string(Text(String(repeating: "é", count: .random(in: 0...60, using: &random))))
        case 4: node = .integer(.random(in: -3...300, using: &random))
        default:
            var children: [Key: Node] = [:]
            for _ in 0..<Int.random(in: 1...(depth == 1 && random.chance(20) ? 100 : 4), using: &random) {
                let key = Key(
                    unchecked: Text(
                        "\(Int.random(in: 0..<500, using: &random))\(random.chance(50) ? "k🐵" : "")"))
                children[key] = Self.random(&random, depth: depth + 1)
            }
            let entries = children.sorted { $0.key < $1.key }.map {
                Children.Entry(key: $0.key, node: $0.value)
            }
            node = .children(Children(ascending: entries))
        }
        if random.chance(15) { node = node.with(priority: random.chance(50) ? .number(2.5) : .string("p")) }
        return node
    }

    /// Whatever the tree and however small the parts: the same tree comes back, and no part is larger than it
    /// must be.
    @Test(arguments: 0..<40 as Range<UInt64>)
    func roundTrip(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let node = Self.random(&random)
        for byteLimit in [1, 40, 200, 1000, treeRecordByteLimit] {
            let payloads = Self.records(of: node, byteLimit: byteLimit)
            #expect(try Self.tree(of: payloads) == node, "parts of \(byteLimit)")
            // A path (at most 7 keys of 9 bytes), a key and a leaf of 120 bytes may be more than the limit;
            // no more.
            #expect(payloads.allSatisfy { $0.count <= max(byteLimit, 220) })
        }
    }

    @Test(arguments: [
        ("null", 0, "nothing"), ("7", 1, "a leaf"),
        (#"{".value":7,".priority":"x"}"#, 1, "a leaf with a priority"),
        (#"{"a":1,"b":{"c":true}}"#, 1, "an object"),
        (#"{".priority":1,"a":1}"#, 2, "its priority comes last"),
    ])
    func small(json: String, count: Int, reason: String) throws {
        let node = try Node(json: Array(json.utf8).rawSpan)
        let payloads = Self.records(of: node)
        #expect(payloads.count == count, "\(reason)")
        #expect(try Self.tree(of: payloads) == node, "\(reason)")
    }

    /// More children than one part holds, and a string that is larger than any.
    @Test func large() throws {
        var entries = (0..<30_000).map {
            Children.Entry(key: Key(index: $0 * 2), node: .string(Text("some text for child number \($0)")))
        }
        entries[77].node = .string(Text(String(repeating: "x", count: 3 << 20)))
        let node = Node.children(Children(ascending: entries))
        let payloads = Self.records(of: node)
        #expect(payloads.count == 4)
        #expect(payloads.filter { $0.count > treeRecordByteLimit }.count == 1, "the long string is alone")
        #expect(try Self.tree(of: payloads) == node)
    }

    /// Every record cut short, and with every byte changed: read, or refused, never a trap; a tree that was
    /// read is one.
    @Test func damage() throws {
        var random = SeededGenerator(seed: 3)
        for payload in Self.records(of: Self.random(&random).with(priority: .number(1)), byteLimit: 300)
            .prefix(8)
        {
            for length in payload.indices { _ = try? Self.tree(of: [Array(payload[..<length])]) }
            for index in payload.indices {
                for byte: UInt8 in [0, 1, 5, 6, 0x2E, 0x7F, 0x80, 0xFF, .random(in: 0...255, using: &random)]
                {
                    var damaged = payload
                    damaged[index] = byte
                    _ = try? Self.tree(of: [payload, damaged])
                    _ = try? Self.tree(of: [damaged])
                }
            }
        }
    }

    @Test(
        arguments: [
            ([0, 7], "an unknown part"),
            ([0, 0, 9], "an unknown node"),
            ([0, 0, 2, 0x80], "a number that ends early"),
            ([0, 0, 3, 0, 0, 0, 0, 0, 0, 0xF0, 0x7F], "infinity"),
            ([0, 0, 5, 0], "an object without children"),
            ([0, 0, 5, 0xFF, 0xFF, 0x03, 1, 0x61, 1], "more children than bytes"),
            ([0, 1, 1, 0x62, 1, 1, 0x61, 1], "out of order"),
            ([0, 1, 1, 0x61, 1, 1, 0x61, 1], "twice the same"),
            ([0, 1, 1, 0x2F, 1], "no key"),
            ([0, 1, 0, 1], "an empty key"),
            ([0, 2, 0], "a boolean priority"),
            ([0, 0, 6, 6, 2, 1, 2, 1, 2, 1], "a priority with a priority"),
            ([0, 0, 6, 2, 2, 6, 2, 2, 1], "two priorities"),
            ([9, 0x2E, 0x70, 0x72, 0x69, 0x6F, 0x72, 0x69, 0x74, 0x79, 0, 1], "a priority's path"),
            ([0, 0, 1, 1], "a byte too many"),
        ] as [([UInt8], String)])
    func refuses(payload: [UInt8], reason: String) {
        #expect(throws: UnreadableRecord.self, "\(reason)") { try Self.tree(of: [payload]) }
    }

    /// Deeper than paths go is refused before the stack is.
    @Test(arguments: [5, 6] as [UInt8])
    func nesting(tag: UInt8) {
        let level: [UInt8] = tag == 5 ? [5, 1, 1, 0x61] : [6]
        let payload: [UInt8] = [0, 0] + (0..<200_000).flatMap { _ in level } + [1]
        #expect(throws: UnreadableRecord.self) { try Self.tree(of: [payload]) }
    }

    /// Parts that do not fit what is there.
    @Test func partsOutOfOrderAreRefused() throws {
        let first: [UInt8] = [0, 1, 1, 0x62, 1]
        #expect(throws: UnreadableRecord.self, "before what is there") {
            try Self.tree(of: [first, [0, 1, 1, 0x61, 1]])
        }
        #expect(throws: UnreadableRecord.self, "below a leaf") {
            try Self.tree(of: [first, [1, 0x62, 1, 1, 0x61, 1]])
        }
        #expect(try Self.tree(of: [first, [0, 1, 1, 0x63, 0]]).description == #"{"b":true,"c":false}"#)
    }

    /// What a checkpoint says of queues is a snapshot: it stays when they go.
    @Test func queues() throws {
        var scene = EngineRecords.scene()
        let snapshot = scene.engine.queueSnapshot
        let before = snapshot.records.map(\.payload)
        for session in scene.engine.sessionsWithQueue { scene.run(session.rawValue, .endSession) }
        #expect(scene.engine.queueSnapshot.records.isEmpty)
        #expect(snapshot.records.map(\.payload) == before && !before.isEmpty)
        var other = Engine(access: .open)
        for record in snapshot.records { try other.replay(record.kind, record.payload.rawSpan) }
        #expect(other.queueRecords.map(\.payload) == before)
    }
}

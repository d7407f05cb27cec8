import PandoBytes
import PandoRandom
import Testing

@testable import PandoTree

/// Reads a text in windows that grow by this many bytes.
private func stream(_ text: [UInt8], by step: Int, at depth: Int = 0) throws -> Node {
    var node = NodeStreamParser(at: depth)
    var window: [UInt8] = []
    var offset = 0
    while true {
        let end = min(offset + step, text.count)
        window += text[offset..<end]
        offset = end
        let isLast = offset == text.count
        window.removeFirst(try node.read(window.rawSpan, isLast: isLast))
        if isLast {
            #expect(window.isEmpty)
            return node.finish()
        }
    }
}

private func problem(_ text: String, by step: Int, at depth: Int = 0) -> NodeStreamParser.Problem? {
    do {
        _ = try stream(Array(text.utf8), by: step, at: depth)
        return nil
    } catch {
        return error as? NodeStreamParser.Problem
    }
}

@Suite struct NodeStreamParserTests {
    static let texts = [
        "1", " -12.5e3 ", "\"é🐵\\u00e9\\ud83d\\ude00\\n\"", "true", "null", "{}", "[]", "{\"a\":{}}",
        "[1,null,[2],{}]",
        "{\"b\":1,\"a\":2,\"b\":3}", "{\"b\":1,\"b\":null}", "{\"b\":null,\"b\":1,\"1\":\"x\"}",
        "{\"a\":{\".value\":5,\".priority\":\"p\"},\"c\":{\".priority\":2.5,\"d\":[true,false]}}",
        "{\".priority\":1,\"x\":1}",
        "{\"a\":{\".value\":null,\"x\":1},\"e\":{\".priority\":null,\"y\":-0}}",
        "  {  \"long key that is no small string\" : [ \"long text that is no small string either\" , 1e2 ] }  ",
    ]

    /// In pieces of any size, a text gives the same node as in one piece.
    @Test(arguments: texts) func everyCut(text: String) throws {
        let whole = try node(text)
        for step in 1...(text.utf8.count + 1) {
            #expect(try stream(Array(text.utf8), by: step) == whole, "pieces of \(step)")
        }
    }

    /// Large objects, which become pages while they are read: in key order, in reverse order, in any order,
    /// with equal names and nulls.
    @Test(arguments: 0..<14) func largeObjects(seed: Int) throws {
        var random = SeededGenerator(seed: seed)
        let count = [10, 1023, 1024, 1025, 3000, 9000, 30_000][seed % 7]
        var members: [String] = []
        for index in 0..<count {
            let number = seed < 7 ? index : Int.random(in: 0..<count, using: &random)
            let value =
                random.one(in: 10) && seed >= 3 ? "null" : "\(Int.random(in: 0..<1000, using: &random))"
            members.append("\"\(seed % 2 == 0 ? "k" : "")\(number)\":\(value)")
        }
        if seed % 5 == 4 { members.reverse() }
        let text = "{\"rows\":{\(members.joined(separator: ","))}}"
        let streamed = try stream(Array(text.utf8), by: 4096)
        streamed[Key("rows")].children.checkInvariants()
        #expect(streamed == (try node(text)))
    }

    /// Keys of every kind, many with a common prefix, in any order: the last of two counts, and
    /// nothing is left of a child that becomes null in a later page.
    @Test(arguments: 0..<4) func membersInAnyOrder(seed: Int) throws {
        var random = SeededGenerator(seed: seed)
        let kinds: [(Int) -> String] = [
            { "\($0)" }, { "k\($0)" }, { "-OG7VEztwkPBy2l\(10_000 + $0)" },
            { "-OG7VEzt\(100_000_000_000 + $0)" },
            { "a long key that has no room in itself \($0)" }, { "é\($0)" }, { "\u{1F435}\($0)" },
            { "\u{FF5E}\($0)" },
        ]
        var members: [String] = []
        var wanted: [String: Int] = [:]
        for _ in 0..<6000 {
            let key = random.pick(kinds)(Int.random(in: 0..<400, using: &random))
            let value = random.one(in: 8) ? nil : Int.random(in: 0..<1000, using: &random)
            wanted[key] = value
            members.append("\"\(key)\":\(value.map(String.init) ?? "null")")
        }
        let streamed = try stream(Array("{\(members.joined(separator: ","))}".utf8), by: 1 << 16)
        streamed.children.checkInvariants()
        let found = Dictionary(
            uniqueKeysWithValues: streamed.children.entries.map { ($0.key.string, $0.node) })
        #expect(found == wanted.mapValues { .integer(Int64($0)) })
        // Visited by page, from any key, they are the same.
        let all = streamed.children.entries
        for start in [nil, all[0].key, all[77].key, all[all.count - 1].key, Key("k2005")] {
            var keys: [Key] = []
            streamed.children.forEachPage(from: start) { page in
                for index in page.indices { keys.append(page[index].key) }
                return true
            }
            #expect(keys == all.suffix(keys.count).map(\.key))
            if let start {
                let before = all.count - keys.count
                #expect(before == 0 || all[before - 1].key < start)
                #expect(keys[min(Children.pageCapacity, keys.count) - 1] >= start)
            } else {
                #expect(keys.count == all.count)
            }
        }
    }

    /// An error has its offset in the text and its path, wherever the pieces end.
    @Test(arguments: [
        ("{\"a\":{\"b\":tru}}", NodeStreamParser.Problem.Reason.malformed, 13, "/a/b"),
        ("{\"a\":1,}", .malformed, 7, "/"),
        ("{\"a\":[1,2", .malformed, 9, "/a"),
        ("", .malformed, 0, "/"),
        ("1 2", .malformed, 2, "/"),
        ("{\"a\":{\"b/c\":1}}", .invalid(.key("b/c")), 6, "/a"),
        ("{\"a\":{\".x\":1}}", .invalid(.key(".x")), 6, "/a"),
        ("{\"a\":{\".sv\":\"timestamp\"}}", .invalid(.serverValue), 6, "/a"),
        ("{\"a\":{\".priority\":true}}", .invalid(.priority), 6, "/a"),
        ("{\"a\":{\".value\":[1]}}", .invalid(.value), 6, "/a"),
        ("{\"a\":1e400}", .invalid(.numberOutOfRange), 5, "/a"),
        ("{\"a\":\"\\ud800\"}", .invalid(.loneSurrogate), 5, "/a"),
    ])
    func problems(text: String, reason: NodeStreamParser.Problem.Reason, byteOffset: Int, path: String) {
        for step in 1...(text.utf8.count + 1) {
            let found = problem(text, by: step)
            #expect(found?.reason == reason, "pieces of \(step)")
            #expect(
                found?.byteOffset == byteOffset && found?.path.description == path,
                "\(String(describing: found)), pieces of \(step)")
        }
    }

    @Test func limits() {
        let deep = String(repeating: "{\"a\":", count: 32) + "1" + String(repeating: "}", count: 32)
        #expect(problem(deep, by: 7) == nil)
        #expect(problem(deep, by: 7, at: 1)?.reason == .invalid(.tooDeep))
        #expect(problem(String(repeating: "[", count: 5000), by: 11)?.reason == .nestedTooDeeply)
        let long = "\"" + String(repeating: "x", count: Limits.stringByteCount + 1) + "\""
        #expect(problem(long, by: 4 << 20)?.reason == .invalid(.stringTooLong))
    }

    /// For any bytes the result in pieces is that in one piece, and that of the parser of messages.
    @Test(arguments: 0..<20) func mutations(seed: Int) {
        var random = SeededGenerator(seed: seed)
        for _ in 0..<60 {
            var bytes = Array(random.pick(Self.texts).utf8)
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                let index = Int.random(in: 0..<bytes.count, using: &random)
                if random.one(in: 3) {
                    bytes.remove(at: index)
                } else {
                    bytes[index] = random.pick(Array("{}[]\":,.\\0n \u{7f}".utf8) + [0xFF, 0x00])
                }
                if bytes.isEmpty { bytes = [0x20] }
            }
            let whole = try? stream(bytes, by: bytes.count)
            #expect(whole == (try? Node(json: bytes.rawSpan)), "\(String(decoding: bytes, as: UTF8.self))")
            for step in [1, 2, 3, 5] {
                #expect(
                    (try? stream(bytes, by: step)) == whole,
                    "\(String(decoding: bytes, as: UTF8.self)), \(step)")
            }
        }
    }
}

import PandoBytes
import PandoReactor
import PandoTree
import Testing

@testable import PandoDatabase

@Suite("slow operations") struct SlowOperationsTests {
    private func entry(
        _ pattern: String, _ nanoseconds: UInt64, by order: SlowOperations.Order? = nil, at time: Int64 = 0
    ) -> SlowOperations.Entry {
        SlowOperations.Entry(
            kind: .put, database: "default", pattern: pattern, order: order, nanoseconds: nanoseconds,
            milliseconds: time, requestCount: 1)
    }

    @Test(
        "keys of many things become *",
        arguments: [
            ("", "/"), ("rooms", "/rooms"), ("rooms/42/name", "/rooms/*/name"),
            ("rooms/-NabcdEFGHijkl012345/text", "/rooms/*/text"),
            ("users/abcdefghijklmnopqrstuv", "/users/*"),
            ("v1/users", "/v1/users"), ("a1b2/x", "/*/x"), ("sensor-000000001", "/*"),
        ])
    func patterns(_ path: String, _ pattern: String) {
        #expect(SlowOperations.pattern(of: Path(trusted: path)) == pattern)
    }

    @Test("a pattern is cut by its bytes, before a whole character")
    func longPatterns() {
        // 19 bytes with the slash: 13 of them have 247 bytes, and two characters of the next one fit.
        let path = Path(Array(repeating: Key(unchecked: Text("€€€€€€")), count: 20))
        let pattern = String(repeating: "/€€€€€€", count: 13) + "/€€…"
        #expect(SlowOperations.pattern(of: path).utf8.elementsEqual(pattern.utf8))
        // One character of 24 KB.
        let marks = Key(unchecked: Text("e" + String(repeating: "\u{301}", count: 383)))
        #expect(SlowOperations.pattern(of: Path(Array(repeating: marks, count: 2))) == "/*/*")
    }

    @Test("queries of one pattern are kept apart by their order, and by whether it has an index")
    func orders() {
        let operations = SlowOperations()
        let scan = SlowOperations.Order(name: "age", isIndexed: false)
        let index = SlowOperations.Order(name: "age", isIndexed: true)
        operations.note(entry("/users", 5))
        operations.note(entry("/users", 9, by: scan))
        operations.note(entry("/users", 7, by: index))
        operations.note(entry("/users", 8, by: scan))
        let kept = operations.slowestFirst(at: 0)
        #expect(kept.map(\.order) == [scan, index, nil])
        #expect(kept.map(\.count) == [2, 1, 1])
    }

    @Test("the time of all that were slow is added up")
    func totals() {
        let operations = SlowOperations()
        for nanoseconds in [5, 9, 7] as [UInt64] { operations.note(entry("/a", nanoseconds)) }
        #expect(operations.slowestFirst(at: 0).map(\.totalNanoseconds) == [21])
        #expect(operations.slowestFirst(at: 0).map(\.nanoseconds) == [9])
    }

    @Test(
        "the line that declares the index",
        arguments: [
            ("age", false, #"".indexOn": "age""#), ("$value", false, #"".indexOn": ".value""#),
            ("age", true, nil), (nil, false, nil),
        ])
    func declaration(_ name: String?, _ isIndexed: Bool, _ line: String?) {
        #expect(SlowOperations.Order(name: name, isIndexed: isIndexed).missingDeclaration == line)
    }

    @Test("a query that another thread answers is noted with the time that it took there")
    func queriesElsewhere() throws {
        let bench = try Bench(directory: nil, slowThreshold: 1000)
        bench.process([Bench.open(1)])
        let children = (0..<1000).map { #""k\#($0)":{"age":\#($0)}"# }.joined(separator: ",")
        bench.process([try Bench.put(1, 1, "/users/u1/friends", "{\(children)}")])
        bench.work()
        let operations = bench.host.processor.metrics.slowOperations
        bench.process([
            try Bench.request(
                1, #"{"t":"d","d":{"r":2,"a":"g","b":{"p":"/users/u1/friends","q":{"i":"age","l":3}}}}"#)
        ])
        var batches: [OutputBatch] = []
        bench.outputs.drain(into: &batches)
        let queries = batches.flatMap { batch in
            batch.items.compactMap { item -> IndexedQuery? in
                guard case .large(let session, let message) = item else { return nil }
                let results = Mailbox<EncodedMessage>(signalling: bench.wakeup)
                return SnapshotJob.encode(
                    EncodingJob(session: session, message: message, form: .frames, results: results)
                ).query
            }
        }
        let query = try #require(queries.first)
        query.noteWork?(999)
        #expect(!operations.slowestFirst(at: 0).contains { $0.isElsewhere })
        query.noteWork?(5000)
        query.noteWork?(2000)
        let found = try #require(operations.slowestFirst(at: 0).first { $0.isElsewhere })
        #expect(found.kind == .get && found.location == "/users/u1/friends" && found.count == 2)
        #expect(found.nanoseconds == 5000 && found.totalNanoseconds == 7000)
        #expect(found.order == SlowOperations.Order(name: "age", isIndexed: false))
    }

    @Test("what is long is kept by its pattern only")
    func longNames() {
        let long = String(repeating: "x", count: SlowOperations.nameByteLimit)
        #expect(SlowOperations.location(of: Path(trusted: "a/b")) == "/a/b")
        #expect(SlowOperations.location(of: .root) == "/")
        #expect(SlowOperations.location(of: Path(trusted: String(long.dropLast()))) == "/" + long.dropLast())
        #expect(SlowOperations.location(of: Path(trusted: long)) == nil)
        #expect(SlowOperations.Order(name: long, isIndexed: true).name == long)
        #expect(SlowOperations.Order(name: long + "x", isIndexed: true).name == nil)
    }

    @Test("the slowest of each pattern is kept, for an hour, of a bounded number of patterns")
    func bounds() {
        let operations = SlowOperations()
        operations.note(entry("/a", 5))
        operations.note(entry("/a", 9))
        operations.note(entry("/a", 7))
        #expect(operations.slowestFirst(at: 0).map(\.nanoseconds) == [9])
        #expect(operations.slowestFirst(at: 0).first?.count == 3)
        for number in 0..<(3 * SlowOperations.limit) {
            operations.note(entry("/\(number)", UInt64(100 + number), at: 1))
        }
        let kept = operations.slowestFirst(at: 2)
        #expect(kept.count == SlowOperations.limit)
        #expect(kept.first?.nanoseconds == UInt64(100 + 3 * SlowOperations.limit - 1))
        #expect(zip(kept, kept.dropFirst()).allSatisfy { $0.nanoseconds >= $1.nanoseconds })
        #expect(operations.slowestFirst(at: 3_600_001).count == SlowOperations.limit)
        #expect(operations.slowestFirst(at: 3_600_002).isEmpty)
        operations.note(entry("/new", 1, at: 3_700_000))
        #expect(operations.slowestFirst(at: 3_700_000).map(\.pattern) == ["/new"])
    }
}

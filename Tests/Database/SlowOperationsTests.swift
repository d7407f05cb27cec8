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

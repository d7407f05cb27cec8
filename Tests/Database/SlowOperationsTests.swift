import PandoTree
import Testing

@testable import PandoDatabase

@Suite("slow operations") struct SlowOperationsTests {
    private func entry(_ pattern: String, _ nanoseconds: UInt64, at time: Int64 = 0) -> SlowOperations.Entry {
        SlowOperations.Entry(
            kind: .put, database: "default", pattern: pattern, nanoseconds: nanoseconds, milliseconds: time,
            requestCount: 1)
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

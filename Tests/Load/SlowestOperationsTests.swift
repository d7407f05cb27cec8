import Testing

@testable import PandoLoad

@Suite struct SlowestOperationsTests {
    private static func slowest(of waits: [(milliseconds: Int, endedAfter: Int)]) -> [[Int]] {
        var slowest = SlowestOperations()
        for wait in waits {
            slowest.record(
                .init(
                    operation: .get, endedNanoseconds: wait.endedAfter * 1_000_000,
                    nanoseconds: wait.milliseconds * 1_000_000))
        }
        return slowest.waits.map { [$0.nanoseconds / 1_000_000, $0.endedNanoseconds / 1_000_000] }
    }

    @Test func theLongestComeFirst() {
        #expect(Self.slowest(of: [(3, 100), (9, 300), (5, 500)]) == [[9, 300], [5, 500], [3, 100]])
    }

    @Test func operationsThatWaitInOneStallAreOneWait() {
        #expect(Self.slowest(of: [(80, 1000), (75, 1005), (81, 1010), (70, 1099)]) == [[81, 1010]])
        #expect(Self.slowest(of: [(80, 1000), (75, 1100)]) == [[80, 1000], [75, 1100]])
        #expect(Self.slowest(of: [(50, 1000), (60, 1150), (80, 1070)]) == [[80, 1070]], "between both")
    }

    @Test func onlyTheFiveLongestAreKept() {
        let waits = (1...20).map { (milliseconds: $0, endedAfter: $0 * 200) }
        let expected = (0..<SlowestOperations.capacity).map { [20 - $0, (20 - $0) * 200] }
        #expect(Self.slowest(of: waits) == expected)
        #expect(Self.slowest(of: waits.reversed()) == expected)
    }
}

import PandoBytes
import Testing

@testable import PandoLoops

/// What the whole process holds for clients. What is shared is counted by ``SharedBytes``, in all tests of
/// the process, so these limits are far above it.
@Suite struct MemoryBudgetTests {
    private static let limit = 1 << 40

    @Test(
        arguments: [
            // part of the limit   pressure   because
            (0.0, .none, "nothing"),
            (0.45, .none, "below half"),
            (0.55, .moderate, "below three quarters: those who were paused wait for a while"),
            (0.70, .moderate, "below three quarters"),
            (0.80, .high, "above three quarters: those who hold most are paused"),
            (0.99, .high, "still within the limit"),
            (1.10, .exceeded, "above it: those who hold most are disconnected"),
        ] as [(Double, MemoryBudget.Pressure, String)])
    func pressure(share: Double, expected: MemoryBudget.Pressure, because: String) {
        let budget = MemoryBudget(byteLimit: Self.limit)
        budget.change(by: Int(Double(Self.limit) * share))
        #expect(budget.pressure == expected, "\(because)")
    }

    @Test func releasedBytesEndThePressure() {
        let budget = MemoryBudget(byteLimit: Self.limit)
        budget.change(by: Self.limit + 1000)
        #expect(budget.pressure == .exceeded)
        #expect(budget.excessByteCount >= Self.limit / 4)
        budget.change(by: -Self.limit)
        #expect(budget.pressure == .none && budget.excessByteCount == 0)
    }

    /// A loop that has only clients with progress spares them while another one has others.
    @Test func aLoopKnowsOfUnsteadyClientsOfOthers() {
        let budget = MemoryBudget(byteLimit: Self.limit, loopCount: 3)
        #expect(!budget.hasUnsteady(besides: 0))
        budget.noteUnsteady(1000, ofLoop: 1)
        #expect(budget.hasUnsteady(besides: 0) && budget.hasUnsteady(besides: 2))
        #expect(!budget.hasUnsteady(besides: 1), "its own are its own")
        budget.noteUnsteady(500, ofLoop: 2)
        #expect(budget.hasUnsteady(besides: 1))
        budget.noteUnsteady(0, ofLoop: 1)
        budget.noteUnsteady(0, ofLoop: 2)
        #expect(!budget.hasUnsteady(besides: 0))
        budget.change(by: Self.limit)
        budget.noteUnsteady(1000, ofLoop: 1)
        #expect(!budget.hasUnsteady(besides: 0), "next to nothing of what is too much")
        budget.noteUnsteady(Self.limit / 8, ofLoop: 1)
        #expect(budget.hasUnsteady(besides: 0))
    }

    @Test func sharedBytesAreCountedOnceAndWhileTheyAreThere() {
        let budget = MemoryBudget(byteLimit: Self.limit)
        let size = 100 << 20
        let before = budget.byteCount
        var shared: SharedBytes? = SharedBytes([UInt8](repeating: 0, count: size))
        var others = [shared, shared]
        // Other tests make and free some at the same time, but nothing of this size.
        #expect(budget.byteCount - before > size / 2 && budget.byteCount - before < 2 * size)
        others = []
        #expect(others.isEmpty && budget.byteCount - before > size / 2)
        shared = nil
        #expect(budget.byteCount - before < size / 2)
    }
}

import Glibc
import PandoReactor
import Synchronization
import Testing

@testable import PandoDatabase

@Suite struct CongestionTests {
    @Test func pausesOverTheLimitAndResumesBelowHalf() {
        let congestion = BackpressureGate(byteLimit: 100)
        #expect(congestion.add(100) == .goOn, "at the limit nobody waits")
        #expect(congestion.add(1) == .pause, "over it everybody does")
        #expect(!congestion.remove(50), "51 are left: still too many")
        #expect(congestion.remove(2), "49: the loops are told")
        #expect(!congestion.remove(49), "and told once")
    }

    /// Nothing takes so long but what never happens.
    private static let patience: Duration = .seconds(60)

    /// Whoever was told to pause is told to go on, however the threads meet: else a loop would never read
    /// again.
    @Test(arguments: 0..<5)
    func nobodyIsLeftWaiting(round: Int) throws {
        let congestion = BackpressureGate(byteLimit: 8)
        let resumed = Atomic<Int>(0)
        let paused = Atomic<Int>(0)
        let queued = Atomic<Int>(0)
        let lost = Atomic<Int>(0)
        let adders = try (0..<2).map { _ in
            try NamedThread.start("adder") {
                for _ in 0..<2000 {
                    let before = resumed.load(ordering: .sequentiallyConsistent)
                    let advice = congestion.add(5)
                    queued.add(1, ordering: .sequentiallyConsistent)
                    if advice == .resumeAll { resumed.add(1, ordering: .sequentiallyConsistent) }
                    guard advice == .pause else { continue }
                    paused.add(1, ordering: .relaxed)
                    // A loop that pauses reads again when it is told; the remover always gets that far,
                    // however long the machine keeps it from running.
                    let deadline = MonotonicTime.now + Self.patience
                    while resumed.load(ordering: .sequentiallyConsistent) == before {
                        if MonotonicTime.now > deadline {
                            lost.add(1, ordering: .relaxed)
                            break
                        }
                        sched_yield()
                    }
                }
            }
        }
        let remover = try NamedThread.start("remover") {
            var left = 4000
            while left > 0 {
                let taken = queued.exchange(0, ordering: .sequentiallyConsistent)
                left -= taken
                for _ in 0..<taken where congestion.remove(5) {
                    resumed.add(1, ordering: .sequentiallyConsistent)
                }
            }
        }
        for thread in adders { thread.join() }
        remover.join()
        #expect(lost.load(ordering: .relaxed) == 0, "paused for ever")
        #expect(congestion.remove(0) == false, "nothing is left to be told")
    }
}

import Glibc
import PandoReactor
import PandoTime
import Synchronization
import Testing

@testable import PandoDatabase

@Suite struct BackpressureTests {
    @Test func pausesOverTheLimitAndResumesBelowHalf() {
        let backpressure = Backpressure(byteLimit: 100)
        #expect(backpressure.add(100) == .proceed, "at the limit there is no need to pause")
        #expect(backpressure.add(1) == .pause, "over the limit")
        #expect(!backpressure.remove(50), "51 are left: still too many")
        #expect(backpressure.remove(2), "49: the loops are resumed")
        #expect(!backpressure.remove(49), "they are resumed once")
    }

    /// After this time the test fails.
    private static let patience: Duration = .seconds(60)

    /// Every thread that pauses is resumed, in whatever order the threads run: otherwise a loop would never
    /// read again.
    @Test(arguments: 0..<5)
    func everyPausedThreadIsResumed(round: Int) throws {
        let backpressure = Backpressure(byteLimit: 8)
        let resumed = Atomic<Int>(0)
        let paused = Atomic<Int>(0)
        let queued = Atomic<Int>(0)
        let lost = Atomic<Int>(0)
        let adders = try (0..<2).map { _ in
            try NamedThread.start("adder") {
                for _ in 0..<2000 {
                    let before = resumed.load(ordering: .sequentiallyConsistent)
                    let advice = backpressure.add(5)
                    queued.add(1, ordering: .sequentiallyConsistent)
                    if advice == .resumeAll { resumed.add(1, ordering: .sequentiallyConsistent) }
                    guard advice == .pause else { continue }
                    paused.add(1, ordering: .relaxed)
                    // A loop that pauses reads again when it is resumed, however long the machine keeps the
                    // remover from running.
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
                for _ in 0..<taken where backpressure.remove(5) {
                    resumed.add(1, ordering: .sequentiallyConsistent)
                }
            }
        }
        for thread in adders { thread.join() }
        remover.join()
        #expect(lost.load(ordering: .relaxed) == 0, "paused for ever")
        #expect(backpressure.remove(0) == false, "nothing is left to be resumed")
    }
}

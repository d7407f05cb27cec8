import PandoReactor
import Synchronization
import Testing

@testable import PandoServer

@Suite struct DeadlineTests {
    private final class Calls: Sendable {
        let count = Atomic<Int>(0)
    }

    @Test func workThatTakesTooLongIsCutShort() throws {
        let isCut = try WakeupEvent()
        let calls = Calls()
        withDeadline(
            .milliseconds(1),
            expired: {
                calls.count.add(1, ordering: .relaxed)
                isCut.signal()
            }
        ) { #expect(isCut.wait(timeout: .seconds(30)), "the deadline has not come") }
        #expect(calls.count.load(ordering: .relaxed) == 1)
    }

    @Test func workThatIsDoneInTimeIsNotCutShortAndNotWaitedFor() {
        let began = ContinuousClock.now
        withDeadline(.seconds(600), expired: { Issue.record("there was time left") }) {}
        #expect(ContinuousClock.now - began < .seconds(300))
    }
}

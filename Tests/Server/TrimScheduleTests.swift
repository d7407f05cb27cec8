import PandoTime
import Testing

@testable import PandoServer

@Suite struct TrimScheduleTests {
    private static let portion = TrimSchedule.portionByteCount

    private static func time(_ milliseconds: Int) -> MonotonicTime {
        MonotonicTime(nanoseconds: UInt64(milliseconds) * 1_000_000)
    }

    /// One look of the thread, and what follows from it; a step that follows takes 5 ms.
    private struct Look: Sendable {
        let milliseconds: Int
        let held: Int
        let step: TrimSchedule.Step
        /// By the trim; nil for a check without one.
        var released: Int? = portion
        let because: String
    }

    private static let disconnections: [Look] = [
        Look(milliseconds: 100, held: 10 * portion, step: .nothing, because: "nothing was freed yet"),
        Look(milliseconds: 150, held: 9 * portion + 1, step: .nothing, because: "a byte less than a portion"),
        Look(milliseconds: 200, held: 9 * portion, step: .trim, because: "a portion was freed"),
        Look(milliseconds: 250, held: 8 * portion, step: .nothing, because: "ten times 5 ms are not over"),
        Look(milliseconds: 255, held: 8 * portion, step: .trim, because: "they are over"),
        Look(milliseconds: 310, held: 12 * portion, step: .nothing, because: "clients hold more again"),
        Look(
            milliseconds: 365, held: 8 * portion, step: .trim,
            because: "less than the most since the last trim"),
        Look(
            milliseconds: 1369, held: 8 * portion, step: .nothing,
            because: "the last step was less than a second before"),
        Look(
            milliseconds: 1370, held: 8 * portion, step: .check, released: nil,
            because: "a second after the last step"),
        Look(
            milliseconds: 1500, held: 7 * portion, step: .trim, released: portion / 2 - 1,
            because: "a portion less than at the check"),
        Look(
            milliseconds: 1654, held: 6 * portion, step: .nothing,
            because: "the last one gave little back: thirty times 5 ms"),
        Look(milliseconds: 1655, held: 6 * portion, step: .trim, because: "they are over"),
    ]

    @Test func memoryOfDisconnectedClientsGoesBackInPortions() {
        var schedule = TrimSchedule(now: Self.time(0))
        for look in Self.disconnections {
            let step = schedule.next(heldByteCount: look.held, now: Self.time(look.milliseconds))
            #expect(step == look.step, "\(look.milliseconds) ms: \(look.because)")
            #expect(schedule.pause == TrimSchedule.lookInterval)
            guard step != .nothing else { continue }
            schedule.ended(
                now: Self.time(look.milliseconds + 5), after: .milliseconds(5),
                releasedByteCount: look.released)
        }
    }

    @Test func withoutMuchToFreeItLooksOnceASecond() {
        var schedule = TrimSchedule(now: Self.time(0))
        #expect(schedule.pause == TrimSchedule.interval)
        #expect(schedule.next(heldByteCount: Self.portion, now: Self.time(999)) == .nothing)
        #expect(schedule.pause == TrimSchedule.interval)
        #expect(schedule.next(heldByteCount: 0, now: Self.time(1000)) == .trim, "a portion was freed")
        schedule.ended(now: Self.time(1001), after: .milliseconds(1), releasedByteCount: Self.portion)
        #expect(schedule.next(heldByteCount: 0, now: Self.time(2000)) == .nothing)
        #expect(schedule.next(heldByteCount: 0, now: Self.time(2001)) == .check)
    }

    @Test func afterAPeakItLooksOnceASecondAgain() {
        var schedule = TrimSchedule(now: Self.time(0))
        #expect(schedule.next(heldByteCount: Self.portion + 1, now: Self.time(10)) == .nothing)
        #expect(schedule.pause == TrimSchedule.lookInterval)
        #expect(schedule.next(heldByteCount: 2, now: Self.time(60)) == .nothing, "a byte less than a portion")
        #expect(schedule.pause == TrimSchedule.interval)
    }

    @Test func portionDoesNotBringACheckNearer() {
        var schedule = TrimSchedule(now: Self.time(0))
        #expect(schedule.next(heldByteCount: 4 * Self.portion, now: Self.time(1000)) == .check)
        schedule.ended(now: Self.time(1300), after: .milliseconds(300), releasedByteCount: nil)
        #expect(schedule.next(heldByteCount: 0, now: Self.time(1400)) == .trim)
        schedule.ended(now: Self.time(1405), after: .milliseconds(5), releasedByteCount: Self.portion)
        #expect(schedule.next(heldByteCount: 0, now: Self.time(31_299)) == .nothing)
        #expect(schedule.next(heldByteCount: 0, now: Self.time(31_300)) == .check)
    }

    /// A portion that comes before most is freed does not put the rest off for long.
    @Test func checkBehindAPortionThatBroughtLittle() {
        var schedule = TrimSchedule(now: Self.time(0))
        #expect(schedule.next(heldByteCount: 4 * Self.portion, now: Self.time(100)) == .nothing)
        #expect(schedule.next(heldByteCount: 0, now: Self.time(200)) == .trim)
        schedule.ended(now: Self.time(240), after: .milliseconds(40), releasedByteCount: 1 << 20)
        #expect(schedule.next(heldByteCount: 0, now: Self.time(1439)) == .nothing)
        #expect(schedule.next(heldByteCount: 0, now: Self.time(1440)) == .check)
    }

    @Test func checksTakeAHundredthOfTheTime() {
        var schedule = TrimSchedule(now: Self.time(0))
        #expect(schedule.next(heldByteCount: 0, now: Self.time(1000)) == .check)
        schedule.ended(now: Self.time(1050), after: .milliseconds(50), releasedByteCount: nil)
        #expect(schedule.next(heldByteCount: 0, now: Self.time(6049)) == .nothing)
        #expect(schedule.next(heldByteCount: 0, now: Self.time(6050)) == .check)
    }
}

import PandoTime
import Testing

@testable import PandoReactor

/// A timer fires once for its last deadline. No test depends on how late a busy machine is.
@Suite struct PreciseTimerTests {
    @Test func firesOnceForEachDeadline() throws {
        let loop = try EventLoop()
        var calls: [MonotonicTime] = []
        var alarm: PreciseTimer?
        let first = MonotonicTime.now + .milliseconds(2)
        alarm = try PreciseTimer(on: loop) {
            calls.append(.now)
            if calls.count < 3 {
                // A deadline in the past fires, too.
                alarm?.set(at: MonotonicTime(nanoseconds: 0))
            } else {
                // Long enough for a fourth call, if there were one.
                loop.schedule(after: .milliseconds(20)) { loop.stop() }
            }
        }
        alarm?.set(at: first)
        loop.run()
        #expect(calls.count == 3)
        #expect(calls.first.map { $0 >= first } == true)
    }

    @Test func laterDeadlineReplacesTheEarlier() throws {
        let loop = try EventLoop()
        var calls: [MonotonicTime] = []
        let alarm = try PreciseTimer(on: loop) {
            calls.append(.now)
            loop.stop()
        }
        let late = MonotonicTime.now + .milliseconds(30)
        alarm.set(at: .now + .milliseconds(1))
        alarm.set(at: late)
        loop.run()
        #expect(calls.count == 1 && calls.allSatisfy { $0 >= late })
    }
}

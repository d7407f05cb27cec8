import Testing

@testable import PandoReactor

/// Alarms ring at their moment, once, and the last setting counts. No test depends on how late a busy machine
/// is.
@Suite struct AlarmTests {
    @Test func ringsOnceForEachSetting() throws {
        let loop = try EventLoop()
        var rung: [MonotonicTime] = []
        var alarm: PreciseTimer?
        let first = MonotonicTime.now + .milliseconds(2)
        alarm = try PreciseTimer(on: loop) {
            rung.append(.now)
            if rung.count < 3 {
                // The past rings too.
                alarm?.set(at: MonotonicTime(nanoseconds: 0))
            } else {
                // Long enough for a fourth ring to come, if it were to.
                loop.schedule(after: .milliseconds(20)) { loop.stop() }
            }
        }
        alarm?.set(at: first)
        loop.run()
        #expect(rung.count == 3)
        #expect(rung.first.map { $0 >= first } == true)
    }

    @Test func theLastSettingCounts() throws {
        let loop = try EventLoop()
        var rung: [MonotonicTime] = []
        let alarm = try PreciseTimer(on: loop) {
            rung.append(.now)
            loop.stop()
        }
        let late = MonotonicTime.now + .milliseconds(30)
        alarm.set(at: .now + .milliseconds(1))
        alarm.set(at: late)
        loop.run()
        #expect(rung.count == 1 && rung.allSatisfy { $0 >= late })
    }
}

import Testing

@testable import PandoServer

@Suite struct TreeCountScheduleTests {
    @Test func treesAreCountedOnlyAfterAWrite() {
        var schedule = TreeCountSchedule()
        #expect(schedule.isDue(commitCount: 0) == true, "what was recovered is counted, too")
        schedule.counted(commitCount: 0, in: .milliseconds(1))
        #expect(schedule.isDue(commitCount: 0) == false)
        #expect(schedule.isDue(commitCount: 1) == true)
        #expect(schedule.isDue(commitCount: 1) == true, "not counted yet")
        schedule.counted(commitCount: 1, in: .milliseconds(1))
        #expect(schedule.isDue(commitCount: 1) == false)
    }

    @Test(
        arguments: [
            // a count takes     and the next look is after
            (.zero, .seconds(10)), (.milliseconds(100), .seconds(10)),
            (.milliseconds(101), .milliseconds(10_100)),
            (.seconds(2), .seconds(200)),
        ] as [(Duration, Duration)])
    func countsTakeAHundredthOfTheTime(duration: Duration, pause: Duration) {
        var schedule = TreeCountSchedule()
        #expect(schedule.pause == .seconds(10))
        schedule.counted(commitCount: 1, in: duration)
        #expect(schedule.pause == pause)
        _ = schedule.isDue(commitCount: 1)
        #expect(schedule.pause == .seconds(10), "without a count the next look is as usual")
    }
}

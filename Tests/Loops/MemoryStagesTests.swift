import PandoConnections
import PandoTime
import Testing

@testable import PandoLoops

@Suite struct MemoryStagesTests {
    /// What happens at a moment, and what follows.
    struct Event {
        var seconds: Double
        var pressure: MemoryBudget.Pressure
        /// A session is disconnected before that: one with steady progress, or without; nil for none.
        var disconnectsSteady: Bool?
        var stage: MemoryStages.Stage
        var beginsPausing = false
        var endsRelief = false
        var resumes: PauseReasons = []
        var reach: MemoryRelief.Reach = .large

        init(
            _ seconds: Double, _ pressure: MemoryBudget.Pressure, _ stage: MemoryStages.Stage,
            disconnectsSteady: Bool? = nil, beginsPausing: Bool = false, endsRelief: Bool = false,
            resumes: PauseReasons = [], reach: MemoryRelief.Reach = .large
        ) {
            (self.seconds, self.pressure, self.stage) = (seconds, pressure, stage)
            self.disconnectsSteady = disconnectsSteady
            (self.beginsPausing, self.endsRelief) = (beginsPausing, endsRelief)
            (self.resumes, self.reach) = (resumes, reach)
        }
    }

    @Test(
        arguments: [
            (
                "below 3/4 nothing is done",
                [Event(0, .none, .calm), Event(1, .moderate, .calm), Event(9, .none, .calm)]
            ),
            (
                "above 3/4 those that hold most are paused, once; below half they are read at once",
                [
                    Event(1, .high, .pressed, beginsPausing: true), Event(1.1, .high, .pressed),
                    Event(1.2, .none, .calm, endsRelief: true, resumes: [.memory, .incompleteInput]),
                    Event(1.3, .none, .calm),
                ]
            ),
            (
                "between half and 3/4 they are read after half a second",
                [
                    Event(1, .high, .pressed, beginsPausing: true),
                    Event(1.4, .moderate, .pressed, endsRelief: true),
                    Event(1.5, .moderate, .pressed, endsRelief: true),
                    Event(
                        1.6, .moderate, .calm, endsRelief: true, resumes: [.memory, .incompleteInput]),
                ]
            ),
            (
                "more than 3/4 for two seconds: they are disconnected, but none with steady progress",
                [
                    Event(1, .high, .pressed, beginsPausing: true), Event(3, .high, .pressed),
                    Event(3.1, .high, .relieving), Event(60, .high, .relieving),
                    Event(60.1, .moderate, .calm, endsRelief: true, resumes: [.memory, .incompleteInput]),
                ]
            ),
            (
                "above the limit at once, and the longer the further",
                [
                    Event(1, .exceeded, .relieving), Event(1.2, .exceeded, .relieving),
                    Event(1.3, .exceeded, .relieving, reach: .small),
                    Event(2.9, .exceeded, .relieving, reach: .small),
                    Event(3.1, .exceeded, .relieving, reach: .steady),
                ]
            ),
            (
                "a disconnection makes those with steady progress wait, for ten seconds at most",
                [
                    Event(1, .exceeded, .relieving),
                    Event(3.1, .exceeded, .relieving, disconnectsSteady: false, reach: .small),
                    Event(5.0, .exceeded, .relieving, disconnectsSteady: false, reach: .small),
                    Event(6.9, .exceeded, .relieving, reach: .small),
                    Event(7.1, .exceeded, .relieving, reach: .steady),
                    Event(7.2, .exceeded, .relieving, disconnectsSteady: true, reach: .steady),
                    Event(10.9, .exceeded, .relieving, disconnectsSteady: false, reach: .small),
                    Event(11.1, .exceeded, .relieving, disconnectsSteady: false, reach: .steady),
                ]
            ),
            (
                "sessions with incomplete input are read again half a second after the limit was exceeded",
                [
                    Event(1, .exceeded, .relieving), Event(1.5, .exceeded, .relieving, reach: .small),
                    Event(1.6, .high, .relieving), Event(2.0, .high, .relieving),
                    Event(2.1, .high, .relieving, resumes: .incompleteInput), Event(5, .high, .relieving),
                    Event(5.1, .exceeded, .relieving), Event(5.5, .high, .relieving),
                    Event(5.8, .high, .relieving, resumes: .incompleteInput),
                ]
            ),
            (
                "a disconnection delays the end: what is freed may be taken again",
                [
                    Event(1, .exceeded, .relieving),
                    Event(1.4, .moderate, .relieving, disconnectsSteady: false, endsRelief: true),
                    Event(
                        1.6, .moderate, .relieving, disconnectsSteady: false, endsRelief: true,
                        resumes: .incompleteInput),
                    Event(2.05, .moderate, .relieving, endsRelief: true),
                    Event(
                        2.2, .moderate, .calm, endsRelief: true, resumes: [.memory, .incompleteInput]),
                ]
            ),
        ] as [(String, [Event])])
    func stages(because: String, events: [Event]) {
        var stages = MemoryStages()
        for event in events {
            let now = Self.time(event.seconds)
            if let isSteady = event.disconnectsSteady {
                stages.noteDisconnection(ofSteady: isSteady, at: now)
            }
            let step = stages.observe(event.pressure, at: now)
            let expected = MemoryStages.Step(
                beginsPausing: event.beginsPausing, endsRelief: event.endsRelief, resumes: event.resumes)
            #expect(step == expected, "\(because): \(event.seconds)")
            #expect(stages.stage == event.stage, "\(because): \(event.seconds)")
            #expect(
                stages.reach(at: now, whileOthersRelieve: false) == event.reach,
                "\(because): \(event.seconds)")
            #expect(stages.isExceeded == (event.pressure == .exceeded))
        }
    }

    /// While other loops have clients without progress, no others are disconnected here; but not for ever.
    @Test(
        arguments: [
            // seconds exceeded   without others   with others
            (0.1, .large, .large),
            (1, .small, .large),
            (5, .steady, .large),
            (10, .steady, .large),
            (10.1, .steady, .steady),
        ] as [(Double, MemoryRelief.Reach, MemoryRelief.Reach)])
    func loopsWaitForEachOther(seconds: Double, alone: MemoryRelief.Reach, withOthers: MemoryRelief.Reach) {
        var stages = MemoryStages()
        let began = MonotonicTime(nanoseconds: 1_000_000_000)
        _ = stages.observe(.exceeded, at: began)
        let now = began + .seconds(seconds)
        #expect(stages.reach(at: now, whileOthersRelieve: false) == alone)
        #expect(stages.reach(at: now, whileOthersRelieve: true) == withOthers)
    }

    /// Where a look finds no session to disconnect: below the limit those that are left may go on reading for
    /// two seconds more; above it the next look follows.
    @Test func noneToDisconnect() {
        var stages = MemoryStages()
        _ = stages.observe(.exceeded, at: Self.time(1))
        stages.noteNoneToDisconnect(at: Self.time(1.1))
        #expect(stages.stage == .relieving)
        _ = stages.observe(.high, at: Self.time(1.2))
        stages.noteNoneToDisconnect(at: Self.time(1.3))
        #expect(stages.stage == .pressed)
        #expect(!stages.observe(.high, at: Self.time(3.2)).beginsPausing && stages.stage == .pressed)
        _ = stages.observe(.high, at: Self.time(3.4))
        #expect(stages.stage == .relieving)
        _ = stages.observe(.none, at: Self.time(3.5))
        stages.noteNoneToDisconnect(at: Self.time(3.6))
        #expect(stages.stage == .calm, "it is over")
    }

    private static func time(_ seconds: Double) -> MonotonicTime {
        MonotonicTime(nanoseconds: UInt64(seconds * 1e9))
    }
}

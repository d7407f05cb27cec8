import PandoTime
import Testing

@testable import PandoStorage

/// Operations on disks that do not answer.
@Suite struct DiskActivityTests {
    private static func time(_ seconds: UInt64) -> MonotonicTime {
        MonotonicTime(nanoseconds: (seconds + 100) * 1_000_000_000)
    }

    @Test func stepLastsUntilTheNextOneOrTheEnd() {
        let activity = DiskActivity()
        #expect(activity.duration(at: Self.time(7)) == .zero)
        activity.begin(at: Self.time(0))
        #expect(activity.duration(at: Self.time(7)) == .seconds(7))
        activity.begin(at: Self.time(5))
        #expect(activity.duration(at: Self.time(7)) == .seconds(2))
        activity.end()
        #expect(activity.duration(at: Self.time(7)) == .zero)
    }

    @Test func onlyWorkOnTheDiskCounts() {
        let activity = DiskActivity()
        let late = MonotonicTime(nanoseconds: .max)
        let seen = activity.track {
            (activity.duration(at: late) > .zero, activity.suspend { activity.duration(at: late) == .zero })
        }
        #expect(seen.0 && seen.1 && activity.duration(at: late) == .zero)
    }

    /// A disk that does not answer for hours is reported a few times, and once more when it answers.
    @Test(
        arguments: [
            // durations that are seen, in seconds         reports; -1 for the end
            ([0, 5, 29, 0, 20], [], "short steps"),
            ([25, 30, 35, 59, 60, 65, 119, 120], [30, 60, 120], "each time that it has doubled"),
            ([30, 35, 2, 0, 29, 30], [30, -1, 30], "the next one is reported, too"),
            ([7200, 10_799, 10_800, 14_400], [7200, 10_800, 14_400], "once an hour"),
        ] as [([Int], [Int], String)])
    func longStepsAreReported(durations: [Int], expected: [Int], reason: String) {
        var reports = LongStepReports()
        let found = durations.compactMap { seconds -> Int? in
            switch reports.report(lasting: .seconds(seconds)) {
            case .lasts(let duration): Int(duration.components.seconds)
            case .ended: -1
            case nil: nil
            }
        }
        #expect(found == expected, "\(reason)")
    }
}

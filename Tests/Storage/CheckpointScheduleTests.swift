import PandoReactor
import PandoTime
import Testing

@testable import PandoStorage

/// When a checkpoint is due, as a table of what happens.
@Suite struct CheckpointScheduleTests {
    /// What happens, in seconds and bytes.
    enum Step: Sendable {
        case growth(Int)
        case seconds(Int)
        case snapshot
        case finished(Bool)
    }

    struct Row: Sendable, CustomTestStringConvertible {
        var name: String
        var interval = 0
        var steps: [Step]
        /// Whether a checkpoint is due behind the last step.
        var isDue: Bool
        /// Seconds after which the schedule wants to be asked again, if it is not due.
        var nextCheck: Int?

        var testDescription: String { name }
    }

    static let rows = [
        Row(name: "nothing was written", steps: [], isDue: false),
        Row(name: "one byte less than the limit", steps: [.growth(99)], isDue: false),
        Row(name: "the limit", steps: [.growth(60), .growth(40)], isDue: true),
        Row(name: "one under way", steps: [.growth(100), .snapshot, .growth(200)], isDue: false),
        Row(
            name: "written: the journal it covers counts no more",
            steps: [.growth(100), .snapshot, .growth(99), .finished(true)], isDue: false),
        Row(
            name: "written, and as much journal came meanwhile",
            steps: [.growth(100), .snapshot, .growth(100), .finished(true)], isDue: true),
        Row(
            name: "failed: not before 30 s later",
            steps: [.growth(100), .snapshot, .finished(false), .seconds(29)], isDue: false, nextCheck: 1),
        Row(
            name: "failed: 30 s later", steps: [.growth(100), .snapshot, .finished(false), .seconds(30)],
            isDue: true),
        Row(name: "by the clock, but nothing was written", interval: 60, steps: [.seconds(60)], isDue: false),
        Row(
            name: "one second too early", interval: 60, steps: [.growth(1), .seconds(59)], isDue: false,
            nextCheck: 1),
        Row(name: "by the clock", interval: 60, steps: [.growth(1), .seconds(60)], isDue: true),
        Row(
            name: "two under way: the second subtracts nothing",
            steps: [.growth(120), .snapshot, .snapshot, .finished(true), .finished(true), .growth(99)],
            isDue: false
        ),
    ]

    @Test(arguments: rows) func due(row: Row) {
        var now = MonotonicTime(nanoseconds: 1)
        var schedule = CheckpointSchedule(
            byteLimit: 100, interval: .seconds(row.interval), journalByteCount: 0)
        schedule.start(at: now)
        for step in row.steps {
            switch step {
            case .growth(let byteCount): schedule.journalGrew(by: byteCount)
            case .seconds(let count): now = now + .seconds(count)
            case .snapshot:
                schedule.snapshotTaken()
                schedule.began()
            case .finished(let isWritten): schedule.finished(isWritten: isWritten, at: now)
            }
        }
        let next = schedule.nextCheck
        #expect(schedule.beginIfDue(at: now) == row.isDue)
        if let seconds = row.nextCheck { #expect(next == now + .seconds(seconds)) }
    }

    /// What recovery has read counts; a quarter of the limit is worth a checkpoint before the server stops.
    @Test(arguments: [(24, false), (25, true)]) func longJournal(byteCount: Int, isLong: Bool) {
        var schedule = CheckpointSchedule(byteLimit: 100, interval: .zero, journalByteCount: byteCount)
        #expect(schedule.isLongJournal == isLong)
        schedule.began()
        #expect(!schedule.isLongJournal, "one is under way")
    }
}

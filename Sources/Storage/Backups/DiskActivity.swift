import PandoReactor
import PandoTime
import Synchronization

/// How long a thread has been waiting for the disk of the backups, or of the archive: a disk on the network
/// may not answer for ever, and then its thread says nothing any more.
///
/// The thread of the disk notes the steps of its work, such as the copying of a mebibyte. Any thread reads.
package final class DiskActivity: Sendable {
    /// A step that lasts longer is logged.
    package static let longStepTime: Duration = .seconds(30)

    /// When the step under way began, in nanoseconds of the monotonic clock; 0 for none.
    private let stepBegan = Atomic<UInt64>(0)

    package init() {}

    /// Begins a step, the first one or the next.
    package func begin(at now: MonotonicTime = .now) {
        stepBegan.store(max(now.nanoseconds, 1), ordering: .relaxed)
    }

    /// The thread does not wait for the disk any more.
    package func end() { stepBegan.store(0, ordering: .relaxed) }

    /// Runs work on the disk, of one step, or of several that begin with ``begin(at:)``.
    func track<Result>(_ work: () -> Result) -> Result {
        begin()
        defer { end() }
        return work()
    }

    /// Runs what does not wait for the disk, in the middle of such work.
    func suspend<Result>(while other: () -> Result) -> Result {
        end()
        defer { begin() }
        return other()
    }

    /// How long the step under way has lasted; zero for none.
    package func duration(at now: MonotonicTime = .now) -> Duration {
        let began = stepBegan.load(ordering: .relaxed)
        return began == 0 ? .zero : now - MonotonicTime(nanoseconds: began)
    }

    /// Whether the disk seems not to answer.
    package var isInLongStep: Bool { duration() >= Self.longStepTime }
}

/// Decides when the log says that a step on a disk takes long. A value: its caller reports the time.
///
/// It does so after ``DiskActivity/longStepTime``, and again each time that the step has lasted twice as
/// long, at least once an hour.
package struct LongStepReports {
    package enum Report: Equatable {
        case lasts(Duration)
        /// The step that was reported has ended.
        case ended
    }

    private static let longestInterval: Duration = .seconds(3600)
    /// The duration from which on there is another report.
    private var due = DiskActivity.longStepTime

    package init() {}

    /// - Parameter duration: Of the step under way; zero for none. Asked several times in
    ///   ``DiskActivity/longStepTime``.
    package mutating func report(lasting duration: Duration) -> Report? {
        if duration >= due {
            due = min(duration * 2, duration + Self.longestInterval)
            return .lasts(duration)
        }
        guard due > DiskActivity.longStepTime, duration < DiskActivity.longStepTime else { return nil }
        due = DiskActivity.longStepTime
        return .ended
    }
}

import Logging
import PandoJournal
import PandoReactor
import PandoTime

/// The archive thread: copies the journal into an archive, each second what has become durable since, and
/// removes what is kept no more. Its niceness is 10: busy threads get most of the processor time.
///
/// A failure never stops the server: it is counted and logged, and tried again. While it lasts, some of the
/// journal is kept although its checkpoints do not need it (`heldSegmentLimit`); what is removed before it
/// was copied is a gap in the archive.
package final class ArchiveThread: Sendable {
    /// Has no messages: it looks at the clock.
    private let thread: WorkerThread<Never>
    /// Finds why the server must not use the archive, if it must not.
    private let firstLook: FirstLook

    private static let niceness = 10
    /// The time between two looks: about as much is lost with the disk of the data directory.
    private static let interval: Duration = .seconds(1)
    private static let retryInterval: Duration = .seconds(5)
    /// The time between two checks that the directory is still the same.
    private static let checkInterval: Duration = .seconds(60)
    /// How long the last copy may take when the server stops.
    private static let lastCopyTime: Duration = .seconds(10)
    /// How long ``stop(until:)`` may take on a disk that answers: the last copy, and its last mebibyte.
    package static let stopTime: Duration = .seconds(12)

    /// Starts the thread, which does all that concerns the directory.
    /// - Parameters:
    ///   - source: The data directory; used by this thread alone.
    ///   - origin: Its journal at the start.
    ///   - mark: How far its journal is on disk.
    ///   - trim: What the backups make superfluous; nil where everything is kept.
    /// - Throws: ``SocketError`` where the process has no free descriptor or thread.
    package init(
        of source: SystemDisk, in directory: BackupDirectory, origin: JournalOrigin, mark: JournalMark,
        trim: ArchiveTrim.Latest? = nil, metrics: BackupMetrics, logger: Logger
    ) throws(SocketError) {
        let position = mark.position
        let firstLook = try FirstLook()
        self.firstLook = firstLook
        metrics.isArchiving.set(1)
        // Until it is known what is archived, everything is kept.
        mark.archiving = .zero
        thread = try WorkerThread("pando-archive", niceness: Self.niceness)
        try thread.start { queue in
            let activity = metrics.activity(of: .archive)
            let found = activity.track { () -> StorageError? in
                let refusal = directory.look(logger)
                firstLook.noteAnswer()
                if let refusal { return refusal }
                return position.flatMap { Self.refusal(of: directory, source, origin, $0) }
            }
            // Where the start has not waited for it, the copier finds and reports the same.
            if firstLook.complete(found), found != nil { return }
            var copier = ArchiveCopier<SystemDisk>(
                open: { () throws(BackupDirectory.Failure) in
                    let timeline = try Self.timeline(of: origin, on: source)
                    return JournalArchive(of: source, in: try directory.open(), timeline: timeline)
                }, isUnchanged: { directory.isUnchanged }, metrics: metrics, logger: logger)
            let trimmer = ArchiveTrimmer<SystemDisk>(metrics: metrics, logger: logger)
            var none: [Never] = []
            var retryTime: MonotonicTime?
            var trimTime = MonotonicTime.now
            var checkTime = MonotonicTime.now + Self.checkInterval
            activity.track {
                guard let disk = try? directory.open() else { return }
                metrics.archiveSpace.look(at: disk)
            }
            while queue.receive(into: &none, timeout: Self.interval) {
                activity.begin()
                defer { activity.end() }
                // Also while the journal cannot be archived: the disk may be full.
                if let trim, trimTime <= .now, let position = mark.position,
                    !copier.trim(trim, with: trimmer, at: position)
                {
                    trimTime = .now + Self.retryInterval
                    if copier.segment == nil { retryTime = trimTime }
                }
                if let retryTime, retryTime > .now { continue }
                if checkTime <= .now {
                    checkTime = .now + Self.checkInterval
                    copier.checkPlace()
                    if let disk = try? directory.open() { metrics.archiveSpace.look(at: disk) }
                }
                // Before the mark is read: what was on disk then is in front of the mark.
                let time = Environment.machine.wallMilliseconds
                guard let position = mark.position else { continue }
                let isCopied = copier.copy(upTo: position, at: time) {
                    activity.begin()
                    return queue.isStopping
                }
                if let segment = copier.segment { mark.archiving = segment.firstSequence }
                mark.archived = copier.archived
                retryTime = isCopied || queue.isStopping ? nil : .now + Self.retryInterval
            }
            // What became durable while the server stopped.
            let deadline = MonotonicTime.now + Self.lastCopyTime
            let time = Environment.machine.wallMilliseconds
            guard let position = mark.position else { return }
            activity.track {
                _ = copier.copy(upTo: position, at: time) {
                    activity.begin()
                    return deadline < .now
                }
            }
        }
    }

    /// Read anew for each attempt: a damaged history may be put back while the server runs.
    private static func timeline(
        of origin: JournalOrigin, on source: SystemDisk
    ) throws(BackupDirectory.Failure) -> TimelineHistory {
        do throws(JournalError) { return try origin.history(on: source) } catch {
            switch error {
            case .disk(let failure): throw .disk(failure)
            case .corrupt(let problem):
                throw .damaged(
                    "\(source.directory): \(problem). Without it the server does not know which archive its journal continues: put the file back, from the archive, which has a copy, or from a copy of the data directory"
                )
            default: throw .damaged("\(source.directory): \(error)")
            }
        }
    }

    deinit {
        thread.stop(until: .now + Self.stopTime)
    }

    /// Waits until it is known whether the archive may be used. Once. Where it is not, the thread goes on,
    /// and reports what it finds.
    /// - Parameters:
    ///   - deadline: How long for a disk that does not answer.
    ///   - lookTime: One that answers before `deadline` gets at least so much time after its answer.
    /// - Throws: ``StorageError/locked(_:)`` where the directory is no directory, or another process uses it,
    ///   and where the archive and the journal contradict each other: it is another data directory's, or it
    ///   is ahead of the journal. Then the thread ends.
    package func waitForFirstLook(
        until deadline: MonotonicTime, afterAnswer lookTime: Duration
    ) throws(StorageError) -> FirstLook.Outcome {
        try firstLook.wait(until: deadline, afterAnswer: lookTime)
    }

    /// Compares an archive that is there with the journal. Any other problem than a contradiction is the
    /// thread's.
    /// - Returns: ``StorageError/locked(_:)`` where they contradict each other.
    private static func refusal(
        of directory: BackupDirectory, _ source: SystemDisk, _ origin: JournalOrigin,
        _ position: JournalPosition
    ) -> StorageError? {
        guard let target = try? directory.open(), let timeline = try? origin.history(on: source) else {
            return nil
        }
        do throws(JournalError) {
            try JournalArchive(of: source, in: target, timeline: timeline).refuseIfForeign(at: position)
        } catch {
            guard error.archiveFailure == .conflict else { return nil }
            return .locked(
                "--archive-to: \(directory.path): not the archive of this data directory: \(error.ofArchive)")
        }
        return nil
    }

    /// Asks the thread to copy the rest and to end. The journal thread has ended before. Any thread.
    package func requestStop() { thread.requestStop() }

    /// Waits for the end of the thread, until `deadline` at most: then it is left to itself.
    /// - Returns: Whether it has ended.
    package func stop(until deadline: MonotonicTime) -> Bool { thread.stop(until: deadline) }
}

import Logging
import PandoJournal
import PandoReactor
import PandoTime

/// The backup thread: makes scheduled backups, from snapshots that it asks the databases for. Its priority is low: it runs
/// when the other threads wait.
package final class BackupThread: Sendable {
    private let thread: WorkerThread<CheckpointJob>
    private let cancelled: CancellationFlag

    /// Snapshots are walked recursively: JSON nests up to 1024 deep.
    private static let stackByteCount = 8 << 20
    private static let niceness = 10

    /// - Parameters:
    ///   - directory: Where the backups are put.
    ///   - archive: The archive whose segments the backups make superfluous; nil for none.
    ///   - beginning: A checkpoint that began the log, of an import or a restore; nil where there is none. An archive of
    ///     the log does not hold what it holds, so a backup behind it is made at once.
    ///   - drill: Restores a backup on trial, on this thread.
    ///   - cancelled: Set by ``stop()``: gives up the backup being written, and the drill.
    ///   - request: Asks the databases for a snapshot, which they give to the function that it gets, on any thread.
    /// - Throws: ``DiskFailure`` where the directory cannot be read; ``SocketError`` where the process has no free
    ///   descriptor or thread.
    package init(
        _ options: BackupOptions, in directory: BackupDirectory, archive: BackupDirectory?,
        beginning: CheckpointHeader?, drill: @escaping BackupWriter<SystemDisk>.Drill, metrics: BackupMetrics,
        logger: Logger, cancelled: CancellationFlag = CancellationFlag(),
        request: @escaping @Sendable (_ give: @escaping @Sendable (CheckpointJob) -> Void) -> Void
    ) throws {
        self.cancelled = cancelled
        let newest = try directory.backups().last
        metrics.interval.set(Int(options.interval.components.seconds))
        var age: Duration?
        if let newest {
            metrics.lastSuccessTime.set(Int(newest.milliseconds / 1000))
            if !(beginning.map { newest.isBefore($0) } ?? false) {
                age = .milliseconds(Environment.machine.wallMilliseconds - newest.milliseconds)
            }
        }
        thread = try WorkerThread(
            "pando-backup", stackByteCount: Self.stackByteCount, niceness: Self.niceness)
        let newestAge = age
        let mailbox = thread.mailbox
        try thread.start { queue in
            var openArchive: (() throws(DiskFailure) -> SystemDisk)?
            if let archive { openArchive = { () throws(DiskFailure) in try archive.open() } }
            var writer = BackupWriter<SystemDisk>(
                options, open: { () throws(DiskFailure) in try directory.open() }, openArchive: openArchive,
                drill: drill, metrics: metrics, logger: logger, cancelled: cancelled,
                pause: { queue.pause(for: $0) })
            var schedule = BackupSchedule(every: options.interval, newestIsOld: newestAge, at: .now)
            var isAsked = false
            var jobs: [CheckpointJob] = []
            while queue.receive(into: &jobs, timeout: schedule.due - .now), !cancelled.isSet {
                for job in jobs {
                    isAsked = false
                    writer.write(job)
                }
                jobs.removeAll(keepingCapacity: true)
                guard schedule.beginIfDue(at: .now) else { continue }
                if isAsked {
                    writer.noteFailure("the databases have given no snapshot since the last time")
                    continue
                }
                isAsked = true
                request { job in mailbox.post(job) }
            }
        }
    }

    /// Gives up the backup being written, and ends the thread.
    package func stop() {
        cancelled.isSet = true
        thread.stop()
    }
}

extension BackupName {
    /// Whether the backup lacks what this checkpoint brought.
    fileprivate func isBefore(_ beginning: CheckpointHeader) -> Bool {
        (timeline, sequence) < (beginning.timeline, beginning.sequence)
    }
}

import Logging
import PandoJournal
import PandoReactor
import PandoTime
import Synchronization

/// The backup thread: makes scheduled backups, from snapshots that it asks the databases for. Its niceness is
/// 10: busy threads get most of the processor time.
package final class BackupThread: Sendable {
    private let thread: WorkerThread<CheckpointJob>
    private let cancelled: CancellationFlag
    private let retention: NewRetention
    private let firstLook: FirstLook

    /// Where backups are, and what they belong to.
    package struct Places: Sendable {
        package var backups: BackupDirectory
        /// Where the journal ended at the start; nil for a server in memory.
        package var origin: JournalOrigin?
        /// The disk of the data directory, for this thread alone; nil for a server in memory.
        package var journal: SystemDisk?
        /// That of the data directory; nil for a server in memory.
        package var timeline: TimelineHistory?
        /// Gets what the backups make superfluous in the archive; nil without an archive.
        package var archiveTrim: ArchiveTrim.Latest?
        /// How far the journal is archived; nil without an archive.
        package var mark: JournalMark?
        /// A checkpoint that began the journal, of an import or a restore; nil where there is none. An
        /// archive of the journal does not hold what it holds, so a backup behind it is made at once.
        package var beginning: CheckpointHeader?

        package init(
            backups: BackupDirectory, origin: JournalOrigin?, journal: SystemDisk?,
            timeline: TimelineHistory?,
            archiveTrim: ArchiveTrim.Latest?, mark: JournalMark?, beginning: CheckpointHeader?
        ) {
            self.backups = backups
            self.origin = origin
            self.journal = journal
            self.timeline = timeline
            self.archiveTrim = archiveTrim
            self.mark = mark
            self.beginning = beginning
        }
    }

    /// Snapshots are walked recursively: JSON nests up to 1024 deep.
    private static let stackByteCount = 8 << 20
    private static let niceness = 10
    /// How long ``stop(until:)`` may take on a disk that answers: a record is written, a restore test killed.
    package static let stopTime: Duration = .seconds(5)

    /// Starts the thread, which does all that concerns the directory.
    /// - Parameters:
    ///   - test: Restores backups, on this thread.
    ///   - cancelled: Set by ``requestStop()``: gives up the backup being written, and the restore test.
    ///   - request: Asks the databases for a snapshot, which they give to the function that it gets, on any
    ///     thread.
    /// - Throws: ``SocketError`` where the process has no free descriptor or thread.
    package init(
        _ options: BackupOptions, in places: Places, test: RestoreTest, metrics: BackupMetrics,
        logger: Logger, cancelled: CancellationFlag = CancellationFlag(),
        request: @escaping @Sendable (_ give: @escaping @Sendable (CheckpointJob) -> Void) -> Void
    ) throws {
        self.cancelled = cancelled
        let retention = NewRetention()
        self.retention = retention
        metrics.interval.set(Int(options.interval.components.seconds))
        let firstLook = try FirstLook()
        self.firstLook = firstLook
        thread = try WorkerThread(
            "pando-backup", stackByteCount: Self.stackByteCount, niceness: Self.niceness)
        let mailbox = thread.mailbox
        try thread.start { queue in
            let backups = places.backups
            let activity = metrics.activity(of: .backups)
            // A test runs elsewhere, and may take minutes.
            let untrackedTest = RestoreTest(
                run: { job in activity.suspend { test.run(job) } }, clean: test.clean)
            var trimArchive: ((ArchiveTrim) -> Void)?
            if let latest = places.archiveTrim { trimArchive = { latest.set($0) } }
            var writer = BackupWriter<SystemDisk>(
                options, open: { () throws(BackupDirectory.Failure) in try backups.open() },
                trimArchive: trimArchive, test: untrackedTest, timeline: places.timeline, mark: places.mark,
                metrics: metrics, logger: logger, cancelled: cancelled,
                pause: {
                    queue.pause(for: $0)
                    activity.begin()
                })
            var comparison: BackupComparison?
            if let origin = places.origin, let journal = places.journal {
                comparison = BackupComparison(of: backups, with: origin, in: journal)
            }
            let refusal = activity.track { () -> StorageError? in
                let refusal = backups.look(logger)
                firstLook.noteAnswer()
                return refusal ?? comparison?.contradiction()
            }
            // Where the start has not waited for it, it is found and reported again before each backup.
            if let refusal, firstLook.complete(refusal) { return }
            let newest = activity.track {
                Self.findNewest(in: backups, of: places.timeline, metrics, logger)
            }
            var isAnnounced = false
            /// Once the directory was looked at, and nothing speaks against making backups there.
            func announce() {
                guard !isAnnounced else { return }
                isAnnounced = true
                logger.info(
                    "a backup is made every \(options.interval.components.seconds) s in \(backups.path)")
            }
            if refusal == nil, activity.track({ backups.failure }) == nil { announce() }
            firstLook.complete(nil)
            var schedule = BackupSchedule(
                every: options.interval, newestIsOld: newest?.age(behind: places.beginning), at: .now)
            activity.track {
                guard let disk = try? backups.open() else { return }
                test.clean(backups.path)
                metrics.backupSpace.look(at: disk)
            }
            var isAsked = false
            var jobs: [CheckpointJob] = []
            while queue.receive(into: &jobs, timeout: schedule.due - .now), !cancelled.isSet {
                for job in jobs {
                    isAsked = false
                    if let new = retention.take() { writer.retention = new }
                    activity.track {
                        writer.write(job)
                        guard let disk = try? backups.open() else { return }
                        metrics.backupSpace.look(at: disk)
                        Self.readTestRecord(on: disk, metrics)
                    }
                }
                jobs.removeAll(keepingCapacity: true)
                guard schedule.beginIfDue(at: .now) else { continue }
                if isAsked {
                    writer.noteFailure(
                        "the database thread has not delivered the snapshot for the previous backup")
                    continue
                }
                if let failure = activity.track({ backups.failure }) {
                    writer.noteFailure("\(failure)")
                    schedule.postpone(at: .now)
                    continue
                }
                if let refusal = activity.track({ comparison?.contradiction() }) {
                    writer.noteFailure("\(refusal)")
                    schedule.postpone(at: .now)
                    continue
                }
                announce()
                isAsked = true
                request { job in mailbox.post(job) }
            }
        }
    }

    deinit {
        requestStop()
        thread.stop(until: .now + Self.stopTime)
    }

    /// Waits until the thread knows which backups are there. Once. Where it does not, the thread goes on, and
    /// reports what it finds.
    /// - Parameters:
    ///   - deadline: How long for a disk that does not answer.
    ///   - lookTime: One that answers before `deadline` gets at least so much time after its answer.
    /// - Throws: ``StorageError/locked(_:)`` where the directory is no directory, or another process uses it,
    ///   and where the backups are ahead of the journal. Then the thread ends.
    package func waitForFirstLook(
        until deadline: MonotonicTime, afterAnswer lookTime: Duration
    ) throws(StorageError) -> FirstLook.Outcome {
        try firstLook.wait(until: deadline, afterAnswer: lookTime)
    }

    /// From the next backup on, other backups are kept. Any thread.
    package func keep(_ retention: BackupRetention) { self.retention.set(retention) }

    /// Gives up the backup being written, and asks the thread to end. Any thread.
    package func requestStop() {
        cancelled.isSet = true
        thread.requestStop()
    }

    /// Waits for the end of the thread, until `deadline` at most: then it is left to itself.
    /// - Returns: Whether it has ended.
    package func stop(until deadline: MonotonicTime) -> Bool {
        requestStop()
        return thread.stop(until: deadline)
    }

    /// The newest backup of the data directory; nil where there is none, or the directory is not there, and
    /// for a server in memory, which has made none yet.
    /// Removes what a process has left unfinished, and says where other data directories have backups there.
    private static func findNewest(
        in directory: BackupDirectory, of timeline: TimelineHistory?, _ metrics: BackupMetrics,
        _ logger: Logger
    ) -> BackupName? {
        guard let disk = try? directory.open(), let names = try? disk.list() else { return nil }
        for name in names where name.hasSuffix(CheckpointName.unfinishedEnd) {
            let finished = String(name.dropLast(CheckpointName.unfinishedEnd.utf8.count))
            if BackupName(finished) != nil { try? disk.remove(name) }
        }
        let backups = names.compactMap { BackupName($0) }
        guard let timeline else {
            if !backups.isEmpty {
                logger.notice(
                    "\(backups.count) backups in \(directory.path) are not of this server, which has everything in memory: they are never removed"
                )
            }
            readTestRecord(on: disk, metrics)
            return nil
        }
        let owners = BackupOwners(of: backups, on: disk, timeline: timeline)
        metrics.unreadableBackups.set(owners.unreadable.count)
        if let other = owners.foreign.last {
            let text =
                "\(owners.foreign.count) backups in \(directory.path) belong to other data directories (this one is \(timeline.directory)), and are never removed; the newest, \(other.name.text), is of \(other.directory)"
            if owners.own.isEmpty {
                logger.error(
                    "\(text). \(directory.path) has no backup of this data directory: check that --data is the right directory and that its disk is mounted"
                )
            } else {
                logger.warning("\(text)")
            }
        }
        // One that is named after a time to come does not say how old it is.
        let now = Environment.machine.wallMilliseconds
        let newest = owners.own.last(where: { !$0.name.isAhead(of: now) })?.name
        if let newest { metrics.lastSuccessTime.set(Int(newest.milliseconds / 1000)) }
        readTestRecord(on: disk, metrics)
        return newest
    }

    /// A test may also be made by hand, while the server runs.
    private static func readTestRecord(on disk: SystemDisk, _ metrics: BackupMetrics) {
        guard let record = try? RestoreTestRecord.read(on: disk) else { return }
        if record.time > metrics.lastTestTime.value { metrics.lastTestTime.set(Int(record.time)) }
    }
}

/// What the thread is to take over.
private final class NewRetention: Sendable {
    private let retention = Mutex<BackupRetention?>(nil)

    func set(_ new: BackupRetention) { retention.withLock { $0 = new } }
    func take() -> BackupRetention? { retention.withLock { $0.take() } }
}

extension BackupName {
    /// How old the backup is.
    /// - Returns: Nil where it lacks what the checkpoint brought: it must be followed by another one at once.
    fileprivate func age(behind beginning: CheckpointHeader?) -> Duration? {
        if let beginning, (timeline, sequence) < (beginning.timeline, beginning.sequence) { return nil }
        return .milliseconds(Environment.machine.wallMilliseconds - milliseconds)
    }
}

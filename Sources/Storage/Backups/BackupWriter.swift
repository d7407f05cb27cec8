import Logging
import PandoJournal
import PandoTime

/// Writes scheduled backups, has them restored to test them, and removes those that are kept no more; it has
/// no thread of its own.
///
/// No failure of the disk is final here: it is counted and logged, and the next backup is another attempt.
package struct BackupWriter<Storage: Disk> {
    /// Opens a directory, which may be on a disk that comes and goes.
    package typealias Opener = () throws(BackupDirectory.Failure) -> Storage

    private var options: BackupOptions
    private let open: Opener
    /// Gets what has become superfluous in the archive of the same data directory; nil where there is none.
    private let trimArchive: ((ArchiveTrim) -> Void)?
    private let test: RestoreTest
    /// That of the data directory; nil for a server in memory, whose snapshots say of which directory they
    /// are.
    private let timeline: TimelineHistory?
    /// How far the journal is archived.
    private let mark: JournalMark?
    private let metrics: BackupMetrics
    private let logger: Logger
    private let cancelled: CancellationFlag
    private let pause: (Duration) -> Void
    private let archiveTimeout: Duration
    private var backupsUntilTest: Int
    /// How many backups could not be read, and were named after a time to come, when that was last logged.
    private var notedUnreadableCount = 0
    private var notedAheadCount = 0

    /// How long a restore test waits until the archive has what the backup has: it is a second behind.
    private static var archiveTimeout: Duration { .seconds(60) }
    private static var archiveCheckInterval: Duration { .milliseconds(250) }

    /// - Parameters:
    ///   - open: Opens the directory of the backups, for each backup anew.
    ///   - trimArchive: Gets what has become superfluous in the archive; nil where there is none.
    ///   - timeline: That of the data directory; nil for a server in memory.
    ///   - mark: How far the journal is archived; nil without an archive.
    ///   - cancelled: Gives up the backup being written, at its next record.
    ///   - pause: Leaves the disk to others for a time.
    package init(
        _ options: BackupOptions, open: @escaping Opener, trimArchive: ((ArchiveTrim) -> Void)? = nil,
        test: RestoreTest, timeline: TimelineHistory? = nil, mark: JournalMark? = nil,
        metrics: BackupMetrics, logger: Logger, cancelled: CancellationFlag,
        archiveTimeout: Duration = Self.archiveTimeout, pause: @escaping (Duration) -> Void = { _ in }
    ) {
        self.options = options
        self.open = open
        self.trimArchive = trimArchive
        self.test = test
        self.timeline = timeline
        self.mark = mark
        self.metrics = metrics
        self.logger = logger
        self.cancelled = cancelled
        self.archiveTimeout = archiveTimeout
        self.pause = pause
        backupsUntilTest = options.testInterval
    }

    /// Which backups are kept.
    package var retention: BackupRetention {
        get { options.retention }
        set { options.retention = newValue }
    }

    /// Writes one backup, and does what is due behind it. O(bytes of the snapshot).
    /// - Returns: Whether there is a new backup.
    @discardableResult
    package mutating func write(_ job: CheckpointJob) -> Bool {
        let began = MonotonicTime.now
        // A snapshot's time is that of the journal, which may be ahead of the machine's clock
        // (``WallClock``). Backups of one moment would replace each other.
        let name = BackupName(
            milliseconds: min(job.header.timestamp, Environment.machine.wallMilliseconds),
            timeline: job.header.timeline, sequence: job.header.sequence)
        var digest = SnapshotDigest()
        let disk: Storage
        do throws(BackupDirectory.Failure) { disk = try open() } catch {
            noteFailure("\(error)")
            return false
        }
        // The start has looked, if the directory was there.
        let names = ((try? disk.list()) ?? []).compactMap { BackupName($0) }
        let ahead = BackupsAhead(
            of: job.header.directory, job.header.timeline, endingAt: job.header.sequence, among: names,
            on: disk)
        if let ahead {
            noteFailure("\(ahead)")
            return false
        }
        let written: (byteCount: Int, recordCount: Int)
        do throws(SnapshotWriter<Storage>.Interruption) {
            let snapshots = SnapshotWriter(disk: disk, cancelled: cancelled, pause: pause)
            written = try snapshots.write(job, named: name.text) {
                digest.add($0, namespace: $1, payload: $2)
            }
        } catch {
            switch error {
            case .cancelled: logger.notice("backup: cancelled because the server stops")
            case .disk(let failure): noteFailure("\(failure)")
            }
            return false
        }
        metrics.backups.add(.written)
        metrics.lastSuccessTime.set(Int(name.milliseconds / 1000))
        metrics.lastByteCount.set(written.byteCount)
        metrics.times.observe((.now - began).nanosecondCount)
        logger.info(
            "backup \(name.text): \(written.byteCount) bytes, \(written.recordCount) records in \((.now - began).inMilliseconds) ms"
        )
        testIfDue(name, on: disk, digest.finish(), job.header)
        removeSuperfluous(on: disk, at: name, job.header)
        return true
    }

    /// Counts and logs a backup that could not be made.
    package func noteFailure(_ reason: String) {
        metrics.backups.add(.failed)
        logger.error("the backup failed; the server will try again: \(reason)")
    }

    // MARK: Restore tests

    private mutating func testIfDue(
        _ name: BackupName, on disk: Storage, _ digest: String, _ header: CheckpointHeader
    ) {
        guard options.testInterval > 0 else { return }
        backupsUntilTest -= 1
        guard backupsUntilTest <= 0 else { return }
        test.clean(disk.directory)
        let job = RestoreTest.Job(directory: disk.directory, file: name.text, digest: digest)
        guard passes(job, .backup) else { return }
        let time = Environment.machine.wallMilliseconds / 1000
        do throws(DiskFailure) {
            try RestoreTestRecord(backup: name, time: time).write(on: disk)
        } catch {
            logger.warning("cannot record that \(name.text) has passed a restore test: \(error)")
        }
        if let archive = options.archiveDirectory, let mark {
            guard passesWithArchive(job, name, archive, mark, on: disk, header) else { return }
        }
        // After a failure the next backup is tested, too.
        backupsUntilTest = options.testInterval
        metrics.lastTestTime.set(Int(time))
    }

    /// Restores the backup before this one with the archive behind it, up to this one: it must be the same
    /// state.
    private func passesWithArchive(
        _ job: RestoreTest.Job, _ name: BackupName, _ archive: String, _ mark: JournalMark, on disk: Storage,
        _ header: CheckpointHeader
    ) -> Bool {
        guard waitForArchive(of: name.sequence, mark), let archived = mark.archived else {
            if cancelled.isSet { return false }
            metrics.add(.failed, of: .archive)
            logger.error(
                "the restore test of the archive failed: it does not have everything up to sequence \(name.sequence)"
            )
            return false
        }
        var job = job
        let now = Environment.machine.wallMilliseconds
        let earlier = (try? owners(on: disk, header))?.own.map(\.name).filter {
            $0.timeline == name.timeline && $0.isBefore(name, at: now)
                && $0.sequence >= archived.lowerBound
        }.max { $0.isBefore($1, at: now) }
        if let earlier { job.file = earlier.text }
        job.archive = RestoreTest.Archive(directory: archive, sequence: name.sequence)
        return passes(job, .archive)
    }

    private func waitForArchive(of sequence: SequenceNumber, _ mark: JournalMark) -> Bool {
        let deadline = MonotonicTime.now + archiveTimeout
        while mark.archived.map({ $0.upperBound < sequence }) ?? true {
            guard !cancelled.isSet, MonotonicTime.now < deadline else { return false }
            pause(Self.archiveCheckInterval)
        }
        return true
    }

    private func passes(_ job: RestoreTest.Job, _ source: BackupMetrics.RestoreTestSource) -> Bool {
        switch test.run(job) {
        case .passed(let report):
            metrics.add(.passed, of: source)
            logger.info("\(report)")
            return true
        case .failed(let report):
            metrics.add(.failed, of: source)
            let archive = job.archive.map { " with the archive up to sequence \($0.sequence)" } ?? ""
            logger.error("the restore test of \(job.file)\(archive) failed: \(report)")
            return false
        case .cancelled: return false
        }
    }

    // MARK: What is kept no more

    /// Whose the backups are. Those of another data directory are not counted and never removed: they may be
    /// all that is left of it. Nor are those that cannot be read.
    /// - Parameter header: Of a backup of this data directory.
    private func owners(
        on disk: Storage, _ header: CheckpointHeader
    ) throws(DiskFailure) -> BackupOwners {
        BackupOwners(
            of: try disk.list().compactMap { BackupName($0) }, on: disk,
            timeline: timeline ?? TimelineHistory(timeline: header.timeline, directory: header.directory))
    }

    private mutating func removeSuperfluous(
        on disk: Storage, at newest: BackupName, _ header: CheckpointHeader
    ) {
        do {
            let found = try owners(on: disk, header)
            note(found.unreadable)
            let names = found.own.map(\.name)
            let now = Environment.machine.wallMilliseconds
            note(ahead: names.filter { $0.isAhead(of: now) })
            let tested =
                options.testInterval > 0
                ? try RestoreTestRecord.read(on: disk)?.backup : nil
            let superfluous = options.retention.superfluous(among: names, tested: tested, at: now).filter {
                $0 != newest
            }
            let removed = remove(superfluous.map(\.text), on: disk)
            if !removed.isEmpty {
                try disk.syncDirectory()
                logger.info("backups removed: \(removed.joined(separator: ", "))")
            }
            // One of them may need the segments.
            guard !found.hasReadFailures else { return }
            let removable = Set(superfluous)
            noteSuperfluousInArchive(
                behind: found.own.filter { !removable.contains($0.name) }.map {
                    ArchiveTrim.Backup(name: $0.name, header: $0.header)
                }, tested, header, at: now)
        } catch {
            metrics.removalFailures.add()
            logger.warning("old backups cannot be removed now; the next backup tries again: \(error)")
        }
    }

    /// Counts the backups that cannot be read, and warns where their number has changed.
    private mutating func note(_ unreadable: [(name: BackupName, reason: String)]) {
        metrics.unreadableBackups.set(unreadable.count)
        if let newest = unreadable.last, unreadable.count != notedUnreadableCount {
            logger.warning(
                "\(unreadable.count) backups cannot be read, so they are neither counted nor removed, and no archived segment is removed where the disk has failed; the newest is \(newest.name.text): \(newest.reason)"
            )
        }
        notedUnreadableCount = unreadable.count
    }

    /// Warns of backups with a future time in their names, where their number has changed.
    private mutating func note(ahead names: [BackupName]) {
        if let newest = names.max(), names.count != notedAheadCount {
            logger.warning(
                "\(names.count) backups have a future time in their names, such as \(newest.text): the clock was ahead when they were made, or is behind now. They are kept by the same rule, apart from the others; check the clock before you remove any by hand"
            )
        }
        notedAheadCount = names.count
    }

    /// - Returns: Those that were removed.
    private func remove(_ names: [String], on disk: Storage) -> [String] {
        let (removed, failures) = disk.removeEach(of: names)
        for _ in failures { metrics.removalFailures.add() }
        if let failure = failures.first {
            logger.warning(
                "cannot remove \(failures.count) old backups: \(failure); the next backup tries again")
        }
        return removed
    }

    /// Says what has become superfluous in the archive.
    /// - Parameters:
    ///   - kept: The backups of this data directory that are kept.
    ///   - tested: The newest that has passed a restore test, whether it is still there or not.
    ///   - header: Of the newest backup, which is of this data directory.
    private func noteSuperfluousInArchive(
        behind kept: [ArchiveTrim.Backup], _ tested: BackupName?, _ header: CheckpointHeader, at now: Int64
    ) {
        guard options.archiveKeepTime > .zero, let trimArchive else { return }
        let isKept = kept.contains { $0.name == tested }
        trimArchive(
            ArchiveTrim(
                backups: kept, tested: isKept ? tested : nil, header: header, time: now, options: options))
    }
}

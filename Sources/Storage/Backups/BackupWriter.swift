import Logging
import PandoJournal
import PandoTime

/// Writes scheduled backups, has them restored on trial, and removes those that are kept no more; it has no thread of its
/// own.
///
/// No failure of the disk is final here: it is counted and logged, and the next backup is another attempt.
package struct BackupWriter<Storage: Disk> {
    /// What a restore on trial has found.
    package enum DrillOutcome: Equatable, Sendable {
        /// The backup was restored and holds what was backed up. A sentence for the log.
        case passed(String)
        case failed(String)
        /// The server stops.
        case cancelled
    }

    /// Restores a backup on trial.
    /// - Parameter digest: What the restored state must have (``SnapshotDigest``).
    package typealias Drill =
        @Sendable (_ directory: String, _ file: String, _ digest: String) -> DrillOutcome

    private let options: BackupOptions
    private let open: () throws(DiskFailure) -> Storage
    /// Opens the archive whose segments the backups make superfluous; nil where there is none, or all are kept.
    private let openArchive: (() throws(DiskFailure) -> Storage)?
    private let drill: Drill
    private let metrics: BackupMetrics
    private let logger: Logger
    private let cancelled: CancellationFlag
    private let pause: (Duration) -> Void
    private var backupsUntilDrill: Int

    /// - Parameters:
    ///   - open: Opens the directory of the backups, for each backup anew: it may be on a disk that comes and goes.
    ///   - openArchive: Opens the archive of the same data directory.
    ///   - cancelled: Gives up the backup being written, at its next record.
    ///   - pause: Leaves the disk to others for a time.
    package init(
        _ options: BackupOptions, open: @escaping () throws(DiskFailure) -> Storage,
        openArchive: (() throws(DiskFailure) -> Storage)? = nil, drill: @escaping Drill,
        metrics: BackupMetrics,
        logger: Logger, cancelled: CancellationFlag, pause: @escaping (Duration) -> Void = { _ in }
    ) {
        self.options = options
        self.open = open
        self.openArchive = options.archiveKeepTime > .zero ? openArchive : nil
        self.drill = drill
        self.metrics = metrics
        self.logger = logger
        self.cancelled = cancelled
        self.pause = pause
        backupsUntilDrill = options.drillInterval
    }

    /// Writes one backup, and does what is due behind it. O(bytes of the snapshot).
    /// - Returns: Whether there is a new backup.
    @discardableResult
    package mutating func write(_ job: CheckpointJob) -> Bool {
        let began = MonotonicTime.now
        let name = BackupName(job.header)
        var digest = SnapshotDigest()
        let disk: Storage
        let written: (byteCount: Int, recordCount: Int)
        do throws(SnapshotWriter<Storage>.Interruption) {
            do throws(DiskFailure) {
                disk = try open()
                try refuseIfForeign(disk)
            } catch {
                throw .disk(error)
            }
            let snapshots = SnapshotWriter(disk: disk, cancelled: cancelled, pause: pause)
            written = try snapshots.write(job, named: name.text) {
                digest.add($0, namespace: $1, payload: $2)
            }
        } catch {
            switch error {
            case .cancelled: logger.notice("backup: given up because the server stops")
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
        rehearseIfDue(name, on: disk, digest.finish())
        removeSuperfluous(on: disk, at: name)
        return true
    }

    /// Counts and logs a backup that could not be made.
    package func noteFailure(_ reason: String) {
        metrics.backups.add(.failed)
        logger.error("the backup failed, it is tried again at the next time: \(reason)")
    }

    /// A disk that is gone leaves an empty directory where it was mounted: nothing is written there.
    private func refuseIfForeign(_ disk: Storage) throws(DiskFailure) {
        guard try !disk.list().contains(Journal<Storage>.lockFileName) else { return }
        throw DiskFailure(
            operation: .open, path: disk.directory, errorNumber: 0,
            errorText:
                "it is not the directory that was there at the start: \(Journal<Storage>.lockFileName) is gone"
        )
    }

    private mutating func rehearseIfDue(_ name: BackupName, on disk: Storage, _ digest: String) {
        guard options.drillInterval > 0 else { return }
        backupsUntilDrill -= 1
        guard backupsUntilDrill <= 0 else { return }
        switch drill(disk.directory, name.text, digest) {
        case .passed(let report):
            backupsUntilDrill = options.drillInterval
            metrics.drills.add(.passed)
            metrics.lastDrillTime.set(Int(Environment.machine.wallMilliseconds / 1000))
            logger.info("\(report)")
        case .failed(let report):
            // The next backup is tried, too.
            metrics.drills.add(.failed)
            logger.error("the restore of \(name.text) on trial failed: \(report)")
        case .cancelled: break
        }
    }

    // MARK: What is kept no more

    private func removeSuperfluous(on disk: Storage, at newest: BackupName) {
        do throws(DiskFailure) {
            let names = try disk.list().compactMap { BackupName($0) }
            let superfluous = options.retention.superfluous(among: names).filter { $0 != newest }
            for name in superfluous { try disk.remove(name.text) }
            if !superfluous.isEmpty {
                try disk.syncDirectory()
                logger.info("backups removed: \(superfluous.map(\.text).joined(separator: ", "))")
            }
            let kept = Set(names).subtracting(superfluous)
            if let openArchive { try removeArchived(behind: kept, at: newest, on: openArchive()) }
        } catch {
            logger.warning(
                "old backups or archived segments cannot be removed now, it is tried again: \(error)")
        }
    }

    /// Removes archived segments that are older than they are to be kept, and lie before the newest backup which is, too;
    /// where there is none, before the oldest backup.
    private func removeArchived(
        behind kept: Set<BackupName>, at newest: BackupName, on archive: Storage
    ) throws(DiskFailure) {
        let seconds = options.archiveKeepTime.components.seconds
        let horizon = newest.milliseconds - min(seconds, Int64.max / 2000) * 1000
        let sorted = kept.sorted()
        guard let oldestNeeded = sorted.last(where: { $0.milliseconds <= horizon }) ?? sorted.first else {
            return
        }
        let covered = supersededSegments(
            ofArchive: try archive.list(), timeline: oldestNeeded.timeline, sequence: oldestNeeded.sequence)
        var names: [String] = []
        for (file, next) in covered {
            // All of its records are older than those of the next one. Those behind it in the log are younger.
            guard let time = try firstTime(ofArchived: next, on: archive), time <= horizon else { break }
            names.append(file)
        }
        guard !names.isEmpty else { return }
        for name in names { try archive.remove(name) }
        try archive.syncDirectory()
        logger.info("archived segments removed: \(names.joined(separator: ", "))")
    }
}

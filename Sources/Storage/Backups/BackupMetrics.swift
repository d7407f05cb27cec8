import PandoJournal
import PandoMetrics

/// What the backup thread and the archive thread count. Each number has one thread that adds to it; any
/// thread reads it.
package final class BackupMetrics: Sendable {
    /// How a scheduled backup ended.
    package enum BackupEnd: UInt8, CaseIterable, Sendable { case written, failed }

    /// What a restore test has restored: a backup alone, or a backup with the archive behind it.
    package enum RestoreTestSource: String, CaseIterable, Sendable { case backup, archive }
    /// How a restore test ended.
    package enum RestoreTestEnd: UInt8, CaseIterable, Sendable { case passed, failed }

    /// Why the journal could not be archived.
    package enum ArchiveFailure: UInt8, CaseIterable, Sendable {
        /// A system call failed.
        case disk
        /// The directory is not there, or another one is.
        case missing
        /// The archive is another data directory's, ahead of the journal, or has other records.
        case conflict
        /// A segment of the journal or of the archive is damaged.
        case damaged
    }

    /// Space of the disk of a directory.
    package final class Space: Sendable {
        /// Bytes of the file system, and those of them that are free; 0 where the directory was not there
        /// yet.
        package let byteCount = Gauge()
        package let freeByteCount = Gauge()

        /// Looks at the disk, which may take long: on the thread that uses it, never on one that answers.
        func look(at disk: SystemDisk) {
            guard let space = disk.space else { return }
            byteCount.set(space.byteCount)
            freeByteCount.set(space.freeByteCount)
        }
    }

    /// Of the backups; set by the backup thread.
    package let backupSpace = Space()
    /// Of the archive; set by the archive thread.
    package let archiveSpace = Space()

    /// The space of a directory.
    package func space(of use: BackupUse) -> Space {
        switch use {
        case .backups: backupSpace
        case .archive: archiveSpace
        }
    }

    private let backupActivity = DiskActivity()
    private let archiveActivity = DiskActivity()

    /// How long the thread of a directory has been waiting for its disk.
    package func activity(of use: BackupUse) -> DiskActivity {
        switch use {
        case .backups: backupActivity
        case .archive: archiveActivity
        }
    }

    // The backup thread.
    package let backups = CounterTable<BackupEnd>()
    /// When the newest backup was taken, also before the start: seconds since 1970; 0 for none.
    package let lastSuccessTime = Gauge()
    package let lastByteCount = Gauge()
    /// Backups in the directory whose header cannot be read, as of the newest backup.
    package let unreadableBackups = Gauge()
    /// Attempts to remove a backup that failed.
    package let removalFailures = Counter()
    /// Nanoseconds until a backup is written.
    package let times = Histogram(
        bounds: [10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000].map { $0 * 1_000_000 }, unitsPerBase: 1e9)
    /// Seconds between two backups; 0 without scheduled backups. Set before the threads start.
    package let interval = Gauge()
    private let backupTests = CounterTable<RestoreTestEnd>()
    private let archiveTests = CounterTable<RestoreTestEnd>()
    /// When the last restore test passed, also before the start: seconds since 1970; 0 for none.
    package let lastTestTime = Gauge()

    // The archive thread.
    /// 1 where the journal is to be archived, else 0. Set before the threads start.
    package let isArchiving = Gauge()
    package let archivedSegments = Counter()
    package let archivedBytes = Counter()
    package let archiveFailures = CounterTable<ArchiveFailure>()
    package let archiveGaps = Counter()
    /// Attempts to remove an archived segment that failed.
    package let archiveRemovalFailures = Counter()
    /// What was on disk at this time is in the archive: seconds since 1970; 0 where nothing was archived
    /// since the start.
    package let archivedTime = Gauge()

    package init() {}

    func add(_ end: RestoreTestEnd, of source: RestoreTestSource) {
        switch source {
        case .backup: backupTests.add(end)
        case .archive: archiveTests.add(end)
        }
    }

    /// How many restore tests have ended in one way.
    package func testCount(_ end: RestoreTestEnd, of source: RestoreTestSource) -> UInt64 {
        switch source {
        case .backup: backupTests.value(of: end)
        case .archive: archiveTests.value(of: end)
        }
    }
}

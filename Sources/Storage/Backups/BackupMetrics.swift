import PandoMetrics

/// What the backup thread and the archive thread count. Each number has one thread that adds to it; any thread reads it.
package final class BackupMetrics: Sendable {
    /// How a scheduled backup ended.
    package enum BackupEnd: UInt8, CaseIterable, Sendable { case written, failed }
    /// How a restore on trial ended.
    package enum DrillEnd: UInt8, CaseIterable, Sendable { case passed, failed }

    // The backup thread.
    package let backups = CounterTable<BackupEnd>()
    /// When the newest backup was taken, also before the start: seconds since 1970; 0 for none.
    package let lastSuccessTime = Gauge()
    package let lastByteCount = Gauge()
    /// Nanoseconds until a backup is written.
    package let times = Histogram(
        bounds: [10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000].map { $0 * 1_000_000 }, unitsPerBase: 1e9)
    /// Seconds between two backups; 0 without scheduled backups. Set before the threads start.
    package let interval = Gauge()
    package let drills = CounterTable<DrillEnd>()
    /// When a backup was last restored on trial with success: seconds since 1970; 0 for not since the start.
    package let lastDrillTime = Gauge()

    // The archive thread.
    package let archivedSegments = Counter()
    package let archivedBytes = Counter()
    package let archiveFailures = Counter()
    package let archiveGaps = Counter()
    /// What was on disk at this time is in the archive: seconds since 1970; 0 without an archive.
    package let archivedTime = Gauge()

    package init() {}
}

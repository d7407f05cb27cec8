import PandoMetrics
import PandoTree

/// What the data directory's threads count. Each number has one thread that adds to it; any thread reads it.
package final class StorageMetrics: Sendable {
    /// How the writing of a checkpoint ended.
    package enum CheckpointEnd: UInt8, CaseIterable, Sendable { case written, failed }

    // The journal thread.
    /// Nanoseconds of an `fdatasync` of the journal.
    package let syncs = Histogram.durations
    /// Bytes that one write to the journal has: all that waited during the previous sync.
    package let writtenBatchBytes = Histogram.bytes
    /// Requests of the databases that one round of the journal thread has taken.
    package let batches = Histogram.counts
    package let writtenBytes = Counter()
    /// Bytes of journal that no checkpoint covers, and from how many on a checkpoint is due.
    package let uncoveredJournalBytes = Gauge()
    package let checkpointDueBytes = Gauge()
    /// 1 while the disk is full, else 0.
    package let isDiskFull = Gauge()
    package let checkpoints = CounterTable<CheckpointEnd>()

    // The checkpoint thread.
    /// Nanoseconds until a checkpoint is written.
    package let checkpointTimes = Histogram(
        bounds: [10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000].map { $0 * 1_000_000 }, unitsPerBase: 1e9)
    package let lastCheckpointBytes = Gauge()
    /// When the last one was finished: seconds since 1970; 0 for none since the start.
    package let lastCheckpointTime = Gauge()

    /// How large the trees are: set by the thread that recovers, then by the one that counts them.
    package let treeNodes = Gauge()
    package let treeBytes = Gauge()

    // The thread that recovers.
    package let recoveredRecords = Counter()
    package let recoveredBytes = Counter()
    /// Bytes of files that recovery may have to read.
    package let recoverableBytes = Gauge()

    package init() {}

    /// Sets how large the trees are.
    package func set(_ size: TreeSize) {
        treeNodes.set(size.nodeCount)
        treeBytes.set(size.byteCount)
    }
}

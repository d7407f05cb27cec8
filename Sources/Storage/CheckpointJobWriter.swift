import Logging
import PandoJournal
import PandoReactor
import PandoTime

/// Writes checkpoints, and removes the files that they make superfluous; it has no thread of its own.
package struct CheckpointJobWriter<Storage: Disk> {
    private let disk: Storage
    private let snapshots: SnapshotWriter<Storage>
    private let keptCount: Int
    private let unreadable: Set<String>
    private let metrics: StorageMetrics
    private let mark: JournalMark?
    private let logger: Logger

    /// - Parameters:
    ///   - keptCount: Checkpoints that are kept.
    ///   - unreadable: Checkpoints that the start could not read, which do not count.
    ///   - mark: Which segments are archived; nil where none are.
    ///   - cancelled: Gives up the checkpoint being written, at its next record.
    ///   - pause: Leaves the disk to others for a time.
    package init(
        disk: Storage, keptCount: Int, unreadable: Set<String> = [],
        metrics: StorageMetrics = StorageMetrics(), mark: JournalMark? = nil,
        logger: Logger, cancelled: CancellationFlag,
        pause: @escaping (Duration) -> Void = { _ in }
    ) {
        self.disk = disk
        self.keptCount = keptCount
        self.unreadable = unreadable
        self.metrics = metrics
        self.mark = mark
        self.logger = logger
        snapshots = SnapshotWriter(disk: disk, cancelled: cancelled, pause: pause)
    }

    /// Writes one checkpoint, and removes what it makes superfluous. O(bytes of the snapshot).
    /// - Returns: false where it was given up: cancelled, or no space or descriptor was left.
    /// - Throws: ``DiskFailure``, which is final: the disk cannot be relied on any more.
    package func write(_ job: CheckpointJob) throws(DiskFailure) -> Bool {
        let sequence = job.header.sequence
        let began = MonotonicTime.now
        logger.info("checkpoint at \(sequence): begun")
        let written: (byteCount: Int, recordCount: Int)
        do throws(SnapshotWriter<Storage>.Interruption) {
            written = try snapshots.write(job)
        } catch {
            switch error {
            case .cancelled: logger.notice("checkpoint at \(sequence): cancelled because the server stops")
            case .disk(let failure) where failure.isShortage:
                // The journal holds everything, so a checkpoint can also be tried again after a failed sync
                // of it.
                let shortage = failure.isOutOfSpace ? "space on the disk" : "free descriptor"
                logger.warning(
                    "checkpoint at \(sequence): no \(shortage); it is tried again later, and the journal is kept: \(failure)"
                )
            case .disk(let failure): throw failure
            }
            return false
        }
        logger.info(
            "checkpoint at \(sequence): \(written.byteCount) bytes, \(written.recordCount) records in \((.now - began).inMilliseconds) ms"
        )
        metrics.checkpointTimes.observe((.now - began).nanosecondCount)
        metrics.lastCheckpointBytes.set(written.byteCount)
        metrics.lastCheckpointTime.set(Int(Environment.machine.wallMilliseconds / 1000))
        try removeSuperseded(of: job.header.timeline)
        return true
    }

    private func removeSuperseded(of timeline: UInt32) throws(DiskFailure) {
        let removed: [String]
        do throws(DiskFailure) {
            removed = try PandoJournal.removeSuperseded(
                on: disk, timeline: timeline, keepingCheckpoints: keptCount, besides: unreadable,
                archivingFrom: mark?.archiving)
        } catch {
            guard error.mayBeRetried else { throw error }
            return logger.warning(
                "old checkpoints and segments cannot be removed now; they are removed after the next checkpoint: \(error)"
            )
        }
        if !removed.isEmpty { logger.info("removed: \(removed.joined(separator: ", "))") }
    }
}

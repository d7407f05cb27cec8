import Logging
import PandoJournal
import PandoReactor
import PandoTime

/// Writes checkpoints, and removes the files that they make superfluous; it has no thread of its own.
package struct CheckpointJobWriter<Storage: Disk> {
    private let disk: Storage
    private let keptCount: Int
    private let metrics: StorageMetrics
    private let logger: Logger
    private let cancelled: CancellationFlag
    private let pause: (Duration) -> Void

    /// Bytes between two syncs, and two pauses: the log's own syncs, on the same disk, may wait for as many.
    private static var syncByteCount: Int { 1 << 20 }
    /// A pause is this many times as long as the work before it: a checkpoint takes a quarter of the disk's
    /// time at most, and the log has the rest.
    private static var pausePerWork: Double { 3 }
    /// The longest pause, however slow the disk.
    private static var longestPause: Duration { .milliseconds(200) }

    private enum Interruption: Error {
        case disk(DiskFailure)
        case cancelled
    }

    /// - Parameters:
    ///   - keptCount: Checkpoints that are kept.
    ///   - cancelled: Gives up the checkpoint being written, at its next record.
    ///   - pause: Leaves the disk to others for a time.
    package init(
        disk: Storage, keptCount: Int, metrics: StorageMetrics = StorageMetrics(), logger: Logger,
        cancelled: CancellationFlag,
        pause: @escaping (Duration) -> Void = { _ in }
    ) {
        self.disk = disk
        self.keptCount = keptCount
        self.metrics = metrics
        self.logger = logger
        self.cancelled = cancelled
        self.pause = pause
    }

    /// Writes one checkpoint, and removes what it makes superfluous. O(bytes of the snapshot).
    /// - Returns: false where it was given up: cancelled, or no space or descriptor was left.
    /// - Throws: ``DiskFailure``, which is final: the disk cannot be relied on any more.
    package func write(_ job: CheckpointJob) throws(DiskFailure) -> Bool {
        let sequence = job.header.sequence
        let began = MonotonicTime.now
        logger.info("checkpoint at \(sequence): begun")
        let written: (byteCount: Int, recordCount: Int)
        do throws(Interruption) {
            written = try writeFile(job)
        } catch {
            switch error {
            case .cancelled: logger.notice("checkpoint at \(sequence): given up because the server stops")
            case .disk(let failure) where failure.isShortage:
                // The log holds everything, so a checkpoint can also be tried again after a failed sync of it.
                let shortage = failure.isOutOfSpace ? "space on the disk" : "free descriptor"
                logger.warning(
                    "checkpoint at \(sequence): no \(shortage), it is tried again later; the log is kept: \(failure)"
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
                on: disk, timeline: timeline, keepingCheckpoints: keptCount)
        } catch {
            guard error.mayBeRetried else { throw error }
            return logger.warning(
                "old checkpoints and segments cannot be removed now, they are removed after the next checkpoint: \(error)"
            )
        }
        if !removed.isEmpty { logger.info("removed: \(removed.joined(separator: ", "))") }
    }

    private func writeFile(_ job: CheckpointJob) throws(Interruption) -> (byteCount: Int, recordCount: Int) {
        var writer: CheckpointWriter<Storage>
        do throws(DiskFailure) {
            writer = try CheckpointWriter(job.header, on: disk, syncByteCount: Self.syncByteCount)
        } catch {
            throw .disk(error)
        }
        var (pausedAt, began) = (0, MonotonicTime.now)
        do throws(Interruption) {
            try job.snapshot.forEachRecord { kind, namespace, payload throws(Interruption) in
                if cancelled.isSet { throw .cancelled }
                do throws(DiskFailure) {
                    try writer.append(kind, namespace: namespace, payload: payload.rawSpan)
                } catch {
                    throw .disk(error)
                }
                if writer.byteCount - pausedAt >= Self.syncByteCount {
                    pause(min((.now - began) * Self.pausePerWork, Self.longestPause))
                    (pausedAt, began) = (writer.byteCount, .now)
                }
            }
        } catch {
            // A file that cannot be removed now is removed by the next start.
            try? writer.abandon()
            throw error
        }
        do throws(DiskFailure) { return try writer.finish() } catch { throw .disk(error) }
    }
}

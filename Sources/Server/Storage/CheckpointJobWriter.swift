import Logging
import PandoJournal
import PandoReactor
import Synchronization

/// Says that a checkpoint is not wanted any more. Any thread.
final class AbandonFlag: Sendable {
    let isSet = Atomic<Bool>(false)
}

/// Writes checkpoints, and removes what they supersede; no thread of its own.
struct CheckpointJobWriter<Storage: Disk>: Sendable {
    let disk: Storage
    let keptCount: Int
    let logger: Logger
    let abandoned: AbandonFlag
    /// Leaves the disk to others for so long.
    var rest: @Sendable (Duration) -> Void = { _ in }

    /// Bytes between two syncs, and two rests: what the log's own syncs, on the same disk, may stand behind.
    private static var syncByteCount: Int { 1 << 20 }
    /// A checkpoint takes the disk for a quarter of the time at most, and the log has the rest.
    private static var restsPerWork: Double { 3 }
    /// However slow the disk.
    private static var longestRest: Duration { .milliseconds(200) }

    private enum Interruption: Error {
        case disk(DiskFailure)
        case abandoned
    }

    /// - Returns: false when nothing came of it.
    /// - Throws: What is final: the disk cannot be relied on any more.
    func write(_ job: CheckpointJob) throws(DiskFailure) -> Bool {
        let sequence = job.header.sequence
        let began = MonotonicTime.now
        logger.info("checkpoint at \(sequence): begun")
        let written: (byteCount: Int, recordCount: Int)
        do throws(Interruption) {
            written = try writeFile(job)
        } catch {
            switch error {
            case .abandoned: logger.notice("checkpoint at \(sequence): given up, the server stops")
            case .disk(let failure) where failure.isShortage:
                // The log has everything, so also a sync of it may fail for want of room: the next one begins
                // anew.
                let lack = failure.isOutOfSpace ? "room" : "descriptor"
                logger.warning(
                    "checkpoint at \(sequence): no \(lack) for it, it will be tried again: \(failure)")
            case .disk(let failure): throw failure
            }
            return false
        }
        logger.info(
            "checkpoint at \(sequence): \(written.byteCount) bytes, \(written.recordCount) records in \((.now - began).inMilliseconds) ms"
        )
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
            return logger.warning("what the checkpoint supersedes is removed after the next one: \(error)")
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
        var (restedAt, began) = (0, MonotonicTime.now)
        do throws(Interruption) {
            try job.snapshot.forEachRecord { kind, namespace, payload throws(Interruption) in
                if abandoned.isSet.load(ordering: .relaxed) { throw .abandoned }
                do throws(DiskFailure) {
                    try writer.append(kind, namespace: namespace, payload: payload.rawSpan)
                } catch {
                    throw .disk(error)
                }
                if writer.byteCount - restedAt >= Self.syncByteCount {
                    rest(min((.now - began) * Self.restsPerWork, Self.longestRest))
                    (restedAt, began) = (writer.byteCount, .now)
                }
            }
        } catch {
            // Whatever cannot be removed now, the next start removes.
            try? writer.abandon()
            throw error
        }
        do throws(DiskFailure) { return try writer.finish() } catch { throw .disk(error) }
    }
}

import PandoBytes
import PandoJournal
import PandoReactor
import Synchronization

/// Writes one checkpoint with two threads: the caller's encodes blocks, another one writes and syncs them.
/// For imports and restores, which wait for nothing else. In memory are a few blocks of one or two MiB.
///
///     var pipe = try CheckpointPipe(header, on: disk)
///     try pipe.append(…)                  // once for each record
///     try pipe.finish { … }               // read once more; now it is durable under its name
///
/// A failure of the disk is thrown by a later call, at the latest by the last one: ``finish(progress:)`` or
/// ``abandon()``.
struct CheckpointPipe<Storage: Disk>: ~Copyable {
    private enum Step: Sendable {
        case block([UInt8])
        /// The last bytes, and the end of the file.
        case finish([UInt8])
    }

    /// Shared by the two threads.
    private final class Progress: Sendable {
        /// The first failure of the disk; nothing is written after it.
        let failure = Mutex<DiskFailure?>(nil)
        let isAbandoned = CancellationFlag()
    }

    private let checkpoint: UnnamedCheckpoint<Storage>
    private var encoder: CheckpointEncoder
    private let thread: WorkerThread<Step>
    private let progress = Progress()
    /// Bytes of the blocks that were handed over.
    private var blockByteCount = 0

    /// Bytes of blocks that may wait to be written. A single block may be larger.
    private static var waitingByteLimit: Int { 4 << 20 }
    /// Bytes between two syncs, so that the last sync has little left to do. (No journal shares the disk
    /// here.)
    private static var syncByteCount: Int { 8 << 20 }

    /// - Parameters:
    ///   - disk: Used by the writing thread alone until the last call.
    ///   - syncByteCount: Bytes between two syncs.
    /// - Throws: ``DiskFailure`` where the process has no free thread or descriptor.
    init(
        _ header: CheckpointHeader, on disk: Storage, syncByteCount: Int = Self.syncByteCount
    ) throws(DiskFailure) {
        checkpoint = UnnamedCheckpoint(header, on: disk)
        encoder = CheckpointEncoder(header)
        thread = try Self.start(header, on: disk, syncByteCount, progress)
    }

    private static func start(
        _ header: CheckpointHeader, on disk: Storage, _ syncByteCount: Int, _ progress: Progress
    ) throws(DiskFailure) -> WorkerThread<Step> {
        do throws(SocketError) {
            let thread = try WorkerThread<Step>("pando-write", queueLimit: Self.waitingByteLimit)
            try thread.start { queue in
                do throws(DiskFailure) {
                    try write(header, on: disk, syncByteCount, from: queue, progress.isAbandoned)
                } catch {
                    progress.failure.withLock { $0 = error }
                }
            }
            return thread
        } catch {
            throw DiskFailure(
                operation: .startThread, path: disk.directory, errorNumber: error.code,
                errorText: error.description)
        }
    }

    /// Bytes encoded so far, those of the block being filled included.
    var byteCount: Int { blockByteCount + encoder.pendingByteCount }

    /// Appends one record. Waits while enough blocks wait to be written.
    /// - Throws: ``DiskFailure``: writing this block or one before it failed.
    mutating func append(_ kind: RecordKind, namespace: UInt32, payload: RawSpan) throws(DiskFailure) {
        encoder.append(kind, namespace: namespace, payload: payload)
        guard encoder.isFull else { return }
        let block = encoder.endBlock()
        let byteCount = block.count
        blockByteCount += byteCount
        if !thread.post(.block(block), reserving: byteCount) { try throwFailure() }
    }

    /// Writes the end mark, makes the file durable, reads it once more, and gives it its name, which is
    /// durable then, too.
    /// - Parameter progress: Called after each block that was read again, with the bytes of the file.
    /// - Throws: ``JournalError/disk(_:)`` and ``JournalError/writtenDamaged(_:)``; then there is no
    ///   checkpoint. ``JournalError/nameNotDurable(file:_:)``; then it has its name, and counts.
    consuming func finish(progress: (_ byteCount: Int) -> Void = { _ in }) throws(JournalError) {
        let totalByteCount = byteCount
        thread.post(.finish(encoder.finish()))
        thread.stop()
        do throws(DiskFailure) { try throwFailure() } catch { throw .disk(error) }
        try checkpoint.verify { _ in progress(totalByteCount) }
        try checkpoint.publish()
    }

    /// Gives up, and removes the file.
    /// - Throws: ``DiskFailure``: writing failed before, or the file could not be removed.
    consuming func abandon() throws(DiskFailure) {
        progress.isAbandoned.isSet = true
        thread.stop()
        try throwFailure()
    }

    /// - Precondition: The thread has ended, or its queue is closed.
    private func throwFailure() throws(DiskFailure) {
        if let failure = progress.failure.withLock({ $0 }) { throw failure }
    }

    // MARK: The writing thread

    private static func write(
        _ header: CheckpointHeader, on disk: Storage, _ syncByteCount: Int, from queue: WorkerQueue<Step>,
        _ isAbandoned: CancellationFlag
    ) throws(DiskFailure) {
        var file = try CheckpointFile(header, on: disk, syncByteCount: syncByteCount)
        while let step = queue.next(), !isAbandoned.isSet {
            switch step {
            case .block(let block):
                do throws(DiskFailure) {
                    try file.write(block)
                } catch {
                    // A full disk gets its space back at once; a file that stays is removed by the next
                    // start.
                    try? file.abandon()
                    throw error
                }
                queue.release(block.count)
            case .finish(let lastBytes):
                try file.finishUnnamed(lastBytes)
                return
            }
        }
        // Abandoned, or dropped without an end.
        try file.abandon()
    }
}

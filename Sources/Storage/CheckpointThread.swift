import Glibc
import Logging
import PandoJournal
import PandoReactor

/// The checkpoint thread: writes snapshots to the disk while everything else goes on, and removes the files
/// that they make superfluous. Its niceness is 10: busy threads get most of the processor time.
///
/// A full disk, or the lack of a descriptor, ends one attempt; any other failure of the disk ends the
/// process, as a failure of the journal does.
final class CheckpointThread: Sendable {
    private let thread: WorkerThread<CheckpointJob>
    private let cancelled = CancellationFlag()

    /// Snapshots are walked recursively: JSON nests up to 1024 deep.
    private static let stackByteCount = 8 << 20
    private static let niceness = 10

    /// - Parameters:
    ///   - disk: Used by this thread alone.
    ///   - keptCount: Checkpoints that are kept.
    ///   - unreadable: Checkpoints that the start could not read, which do not count.
    ///   - mark: Which segments are archived; nil where none are.
    ///   - finished: Called on the thread after each job, with whether the checkpoint was written.
    /// - Throws: ``SocketError`` where the process has no free descriptor or thread.
    init<Storage: Disk>(
        on disk: Storage, keeping keptCount: Int, besides unreadable: Set<String>, metrics: StorageMetrics,
        mark: JournalMark?, logger: Logger,
        finished: @escaping @Sendable (Bool) -> Void
    ) throws(SocketError) {
        thread = try WorkerThread(
            "pando-checkpt", stackByteCount: Self.stackByteCount, niceness: Self.niceness)
        try thread.start { [cancelled] queue in
            // While the server stops, the journal does not need the disk any more: then `queue` does not
            // pause.
            let writer = CheckpointJobWriter(
                disk: disk, keptCount: keptCount, unreadable: unreadable, metrics: metrics, mark: mark,
                logger: logger,
                cancelled: cancelled,
                pause: { queue.pause(for: $0) })
            while let job = queue.next() {
                do throws(DiskFailure) {
                    finished(try writer.write(job))
                } catch {
                    logger.critical(
                        "a checkpoint cannot be written, so the disk cannot be relied on; stopping at once with exit code 74: \(error)"
                    )
                    _exit(74)
                }
            }
        }
    }

    func post(_ job: CheckpointJob) { thread.post(job) }

    /// Gives up the checkpoint being written, at its next record. Any thread.
    func cancel() {
        cancelled.isSet = true
    }

    /// Finishes what was posted, and ends the thread.
    func stop() { thread.stop() }
}

extension Duration {
    var inMilliseconds: Int64 { components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000 }
}

import Glibc
import Logging
import PandoJournal
import PandoReactor
import Synchronization

/// The journal thread: writes and syncs the requests that have gathered since the last time, and reports how
/// far it got (``JournalWriter``).
///
/// While the disk works, the databases go on and the next batch gathers: the slower the disk, the larger the
/// batches (group commit). A failed write or sync is final under every ``Durability``: what was acknowledged
/// cannot be promised any more, so the process says so and exits with 74.
package final class JournalThread: Sendable {
    /// Where the databases post their entries.
    package let queue: JournalQueue
    private let thread: WorkerThread<JournalRequest>
    private let checkpoints: CheckpointThread
    private let segments: SegmentThread
    /// The ``JournalWriter``, which has the lock of the directory. When the journal thread has ended, the
    /// checkpoint thread goes on there, and an ``ArchiveThread`` may: no other process may use it before.
    /// (One that waits for its own disk is not waited for: it only reads here.)
    private let writer: Mutex<(any Sendable)?>

    /// Starts the journal thread, the checkpoint thread and the segment thread.
    /// - Parameters:
    ///   - checkpointDisk: The same directory, for the checkpoint thread.
    ///   - segmentDisk: The same directory, for the segment thread.
    ///   - mark: Is set to how far the journal is on disk, for an ``ArchiveThread``.
    ///   - report: The sink of the journal's events, called on the journal thread.
    /// - Throws: ``SocketError`` where the process has no free descriptor or thread.
    package init<Storage: Disk>(
        _ journal: consuming Journal<Storage>, checkpointDisk: Storage, segmentDisk: Storage,
        options: StorageOptions, metrics: StorageMetrics = StorageMetrics(), mark: JournalMark? = nil,
        logger: Logger,
        report: @escaping @Sendable (StorageEvent) -> Void
    ) throws(SocketError) {
        let thread = try WorkerThread<JournalRequest>("pando-journal")
        self.thread = thread
        let requests = thread.mailbox
        let space = try JournalSpace()
        let queue = JournalQueue(requests, space: space, origin: JournalOrigin(journal)) {
            space.waitForUpdate()
        }
        self.queue = queue
        let checkpoints = try CheckpointThread(
            on: checkpointDisk, keeping: options.keptCheckpointCount,
            besides: journal.recovery.unreadableCheckpoints, metrics: metrics, mark: mark, logger: logger
        ) { isWritten in requests.post(.checkpointFinished(isWritten: isWritten)) }
        self.checkpoints = checkpoints
        let segments = try SegmentThread(on: segmentDisk, logger: logger) {
            requests.post(.segmentPrepared(byteCount: $0))
        }
        self.segments = segments
        let writer = JournalWriter(
            journal, options: options, queue: queue, environment: .machine, metrics: metrics, logger: logger,
            JournalCallbacks(
                report: report, writeCheckpoint: { checkpoints.post($0) },
                preparer: SegmentPreparer(
                    prepare: { segments.prepare(byteCount: $0) }, cancel: { segments.cancel() })), mark: mark)
        self.writer = Mutex(writer)
        try thread.start { incoming in
            shortenTimeSlice()
            var batch: [JournalRequest] = []
            do throws(JournalError) {
                try writer.begin()
                while true {
                    if !incoming.receive(into: &batch, timeout: writer.timeUntilDue) { batch = [.stop] }
                    guard try writer.process(&batch) else { return }
                }
            } catch {
                logger.critical(
                    "the journal cannot be written, so no further write can be made durable; stopping at once with exit code 74: \(error)"
                )
                // At once: nothing more may leave the process, and nothing is left to be cleaned up.
                _exit(74)
            }
        }
    }

    /// Gives up the checkpoint being written. Any thread.
    package func cancelCheckpoint() { checkpoints.cancel() }

    /// Makes everything durable, under every ``Durability``, finishes the checkpoint being written, and ends
    /// the threads. The directory stays locked until ``unlock()``.
    package func stopThreads() {
        // First: its last report is processed before the stop.
        segments.stop()
        thread.stop()
        checkpoints.stop()
    }

    /// Other processes may use the directory from now on. After ``stopThreads()``.
    package func unlock() { writer.withLock { $0 = nil } }

    /// Ends the threads, and unlocks the directory.
    package func stop() {
        stopThreads()
        unlock()
    }
}

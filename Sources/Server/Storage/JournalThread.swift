import Glibc
import Logging
import PandoJournal
import PandoReactor

/// The journal thread: writes and syncs what has gathered since it last looked, and says how far it got
/// (``JournalWriter``).
///
/// While the disk works, the database thread goes on and the next batch gathers: the slower the disk, the
/// larger the batches (group commit). A failed write or sync is final in every mode: the promise cannot be
/// kept, so the process says so and exits 74.
final class JournalThread: Sendable {
    let door: JournalQueue
    private let thread: NamedThread
    private let checkpoints: CheckpointThread
    private let segments: SegmentThread

    /// - Parameters:
    ///   - checkpointDisk: The same directory, for another thread.
    ///   - segmentDisk: The same, for a third.
    ///   - tell: Hears, on the journal thread, what the database must know (``JournalWriter``).
    init<Storage: Disk>(
        _ journal: consuming Journal<Storage>, checkpointDisk: Storage, segmentDisk: Storage,
        configuration: Configuration, logger: Logger, tell: @escaping @Sendable (DatabaseMessage) -> Void
    ) throws(SocketError) {
        let wakeup = try WakeupEvent()
        let orders = Mailbox<JournalOrder>(signalling: wakeup)
        let space = try LogSpace()
        let door = JournalQueue(orders, space: space, origin: JournalOrigin(journal)) {
            space.waitForAnswer()
        }
        self.door = door
        let checkpoints = try CheckpointThread(
            on: checkpointDisk, keeping: configuration.keptCheckpointCount, logger: logger
        ) { isWritten in orders.post(.checkpointFinished(isWritten: isWritten)) }
        self.checkpoints = checkpoints
        let segments = try SegmentThread(on: segmentDisk, logger: logger) {
            orders.post(.segmentPrepared(byteCount: $0))
        }
        self.segments = segments
        let writer = JournalWriter(
            journal, configuration: configuration, door: door, surroundings: .machine, logger: logger,
            tell: tell, writeCheckpoint: { checkpoints.post($0) },
            preparer: SegmentPreparer(
                prepare: { segments.prepare(byteCount: $0) }, abandon: { segments.abandon() }))
        thread = try NamedThread.start("pando-journal") {
            var batch: [JournalOrder] = []
            do throws(JournalError) {
                try writer.begin()
                while true {
                    wakeup.wait(timeout: writer.timeUntilDue)
                    orders.drain(into: &batch)
                    guard try writer.take(&batch) else { return }
                }
            } catch {
                logger.critical("the journal failed, no write can be promised any more: \(error)")
                // At once: nothing more may leave the process, and nothing is left to be tidied.
                _exit(74)
            }
        }
    }

    /// Gives up the checkpoint being written.
    func abandonCheckpoint() { checkpoints.abandon() }

    /// Makes everything durable, whatever the mode, finishes the checkpoint being written, and ends the
    /// threads.
    func stop() {
        // First: what it answers is taken before the stop.
        segments.stop()
        door.orders.post(.stop)
        thread.join()
        checkpoints.stop()
    }
}

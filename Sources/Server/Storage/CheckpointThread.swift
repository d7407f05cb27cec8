import Glibc
import Logging
import PandoJournal
import PandoReactor
import Synchronization

/// A checkpoint to be written: the log up to it is durable.
struct CheckpointJob: Sendable {
    var header: CheckpointHeader
    var snapshot: Snapshot
}

/// The checkpoint thread: writes snapshots down while everything else goes on, and removes what they
/// supersede. Its priority is low: it runs when the others wait.
///
/// A full disk, or the lack of a descriptor, ends one attempt and no more; any other failure of the disk ends
/// the process, as a failure of the log does.
final class CheckpointThread: Sendable {
    private enum Order: Sendable {
        case write(CheckpointJob)
        case stop
    }

    private let orders: Mailbox<Order>
    private let thread: NamedThread
    private let abandoned = AbandonFlag()
    /// Nobody else wants the disk any more.
    private let isUnthrottled = AbandonFlag()

    /// - Parameters:
    ///   - disk: Used by this thread alone.
    ///   - finished: Is called on the thread after each job; false when nothing came of it.
    init<Storage: Disk>(
        on disk: Storage, keeping keptCount: Int, logger: Logger, finished: @escaping @Sendable (Bool) -> Void
    ) throws(SocketError) {
        let wakeup = try WakeupEvent()
        let orders = Mailbox<Order>(signalling: wakeup)
        self.orders = orders
        let pause = try WakeupEvent()
        let writer = CheckpointJobWriter(
            disk: disk, keptCount: keptCount, logger: logger, abandoned: abandoned,
            rest: { [isUnthrottled] time in
                if !isUnthrottled.isSet.load(ordering: .relaxed) { pause.wait(timeout: time) }
            })
        thread = try NamedThread.start("pando-checkpt", stackByteCount: 8 << 20) {
            lowerThreadPriority()
            var batch: [Order] = []
            while true {
                wakeup.wait()
                orders.drain(into: &batch)
                while !batch.isEmpty {
                    // Taken out, so that the snapshot is gone when the next order is looked at.
                    guard case .write(let job) = batch.removeFirst() else { return }
                    do throws(DiskFailure) {
                        finished(try writer.write(job))
                    } catch {
                        logger.critical(
                            "a checkpoint failed, the disk cannot be relied on any more: \(error)")
                        _exit(74)
                    }
                }
            }
        }
    }

    func post(_ job: CheckpointJob) {
        orders.post(.write(job))
    }

    /// Gives up what is being written, at the next record. Any thread.
    func abandon() {
        abandoned.isSet.store(true, ordering: .relaxed)
    }

    /// Finishes what was asked for, and ends the thread.
    func stop() {
        isUnthrottled.isSet.store(true, ordering: .relaxed)
        orders.post(.stop)
        thread.join()
    }
}

extension Duration {
    var inMilliseconds: Int64 { components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000 }
}

import Glibc
import Logging
import PandoJournal
import PandoReactor
import Synchronization

/// The segment thread: prepares the file of the next segment while the log goes on in the one before
/// (``PreparedSegment``).
///
/// A full disk, or the lack of a descriptor, ends one attempt and no more; any other failure of the disk ends
/// the process, as a failure of the log does.
final class SegmentThread: Sendable {
    private enum Order: Sendable {
        case prepare(byteCount: Int)
        case stop
    }

    private let orders: Mailbox<Order>
    private let thread: NamedThread
    /// The attempt under way, or the last.
    private let abandoned = AbandonFlag()
    private let stopped = AbandonFlag()

    /// Between two steps the others have the disk: at least so long, about what a step takes.
    private static let pause: Duration = .milliseconds(1)

    /// - Parameters:
    ///   - disk: Used by this thread alone.
    ///   - finished: Is called on the thread after each attempt, with the file's bytes; nil when nothing came
    ///     of it.
    init<Storage: Disk>(
        on disk: Storage, logger: Logger, finished: @escaping @Sendable (_ byteCount: Int?) -> Void
    ) throws(SocketError) {
        let wakeup = try WakeupEvent()
        let resting = try WakeupEvent()
        let orders = Mailbox<Order>(signalling: wakeup)
        self.orders = orders
        thread = try NamedThread.start("pando-segment") { [abandoned, stopped] in
            var batch: [Order] = []
            while true {
                wakeup.wait()
                orders.drain(into: &batch)
                for order in batch {
                    guard case .prepare(let byteCount) = order else { return }
                    do throws(DiskFailure) {
                        let isThere = try PreparedSegment.make(
                            byteCount: byteCount, on: disk,
                            noteShortage: {
                                logger.info(
                                    "the next segment is not prepared, it is made when it is needed: \($0)")
                            }
                        ) {
                            resting.wait(timeout: Self.pause)
                            return abandoned.isSet.load(ordering: .relaxed)
                                || stopped.isSet.load(ordering: .relaxed)
                        }
                        finished(isThere ? byteCount : nil)
                    } catch {
                        logger.critical(
                            "the next segment failed, the disk cannot be relied on any more: \(error)")
                        _exit(74)
                    }
                }
                batch.removeAll(keepingCapacity: true)
            }
        }
    }

    /// The journal thread; one at a time.
    func prepare(byteCount: Int) {
        abandoned.isSet.store(false, ordering: .relaxed)
        orders.post(.prepare(byteCount: byteCount))
    }

    /// The journal thread: gives up what is under way.
    func abandon() {
        abandoned.isSet.store(true, ordering: .relaxed)
    }

    /// Any thread. Gives up what is under way, and ends the thread.
    func stop() {
        stopped.isSet.store(true, ordering: .relaxed)
        orders.post(.stop)
        thread.join()
    }
}

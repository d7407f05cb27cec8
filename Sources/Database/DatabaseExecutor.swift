import PandoReactor
import PandoTime
import Synchronization

/// Runs the ``DatabaseHost`` on whichever thread suits: a mailbox, and a lock that one thread holds at a
/// time.
///
///     loop ──▶ mailbox ──▶ database thread       bursts, and messages that may take long or wait
///       └────▶ runs the host itself              a few light requests, while the lock is free and nothing waits
///     journal thread ──▶ runs the host itself    releases what has become durable
///
/// To pass one request to another thread and back costs more than the request: waking a thread is a system
/// call and a few microseconds, and what one core has written the other must fetch. So a loop that has a few
/// light requests processes them itself; under load, when a tick brings hundreds, the database thread works
/// while the loop reads on.
///
/// No message is forgotten: a thread that releases the lock looks into the mailbox afterwards, and wakes the
/// database thread if there is something. A thread that finds the lock taken has posted its messages before.
///
/// `@unchecked Sendable`: `host` and `batch` are used under the lock, except by ``open(_:)``, which is called
/// before any other thread.
package final class DatabaseExecutor: @unchecked Sendable {
    private let mailbox: Mailbox<DatabaseMessage>
    /// Wakes the database thread.
    package let wakeup: WakeupEvent
    /// The lock.
    private let isLocked = Atomic<Bool>(false)
    /// When the turn began that holds the lock, in nanoseconds of the monotonic clock; 0 between two turns.
    private let turnBegan = Atomic<UInt64>(0)
    private let isStopped = Atomic<Bool>(false)
    private var host: DatabaseHost?
    private let durableTicket = DurableTicket()
    private var batch: [DatabaseMessage] = []

    /// The capacity for messages that is kept after a burst.
    private static let keptCapacity = 4096
    /// While the server stops: how often the lock is tried again.
    private static let retryInterval: Duration = .milliseconds(1)

    /// - Throws: ``SocketError`` where the process has no free descriptor.
    package init() throws(SocketError) {
        wakeup = try WakeupEvent()
        mailbox = Mailbox(signalling: wakeup)
    }

    /// Sets the host. Once, before ``serve()`` and before a loop runs.
    package func open(_ host: DatabaseHost) {
        host.durableTicket = durableTicket
        self.host = host
    }

    /// Any thread: posts a message for the database thread.
    package func post(_ message: DatabaseMessage) {
        mailbox.post(message)
    }

    /// Any thread: posts messages for the database thread, and leaves an empty array.
    package func post(movingFrom messages: inout [DatabaseMessage]) {
        mailbox.post(movingFrom: &messages)
    }

    /// A loop: processes these messages if nothing waits before them, the lock is free, and none of them may
    /// take long; otherwise the database thread does. Leaves an empty array.
    /// - Parameter queue: The loop's queue of outputs. Its thread is not woken: it must look into the queue
    ///   next.
    package func process(_ messages: inout [DatabaseMessage], onQueue queue: Int) {
        // Where something waits, another thread was woken for it, or looks again when it unlocks.
        guard mailbox.postWithoutSignal(movingFrom: &messages), lock() else { return }
        let isDone = work(onQueue: queue)
        unlock()
        if !isDone || !mailbox.isEmpty { wakeup.signal() }
    }

    /// The journal thread: everything up to this ticket is durable. Releases what waits for it at once if the
    /// lock is free; otherwise the thread that has the lock does, or the database thread.
    package func release(upTo ticket: UInt64) {
        guard lock() else {
            durableTicket.report(ticket)
            return post(.storage(.durable(upTo: ticket)))
        }
        let isDone = host?.release(upTo: ticket) ?? true
        // The database thread may have been woken for it, and have found the lock taken since.
        let hasWork = host?.hasWork ?? false
        unlock()
        if !isDone { return post(.storage(.durable(upTo: ticket))) }
        if hasWork || !mailbox.isEmpty { wakeup.signal() }
    }

    /// The database thread: processes messages until ``stop()``.
    package func serve() {
        while true {
            wakeup.wait()
            // Read before the mailbox: what was posted before the stop is processed.
            let isStopped = isStopped.load(ordering: .acquiring)
            // Once also where the mailbox is empty: a loop may have left something to this thread.
            var turn: Turn
            repeat {
                turn = takeTurn()
                if turn == .lockedOut, isStopped { wakeup.wait(timeout: Self.retryInterval) }
            } while turn == .hasMore || turn == .lockedOut && isStopped
            if isStopped { return }
        }
    }

    /// How a turn of the database thread has ended.
    package enum Turn {
        /// Everything was processed.
        case done
        /// Another turn is needed at once.
        case hasMore
        /// Another thread has the lock, and looks into the mailbox when it releases it.
        case lockedOut
    }

    /// The database thread: processes for a few milliseconds. A simulation, which has no thread, calls it in
    /// place of ``serve()`` when ``wakeup`` was signalled, and again while there is more.
    package func takeTurn() -> Turn {
        guard lock() else { return .lockedOut }
        _ = work(onQueue: nil)
        let hasWork = host?.hasWork ?? false
        unlock()
        return hasWork || !mailbox.isEmpty ? .hasMore : .done
    }

    /// Any thread: how long the turn has taken that holds the databases now, on whichever thread; nil between
    /// two turns. A turn takes milliseconds, and some tenths of a second at the worst: one that takes many
    /// seconds waits for something, the disk for example, or does not end.
    package func unfinishedTurn(at now: MonotonicTime = .now) -> Duration? {
        let began = turnBegan.load(ordering: .relaxed)
        return began == 0 ? nil : now - MonotonicTime(nanoseconds: began)
    }

    /// Any thread: ends ``serve()`` when everything that was posted before is processed.
    package func stop() {
        isStopped.store(true, ordering: .releasing)
        wakeup.signal()
    }

    /// Processes what is in the mailbox. Under the lock.
    /// - Returns: false where something is left to the database thread.
    private func work(onQueue queue: Int?) -> Bool {
        mailbox.drain(into: &batch)
        defer { batch.removeAll(keepingCapacity: batch.capacity <= Self.keptCapacity) }
        guard let host else { return true }
        if queue != nil, !host.isLight(batch) {
            host.enqueue(&batch)
            return false
        }
        host.receive(&batch, onQueue: queue)
        return queue == nil || !host.hasWork
    }

    private func lock() -> Bool {
        guard
            isLocked.compareExchange(expected: false, desired: true, ordering: .acquiringAndReleasing)
                .exchanged
        else { return false }
        turnBegan.store(MonotonicTime.now.nanoseconds, ordering: .relaxed)
        return true
    }

    private func unlock() {
        turnBegan.store(0, ordering: .relaxed)
        isLocked.store(false, ordering: .releasing)
    }
}

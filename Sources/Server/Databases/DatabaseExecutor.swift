import PandoReactor
import Synchronization

/// The way to the database host: a mailbox, and whoever does what is in it. One thread is inside at a time.
///
///     loop ──▶ mailbox ──▶ database thread      bursts, and what may take long or wait
///       └────▶ inside, and out again            a few light requests, when nobody is inside and nothing waits
///     journal thread ──▶ inside, and out again  lets out what has become durable
///
/// Two threads that hand one request to and fro cost more than the request: waking a sleeper is a system call
/// and a few microseconds, and what one core has written the other must fetch. So a loop that holds a few
/// light requests does them itself; under load, when a tick brings hundreds, the database thread works while
/// the loop reads on.
///
/// Nothing is forgotten: whoever leaves looks into the mailbox again, after leaving, and wakes the database
/// thread if something is there. Whoever finds somebody inside has put his messages there before.
///
/// `@unchecked Sendable`: `host` and `batch` are touched only inside, but for ``open(_:)``, before any thread
/// is there.
final class DatabaseExecutor: @unchecked Sendable {
    private let mailbox: Mailbox<DatabaseMessage>
    private let wakeup: WakeupEvent
    /// Somebody is inside.
    private let isTaken = Atomic<Bool>(false)
    private let isStopped = Atomic<Bool>(false)
    private var host: DatabaseHost?
    private var batch: [DatabaseMessage] = []

    /// A burst leaves behind no more spare room than this.
    private static let keptCount = 4096
    /// How often the last look is tried again while somebody is inside.
    private static let retryInterval: Duration = .milliseconds(1)

    init() throws(SocketError) {
        wakeup = try WakeupEvent()
        mailbox = Mailbox(signalling: wakeup)
    }

    /// Whom the messages are for. Once, before ``serve()`` and before a loop runs.
    func open(_ host: DatabaseHost) {
        self.host = host
    }

    /// Any thread: one message for the database thread.
    func post(_ message: DatabaseMessage) {
        mailbox.post(message)
    }

    /// Any thread: messages for the database thread; leaves none.
    func post(movingFrom messages: inout [DatabaseMessage]) {
        mailbox.post(movingFrom: &messages)
    }

    /// A loop: does these messages if nothing waits before them, nobody is inside, and none of them may take
    /// long; else the database thread does. Leaves none.
    /// - Parameter loop: Its number. Outputs for it are in its mailbox without a ring: it looks there next.
    func take(_ messages: inout [DatabaseMessage], onLoop loop: Int) {
        // Where something waits, somebody was rung for, or is about to come in, or looks again when he
        // leaves.
        guard mailbox.postWithoutSignal(movingFrom: &messages), enter() else { return }
        let isDone = work(onLoop: loop)
        leave()
        if !isDone || !mailbox.isEmpty { wakeup.signal() }
    }

    /// The journal thread: everything up to this ticket is durable. Lets it out at once if nobody is inside;
    /// the database thread has nothing to do with it then.
    func release(upTo ticket: UInt64) {
        guard enter() else { return post(.durable(ticket)) }
        let isDone = host?.release(upTo: ticket) ?? true
        // Whoever left it has rung, and the database thread may have come to a closed door since.
        let leavesSomething = host?.leavesSomething ?? false
        leave()
        if !isDone { return post(.durable(ticket)) }
        if leavesSomething || !mailbox.isEmpty { wakeup.signal() }
    }

    /// The database thread: does what there is to do until ``stop()``.
    func serve() {
        while true {
            wakeup.wait()
            // Before the mailbox: what was posted before the stop is done.
            let isStopped = isStopped.load(ordering: .acquiring)
            // Once also where the mailbox is empty: a loop may have left something to this thread.
            var leavesSomething = false
            repeat {
                if enter() {
                    _ = work(onLoop: nil)
                    leavesSomething = host?.leavesSomething ?? false
                    leave()
                } else if isStopped {
                    wakeup.wait(timeout: Self.retryInterval)
                } else {
                    break  // The thread that is inside looks again when it leaves.
                }
            } while leavesSomething || !mailbox.isEmpty
            if isStopped { return }
        }
    }

    /// Any thread. What was posted before is done.
    func stop() {
        isStopped.store(true, ordering: .releasing)
        wakeup.signal()
    }

    /// - Returns: false when something is left to the database thread.
    private func work(onLoop loop: Int?) -> Bool {
        mailbox.drain(into: &batch)
        defer { batch.removeAll(keepingCapacity: batch.capacity <= Self.keptCount) }
        guard let host else { return true }
        if loop != nil, !host.isLight(batch) {
            host.keep(&batch)
            return false
        }
        host.receive(&batch, onLoop: loop)
        return loop == nil || !host.leavesSomething
    }

    private func enter() -> Bool {
        isTaken.compareExchange(expected: false, desired: true, ordering: .acquiringAndReleasing).exchanged
    }

    private func leave() {
        isTaken.store(false, ordering: .releasing)
    }
}

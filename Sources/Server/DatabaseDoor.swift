import PandoReactor
import Synchronization

/// The way to the database host: a mailbox, and whoever does what is in it. One thread is inside at a time.
///
///     loop ──▶ mailbox ──▶ database thread      bursts, and what may take long
///       └────▶ inside, and out again            a few small requests, when nobody is inside
///
/// Two threads that hand one request to and fro cost more than the request: waking a sleeper is a system call and a few
/// microseconds, and what one core has written the other must fetch. So a loop that holds a few small requests does them
/// itself; under load, when a tick brings hundreds, the database thread works while the loop reads on.
///
/// Nothing is forgotten: whoever leaves looks into the mailbox again, after leaving, and wakes the database thread if
/// something is there. Whoever finds somebody inside has put his messages there before.
///
/// `@unchecked Sendable`: `host` and `batch` are touched only inside, but for ``open(_:)``, before any thread is there.
final class DatabaseDoor: @unchecked Sendable {
    private let mailbox: Mailbox<DatabaseMessage>
    private let bell: Bell
    /// Somebody is inside.
    private let isTaken = Atomic<Bool>(false)
    private let isStopped = Atomic<Bool>(false)
    private var host: DatabaseHost?
    private var batch: [DatabaseMessage] = []

    /// A burst leaves behind no more spare room than this.
    private static let keptCount = 4096

    init() throws(SocketError) {
        bell = try Bell()
        mailbox = Mailbox(ringing: bell)
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

    /// A loop: does these messages, and whatever waits before them, if nobody is inside; leaves none.
    /// - Parameter loop: Its number. Outputs for it are in its mailbox without a ring: it looks there next.
    func take(_ messages: inout [DatabaseMessage], onLoop loop: Int) {
        mailbox.post(movingFrom: &messages, rings: false)
        guard enter() else { return }
        work(onLoop: loop)
        leave()
        if !mailbox.isEmpty { bell.ring() }
    }

    /// The journal thread: everything up to this ticket is durable. Lets it out at once if nobody is inside; the database
    /// thread has nothing to do with it then.
    func release(upTo ticket: UInt64) {
        guard enter() else { return post(.durable(ticket)) }
        host?.release(upTo: ticket)
        leave()
        if !mailbox.isEmpty { bell.ring() }
    }

    /// The database thread: does what is in the mailbox until ``stop()``.
    func serve() {
        while true {
            bell.wait()
            // Before the mailbox: what was posted before the stop is done.
            let isStopped = isStopped.load(ordering: .acquiring)
            while !mailbox.isEmpty, enter() {
                work(onLoop: nil)
                leave()
            }
            if isStopped { return }
        }
    }

    /// Any thread. What was posted before is done.
    func stop() {
        isStopped.store(true, ordering: .releasing)
        bell.ring()
    }

    private func work(onLoop loop: Int?) {
        mailbox.drain(into: &batch)
        if batch.isEmpty { return }
        host?.receive(&batch, onLoop: loop)
        batch.removeAll(keepingCapacity: batch.capacity <= Self.keptCount)
    }

    private func enter() -> Bool {
        isTaken.compareExchange(expected: false, desired: true, ordering: .acquiringAndReleasing).exchanged
    }

    private func leave() {
        isTaken.store(false, ordering: .releasing)
    }
}

import PandoTime
import Synchronization

/// A thread that works on messages which other threads post to its queue.
///
///     let worker = try WorkerThread<Job>("pando-bodies", niceness: 10)
///     try worker.start { queue in
///         while let job = queue.next() { … }  // nil once `stop()` was called and the queue is empty
///     }
///     worker.post(job)                        // from any thread
///     worker.stop()                           // waits until the body has returned
///
/// Making and starting are two steps, so that the parts which the body uses can be given ``mailbox`` or
/// ``wakeup``.
///
/// The body must not hold the worker: a worker that is released without ``stop()`` stops the thread itself.
package final class WorkerThread<Message: Sendable>: Sendable {
    /// The queue, for parts that only post. It is closed when the body returns.
    package let mailbox: Mailbox<Message>
    /// Wakes the thread. ``WorkerQueue/receive(into:timeout:)`` returns when it is signalled.
    package let wakeup: WakeupEvent

    private let name: String
    private let stackByteCount: Int
    private let niceness: Int?
    private let isStopping = SharedFlag()
    private let reservation: QueueReservation?
    private let thread = Mutex<NamedThread?>(nil)

    /// Makes the queue. No thread runs before ``start(_:)``.
    /// - Parameters:
    ///   - name: For the debugger and `top -H`; cut to 15 bytes.
    ///   - stackByteCount: Bytes of virtual memory; only pages that are used cost memory. At least 16 KiB.
    ///   - niceness: 1 to 19, for a thread that runs only when others wait (setpriority(2)); nil for the
    ///     priority of the thread that starts it.
    ///   - queueLimit: What ``post(_:reserving:)`` may have reserved at most, in the caller's unit; nil where
    ///     it is not used.
    /// - Throws: EMFILE, ENFILE or ENOMEM: one eventfd, and another with a `queueLimit`.
    package init(
        _ name: String, stackByteCount: Int = 1 << 20, niceness: Int? = nil, queueLimit: Int? = nil
    ) throws(SocketError) {
        self.name = name
        self.stackByteCount = stackByteCount
        self.niceness = niceness
        let wakeup = try WakeupEvent()
        self.wakeup = wakeup
        mailbox = Mailbox(signalling: wakeup)
        if let queueLimit {
            reservation = try QueueReservation(limit: queueLimit)
        } else {
            reservation = nil
        }
    }

    deinit {
        stop()
    }

    /// Starts the thread. Once.
    /// - Parameter body: Runs on the thread. When it returns the queue is closed, and posts give false.
    /// - Throws: EAGAIN at the system's limit of threads, EINVAL for a stack too small.
    package func start(_ body: @escaping @Sendable (WorkerQueue<Message>) -> Void) throws(SocketError) {
        let started = try NamedThread.start(name, stackByteCount: stackByteCount) {
            [mailbox, wakeup, isStopping, reservation, niceness] in
            if let niceness { lowerThreadPriority(to: niceness) }
            body(WorkerQueue(mailbox, wakeup, isStopping: isStopping, reservation: reservation))
            mailbox.close()
            reservation?.close()
        }
        thread.withLock { thread in
            precondition(thread == nil, "the thread \(name) was started twice")
            thread = started
        }
    }

    /// Any thread: puts a message behind the others. Does not wait, and knows no bound.
    /// - Returns: false when the body has returned; the message is dropped.
    @discardableResult
    package func post(_ message: consuming Message) -> Bool {
        mailbox.post(message)
    }

    /// One thread at a time: reserves `amount` of the queue's limit, waits for it if need be, and posts.
    ///
    /// An amount above the limit fits when nothing is reserved. The body gives it back with
    /// ``WorkerQueue/release(_:)``.
    /// - Parameter amount: Positive, in the unit of `queueLimit`. The worker must have one.
    /// - Returns: false when the body has returned, also while this waited; the message is dropped.
    package func post(_ message: consuming Message, reserving amount: Int) -> Bool {
        guard let reservation else { preconditionFailure("the queue of \(name) has no limit") }
        guard reservation.reserve(amount) else { return false }
        return mailbox.post(message)
    }

    /// Any thread: asks the body to end, and does not wait for it. Messages that were posted before are given
    /// to it first; of those that are posted later it may get some.
    package func requestStop() {
        isStopping.set()
        wakeup.signal()
    }

    /// Any thread but the worker's own: asks the body to end, and waits until it has returned. Does nothing
    /// where that was done before, or the thread was never started.
    package func stop() {
        requestStop()
        thread.withLock { $0.take() }?.join()
    }

    /// As ``stop()``, but waits until `deadline` at most. A thread that has not ended by then is left to
    /// itself, and nothing waits for it any more, ``stop()`` and the release of the worker included.
    /// - Returns: Whether the body has returned.
    @discardableResult
    package func stop(until deadline: MonotonicTime) -> Bool {
        requestStop()
        guard let thread = thread.withLock({ $0.take() }) else { return true }
        return thread.join(until: deadline)
    }
}

/// The queue of a ``WorkerThread`` as its body uses it. Confined to the worker's thread.
public final class WorkerQueue<Message: Sendable> {
    @usableFromInline let mailbox: Mailbox<Message>
    @usableFromInline let wakeup: WakeupEvent
    private let stopFlag: SharedFlag
    private let reservation: QueueReservation?
    /// Messages that ``next()`` has taken out of the mailbox, the next one last.
    @usableFromInline var taken: [Message] = []

    fileprivate init(
        _ mailbox: Mailbox<Message>, _ wakeup: WakeupEvent, isStopping: SharedFlag,
        reservation: QueueReservation?
    ) {
        self.mailbox = mailbox
        self.wakeup = wakeup
        self.stopFlag = isStopping
        self.reservation = reservation
    }

    /// Whether the thread was asked to stop. A body that drops the messages in its queue returns at once; one
    /// that does long work asks this between its steps.
    public var isStopping: Bool { stopFlag.isSet }

    /// Waits for the next message.
    /// - Returns: nil when the thread was asked to stop and every message that was posted before has been
    ///   given.
    @inlinable public func next() -> Message? {
        while taken.isEmpty {
            guard receive(into: &taken) else { return nil }
            taken.reverse()
        }
        return taken.popLast()
    }

    /// Waits for messages, a signal of ``WorkerThread/wakeup`` or the timeout. Does not wait while messages
    /// are there. Not to be mixed with ``next()``.
    /// - Parameters:
    ///   - batch: Must be empty. Gets all messages in order; none after a mere signal or the timeout. It
    ///     trades places with the queue, so empty it with `removeAll(keepingCapacity: true)`.
    ///   - timeout: nil waits for ever; `.zero` not at all.
    /// - Returns: false when the thread was asked to stop and every message that was posted before has been
    ///   given.
    @inlinable public func receive(into batch: inout [Message], timeout: Duration? = nil) -> Bool {
        // Cleared before the queue is read: the signals of the messages that are read now do not end the next
        // wait.
        let wasSignalled = wakeup.clear()
        if drain(into: &batch) == .stopped { return false }
        guard batch.isEmpty, !wasSignalled else { return true }
        wakeup.wait(timeout: timeout)
        return drain(into: &batch) == .mayContinue
    }

    /// Sleeps, also while messages arrive, but not longer than until the thread is asked to stop.
    package func pause(for duration: Duration) {
        let deadline = MonotonicTime.now + duration
        while !isStopping {
            let now = MonotonicTime.now
            guard now < deadline else { return }
            // May use up the signal of a message: `receive` looks into the mailbox before it waits.
            wakeup.wait(timeout: deadline - now)
        }
    }

    /// Gives back what ``WorkerThread/post(_:reserving:)`` has reserved for a message.
    package func release(_ amount: Int) {
        reservation?.release(amount)
    }

    @usableFromInline enum Drained { case mayContinue, stopped }

    @inlinable func drain(into batch: inout [Message]) -> Drained {
        // Read before the mailbox: what was posted before the stop is in it now.
        let isStopping = isStopping
        mailbox.drain(into: &batch)
        return isStopping && batch.isEmpty ? .stopped : .mayContinue
    }
}

/// A flag that any thread may set, once and for good.
private final class SharedFlag: Sendable {
    private let value = Atomic<Bool>(false)

    var isSet: Bool { value.load(ordering: .acquiring) }

    func set() { value.store(true, ordering: .releasing) }
}

/// How much of a queue's limit is reserved. One thread reserves, another releases.
private final class QueueReservation: Sendable {
    private let limit: Int
    /// Invariant: not negative, and at most `limit` or the amount of one message. Only one thread adds to it.
    private let reserved = Atomic<Int>(0)
    private let isClosed = SharedFlag()
    /// Signalled after each release, and when nothing will be released any more.
    private let released: WakeupEvent

    init(limit: Int) throws(SocketError) {
        precondition(limit > 0)
        self.limit = limit
        released = try WakeupEvent()
    }

    /// - Returns: false when the queue is closed.
    func reserve(_ amount: Int) -> Bool {
        precondition(amount > 0)
        while !isClosed.isSet {
            let reservedNow = reserved.load(ordering: .acquiring)
            if reservedNow == 0 || amount <= limit - reservedNow {
                reserved.add(amount, ordering: .relaxed)
                return true
            }
            released.wait()
        }
        return false
    }

    func release(_ amount: Int) {
        let left = reserved.subtract(amount, ordering: .releasing).newValue
        precondition(left >= 0, "more was released than reserved")
        released.signal()
    }

    func close() {
        isClosed.set()
        released.signal()
    }
}

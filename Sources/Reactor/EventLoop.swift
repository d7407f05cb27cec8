import COperatingSystem
import PandoBytes
import PandoTime
import Synchronization

/// An event loop on one thread: waits for socket events, messages and timers with epoll(7), and calls their
/// handlers.
///
/// A tick, in this order:
///
///     wait ─▶ socket events ─▶ mailboxes ─▶ timers ─▶ flush written channels ─▶ `channelDidClose` ─▶ free unwatched objects
///
/// Each step has a type: ``Poller``, ``LoopMailboxes``, ``TimerWheel``, ``FlushList``, ``CloseList``.
///
/// - A tick with much to do is bounded in time: events, messages, timers, flushes and closed channels each
///   have ``LoopConfiguration/tickShare``, and what is left waits for the next tick. There the channels
///   that have waited come before those that were served (``Pollable/round``), and channels whose events take
///   long come last (``Pollable/isBulk``).
/// - Channels written to during a tick are flushed once, at its end, with one system call each.
/// - `channelDidClose` is called only at the end of a tick, never from inside a call to the channel.
/// - An object that the kernel may name in this batch of events is not freed before the batch is handled.
///
/// `@unchecked Sendable`: mutable state is used only by the thread inside `run()`, or before `run()` by the
/// one thread that sets the loop up. `stop()`, `submit(_:)`, `wakeup` and mailboxes may be used by any
/// thread.
public final class EventLoop: @unchecked Sendable {
    package typealias Configuration = LoopConfiguration

    package let configuration: Configuration
    package let metrics = LoopMetrics()
    /// Wakes the loop; any thread may signal it.
    public let wakeup: WakeupEvent
    /// When this tick began: when its wait ended. The clock is read once a tick.
    package var now: MonotonicTime { tickTime }
    private var tickTime = MonotonicTime.now
    /// Bytes of memory that unsent output of all channels takes, and what TLS holds of their input;
    /// ``SharedBytes`` are not counted. O(1).
    package var ownedOutputByteCount: Int { buffers.ownedByteCount }
    /// Most bytes of one read of any channel, where the channel's own limit is not lower.
    package var readByteLimit: Int {
        get { buffers.readByteLimit }
        set { buffers.readByteLimit = newValue }
    }
    /// How many descriptors are watched, that of ``wakeup`` not counted.
    package var watchedCount: Int { poller.watchedCount }
    /// Ticks so far, for metrics and tests.
    package private(set) var tickCount: UInt64 = 0

    let poller: Poller
    let buffers: LoopBuffers
    let flushes: FlushList
    let closes: CloseList
    private let mailboxes: LoopMailboxes
    private var timers: TimerWheel<() -> Void>
    private let tasks: Mailbox<@Sendable () -> Void>
    private let stopRequested = Atomic<Bool>(false)
    /// The thread inside `run()`; 0 before and after.
    private let thread = Atomic<UInt64>(0)
    private var hasRun = false

    /// - Throws: EMFILE, ENFILE or ENOMEM.
    package init(_ configuration: Configuration = Configuration()) throws(SocketError) {
        wakeup = try WakeupEvent()
        poller = try Poller(configuration)
        self.configuration = configuration
        buffers = LoopBuffers(configuration)
        flushes = FlushList(configuration)
        closes = CloseList(configuration)
        mailboxes = LoopMailboxes(configuration)
        tasks = Mailbox(signalling: wakeup)
        timers = TimerWheel(tick: configuration.timerTick, now: .now)
        try poller.watch(wakeup)
        attach(tasks) { batch in
            for task in batch { task() }
        }
    }

    /// Called with the time at the end of each tick, when its output was given to the kernel and the next
    /// wait begins. For measurements, which so need no reading of the clock of their own. Set it before
    /// ``run()``.
    package var onTickMeasured: ((MonotonicTime) -> Void)?

    /// Called twice in each tick: after its events, messages and timers, and again after its output was
    /// flushed. For work that is collected over many connections. Set it before ``run()``.
    package var onTickEnd: (() -> Void)?

    // MARK: Running

    /// Runs ticks on the calling thread until ``stop()``. Then channels are closed with `.loopStopped`,
    /// acceptors are closed, timers are removed and mailboxes are closed. May be called once.
    package func run() {
        precondition(!hasRun, "a loop runs once")
        hasRun = true
        thread.store(pando_thread_id(), ordering: .releasing)
        var stopping = false
        while !stopping { stopping = tick() }
        shutDown()
        thread.store(0, ordering: .releasing)
    }

    /// Any thread: ends ``run()``. The current tick is finished, and messages posted before this call are
    /// delivered.
    package func stop() {
        stopRequested.store(true, ordering: .releasing)
        wakeup.signal()
    }

    /// Whether the caller may use what is confined to this loop: it is on the loop's thread, or the loop is
    /// not running.
    package var isCurrent: Bool {
        let thread = thread.load(ordering: .acquiring)
        return thread == 0 || thread == pando_thread_id()
    }

    private func tick() -> Bool {
        let idleTime = configuration.clock()
        if tickCount > 0 { endMeasurement(at: idleTime) }
        let timeout = timeoutMilliseconds(at: idleTime)
        let mayBlock = timeout != 0 && wakeup.prepareToSleep()
        let count = poller.wait(mayBlock ? timeout : 0)
        tickTime = configuration.clock()
        tickCount &+= 1
        flushes.milliseconds = UInt32(truncatingIfNeeded: tickTime.nanoseconds / 1_000_000)
        // Cleared before the events are handled: while they are, a post costs no system call.
        let wasSignalled = wakeup.clear()

        poller.handle(count, since: tickTime)
        let isSignalled = wakeup.clear() || wasSignalled
        // Read after the last `clear()`: otherwise the signal of a `stop()` in between would be lost, and
        // with it the stop. Read before mailboxes are drained, so that what was posted before `stop()` is
        // delivered.
        let stopping = stopRequested.load(ordering: .acquiring)
        if isSignalled || stopping || mailboxes.hasWaitingMessages {
            mailboxes.deliver(toAll: isSignalled, isLast: stopping)
        }
        fireTimers()
        finishTick(isLast: stopping)
        return stopping
    }

    /// The work of a tick is done, and its output was given to the kernel.
    private func endMeasurement(at time: MonotonicTime) {
        // Plain integers: a `Duration` would be divided by 10^9 here.
        let (work, isNegative) = time.nanoseconds.subtractingReportingOverflow(tickTime.nanoseconds)
        metrics.ticks.observe(isNegative ? 0 : work)
        onTickMeasured?(time)
    }

    private func timeoutMilliseconds(at time: MonotonicTime) -> Int32 {
        if !flushes.isEmpty || !closes.isEmpty || poller.hasUnwatched || mailboxes.hasWaitingMessages {
            return 0
        }
        guard let next = timers.nextExpiry else { return -1 }
        return (next - time).wholeMilliseconds
    }

    /// Timers whose turn is in the next tick are still expired then, and so the next wait is none.
    private func fireTimers() {
        timers.advance(to: now)
        var pace = TickPace()
        while let fire = timers.popExpired() {
            fire()
            if pace.isOver(configuration) { return }
        }
    }

    private func finishTick(isLast: Bool) {
        onTickEnd?()
        defer { onTickEnd?() }
        flushes.flush(isLast: isLast)
        closes.notify(isLast: isLast)
        // A deinit may run any code, and close more channels.
        while poller.hasUnwatched {
            poller.releaseUnwatched()
            if isLast { closes.notify(isLast: true) }
        }
    }

    private func shutDown() {
        repeat {
            while let pollable = poller.anyWatched {
                pollable.loopDidStop()
                precondition(
                    !pollable.isWatched, "\(type(of: pollable)) is watched after its loop has stopped")
            }
            finishTick(isLast: true)
            // A handler of `channelDidClose` may have opened something new.
        } while poller.watchedCount > 0
        flushes.removeAll()
        timers.removeAll()
        mailboxes.close()
        finishTick(isLast: true)
    }

    // MARK: Mailboxes

    /// Attaches a mailbox to the loop. Before ``run()`` or on the loop.
    /// - Parameters:
    ///   - sliceCount: Messages that are handled between two looks at the clock, at least one. Where they
    ///     take longer than a tick may, the rest is for the next tick, in its order.
    ///   - handler: Gets the messages of each tick, or slices of them, on the loop. What it leaves in the
    ///     array is dropped.
    /// - Returns: For ``deliver(_:)``.
    @discardableResult
    @inlinable public func attach<Message: Sendable>(
        _ mailbox: Mailbox<Message>, sliceCount: Int = 16,
        handler: @escaping (_ batch: inout [Message]) -> Void
    ) -> MailboxAttachment {
        attach(
            MailboxSlot(mailbox, sliceCount: sliceCount) { batch in
                handler(&batch)
                return false
            })
    }

    /// As ``attach(_:sliceCount:handler:)``, for messages that may each take longer than a tick may.
    /// - Parameter handler: Returns whether it has kept a part of what it was given. Then it is called again,
    ///   with an empty batch, in this tick or the next one, and gets no other messages before.
    @discardableResult
    @inlinable public func attachInParts<Message: Sendable>(
        _ mailbox: Mailbox<Message>, sliceCount: Int = 16,
        handler: @escaping (_ batch: inout [Message]) -> Bool
    ) -> MailboxAttachment {
        attach(MailboxSlot(mailbox, sliceCount: sliceCount, handler: handler))
    }

    @usableFromInline func attach(_ mailbox: MailboxSlot) -> MailboxAttachment {
        assert(isCurrent)
        // For messages that were posted before there was a handler.
        wakeup.signal()
        return mailboxes.attach(mailbox)
    }

    /// Gives the handler of a mailbox what has arrived, without waiting for the next tick: a slice of it, and
    /// the rest then. Not from inside that handler.
    package func deliver(_ mailbox: MailboxAttachment) {
        assert(isCurrent)
        mailboxes.deliver(mailbox)
    }

    /// A new mailbox, attached as by ``attach(_:handler:)``.
    @inlinable public func mailbox<Message: Sendable>(
        of _: Message.Type = Message.self, handler: @escaping (_ batch: inout [Message]) -> Void
    ) -> Mailbox<Message> {
        let mailbox = Mailbox<Message>(signalling: wakeup)
        attach(mailbox, handler: handler)
        return mailbox
    }

    /// Any thread: runs `task` on the loop, in the order of submission. For rare tasks, since each is a
    /// closure: frequent messages have a mailbox of their own.
    /// - Returns: false if the loop has stopped; the task is dropped.
    @discardableResult
    package func submit(_ task: @escaping @Sendable () -> Void) -> Bool {
        tasks.post(task)
    }

    // MARK: Time

    /// Calls `body` once, on the loop, not before `wait` has passed. O(1).
    /// - Parameter wait: Rounded up to `timerTick`.
    /// - Returns: For ``cancel(_:)``.
    @discardableResult
    package func schedule(after wait: Duration, _ body: @escaping () -> Void) -> TimerToken {
        schedule(at: now + wait, body)
    }

    /// Calls `body` once, on the loop, not before `deadline`; in the next tick if that is past. O(1).
    /// - Returns: For ``cancel(_:)``.
    @discardableResult
    package func schedule(at deadline: MonotonicTime, _ body: @escaping () -> Void) -> TimerToken {
        assert(isCurrent)
        return timers.schedule(at: deadline, body)
    }

    /// Cancels a timer. Does nothing when it has fired or was cancelled. O(1).
    package func cancel(_ token: TimerToken) {
        assert(isCurrent)
        timers.cancel(token)
    }
}

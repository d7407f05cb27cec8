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
/// - A tick with much to do is bounded in time: events, messages and flushes each have
///   ``Configuration/tickShare``, and what is left waits for the next tick. There everyone who has waited
///   comes before everyone who was served (``Pollable/round``), and those whose events take long come last
///   (``Pollable/isBulk``).
/// - Channels written to during a tick are flushed once, at its end, with one system call each.
/// - `channelDidClose` is called only at the end of a tick, never from inside a call to the channel.
/// - An object that the kernel may name in this batch of events is not freed before the batch is handled.
///
/// epoll is used level-triggered: a channel reads at most one receive buffer per tick, and if bytes are left
/// in the socket, the next tick reports it again. Edge-triggered epoll would need a second `recv` per event
/// to see EAGAIN, or a list of the sockets with more to read. EPOLLOUT is requested only while a socket is
/// full.
///
/// `@unchecked Sendable`: mutable state is used only by the thread inside `run()`, or before `run()` by the
/// one thread that sets the loop up. `stop()`, `submit(_:)`, `wakeup` and mailboxes may be used by any
/// thread.
@safe
public final class EventLoop: @unchecked Sendable {
    package struct Configuration: Sendable {
        /// Bytes. A channel with more unsent output is disconnected: its peer does not read.
        package var outboundByteLimit = 64 << 20
        /// Bytes. `channelDidDrain` is called when a channel's unsent output falls to this again.
        package var outboundLowWaterByteCount = 64 << 10
        /// Most bytes of one read. All channels of the loop share one such buffer.
        package var receiveBufferByteCount = 512 << 10
        /// Bytes written during one read event that are gathered for one `send`; what does not fit is queued.
        package var corkByteCount = 512 << 10
        /// A channel in `closeAfterFlush()` is disconnected when its peer acknowledges nothing for this long.
        package var closeStallTimeout: Duration = .seconds(5)
        /// A TLS handshake that is not done after this long ends the connection.
        package var handshakeTimeout: Duration = .seconds(30)
        /// Time after which what is left of a tick's events waits for the next tick; the same again for its
        /// messages, and for its flushes. One event, message or flush of each is always handled.
        package var tickShare: Duration = .milliseconds(2)
        /// A channel whose reads take longer is bulk (``Pollable/isBulk``).
        package var longRead: Duration = .microseconds(200)
        /// What is asked for the time while events and messages are handled; tests have a clock of their own.
        package var clock: @Sendable () -> MonotonicTime = { MonotonicTime.now }
        /// Timers are rounded up to a multiple of this.
        package var timerTick: Duration = .milliseconds(8)

        package init() {}
    }

    package let configuration: Configuration
    package let metrics = LoopMetrics()
    /// Wakes the loop; any thread may signal it.
    public let wakeup: WakeupEvent
    /// When this tick began: when its wait ended. The clock is read once a tick.
    package var now: MonotonicTime { tickTime }
    private var tickTime = MonotonicTime.now
    /// Bytes of memory that unsent output of all channels takes, and what TLS holds of their input;
    /// ``SharedBytes`` are not counted. O(1).
    package var ownedOutputByteCount: Int { chunks.copiedByteCount + secureByteCount }
    /// Bytes of memory of TLS for records and handshakes that are not complete, and for records that are not
    /// sent.
    var secureByteCount = 0
    /// Ticks so far, for metrics and tests.
    package private(set) var tickCount: UInt64 = 0

    let poll: Int32
    var chunks = ChunkArena()
    /// Channels read into this. The bytes are valid until the next read.
    let receiveBuffer: UnsafeMutableRawBufferPointer
    let slices: UnsafeMutableBufferPointer<pando_slice>
    /// What was written to `corkedChannel`, in order; it is sent before the channel's queue.
    let corkBuffer: UnsafeMutableRawBufferPointer
    var corkedByteCount = 0
    /// The channel whose read event is being delivered.
    var corkedChannel: Channel?

    /// Allocated for the first connection with TLS.
    private(set) lazy var secureBuffers = SecureBuffers()

    private let events: UnsafeMutableBufferPointer<pando_event>
    /// Indexes in `events` of the bulk channels' events (``Pollable/isBulk``); empty between ticks.
    private var bulkEvents: [Int32] = []
    /// The present rounds (``Pollable/round``): of what sends little, and of bulk channels. A round ends with
    /// the tick that has handled all events.
    private var round: UInt16 = 1
    private var bulkRound: UInt16 = bulkRoundBit
    /// No number is one of both.
    private static let bulkRoundBit: UInt16 = 0x8000
    private var timers: TimerWheel<() -> Void>
    private var mailboxes: [MailboxSlot] = []
    /// A mailbox has messages that are for the next tick.
    private var hasWaitingMessages = false
    private let tasks: Mailbox<@Sendable () -> Void>
    /// Keeps objects alive whose address the kernel has. Each knows its index (``Pollable/slot``).
    private var watched: [Pollable] = []
    /// Not watched any more, but the current batch of events may still name them.
    private var unwatched: [Pollable] = []
    /// Channels to flush at the end of the tick.
    private var written: [Channel] = []
    /// Channels whose delegates get `channelDidClose` at the end of the tick.
    private var closed: [(channel: Channel, reason: ChannelCloseReason)] = []
    private let stopRequested = Atomic<Bool>(false)
    /// The thread inside `run()`; 0 before and after.
    private let thread = Atomic<UInt64>(0)
    private var hasRun = false

    /// - Throws: EMFILE, ENFILE or ENOMEM.
    package init(_ configuration: Configuration = Configuration()) throws(SocketError) {
        precondition(configuration.receiveBufferByteCount > 0 && configuration.corkByteCount > 0)
        let wakeup = try WakeupEvent()
        let poll = try checked(pando_poll_create(), "create an epoll set")
        self.wakeup = wakeup
        self.poll = poll
        self.configuration = configuration
        tasks = Mailbox(signalling: wakeup)
        timers = TimerWheel(tick: configuration.timerTick, now: .now)
        unsafe receiveBuffer = .allocate(byteCount: configuration.receiveBufferByteCount, alignment: 64)
        unsafe corkBuffer = .allocate(byteCount: configuration.corkByteCount, alignment: 64)
        unsafe slices = .allocate(capacity: Int(PANDO_SLICE_LIMIT))
        unsafe slices.initialize(repeating: unsafe pando_slice())
        unsafe events = .allocate(capacity: Int(PANDO_EVENT_LIMIT))
        unsafe events.initialize(repeating: unsafe pando_event())
        // Edge-triggered, so that the eventfd need not be read: each write to it is an edge. Its owner is
        // null: the signal is seen in the state of `wakeup`.
        let result = pando_poll_add(poll, wakeup.descriptor, PANDO_READABLE | PANDO_EDGE, nil)
        guard result == 0 else { throw SocketError(code: -result, attempt: "watch an eventfd") }
        attach(tasks) { batch in
            for task in batch { task() }
        }
    }

    deinit {
        _ = pando_close(poll)
        unsafe receiveBuffer.deallocate()
        unsafe corkBuffer.deallocate()
        unsafe slices.deallocate()
        unsafe events.deallocate()
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
        let count = unsafe pando_poll_wait(
            poll, events.baseAddress, PANDO_EVENT_LIMIT, mayBlock ? timeout : 0)
        precondition(count >= 0, "epoll failed: \(errorText(-count))")
        tickTime = configuration.clock()
        tickCount &+= 1
        // Cleared before the events are handled: while they are, a post costs no system call.
        let wasSignalled = wakeup.clear()

        handleEvents(Int(count))
        let isSignalled = wakeup.clear() || wasSignalled
        // Read after the last `clear()`: otherwise the signal of a `stop()` in between would be lost, and
        // with it the stop. Read before mailboxes are drained, so that what was posted before `stop()` is
        // delivered.
        let stopping = stopRequested.load(ordering: .acquiring)
        if isSignalled || stopping || hasWaitingMessages {
            deliverMessages(toAll: isSignalled, isLast: stopping)
        }
        fireTimers()
        finishTick(isLast: stopping)
        return stopping
    }

    /// Handles what the kernel reported: first what sends little, then bulk channels, until `tickShare` has
    /// passed. The kernel reports the rest again in the next tick, where it comes before what was handled in
    /// this one.
    private func handleEvents(_ count: Int) {
        var pace = Pace(began: tickTime)
        var isComplete = true
        for index in 0..<count {
            // In bounds: the kernel filled `count` events.
            let event = unsafe events[index]
            guard let owner = unsafe event.owner else { continue }
            // Alive: `unwatched` keeps what was closed earlier in this batch, `watched` everything else.
            unsafe Unmanaged<Pollable>.fromOpaque(owner)._withUnsafeGuaranteedRef { pollable in
                guard pollable.isWatched else { return }
                if pollable.isBulk {
                    bulkEvents.append(Int32(index))
                } else if isComplete, pollable.round != round {
                    pollable.round = round
                    unsafe pollable.ready(event.ready)
                    isComplete = !isOver(&pace, wasLong: pollable.isBulk)
                }
            }
        }
        if isComplete { round = (round &+ 1) & ~Self.bulkRoundBit }
        if !bulkEvents.isEmpty { handleBulkEvents(&pace) }
    }

    /// Handles the events of bulk channels: at least one, so that what sends little cannot keep them waiting
    /// for ever.
    private func handleBulkEvents(_ pace: inout Pace) {
        defer { bulkEvents.removeAll(keepingCapacity: true) }
        var handledCount = 0
        // A second time where all have had their turn in this round.
        for _ in 0..<2 where handledCount == 0 {
            for index in bulkEvents {
                // In bounds, and alive: as above.
                let event = unsafe events[Int(index)]
                guard let owner = unsafe event.owner else { continue }
                let isLast = unsafe Unmanaged<Pollable>.fromOpaque(owner)._withUnsafeGuaranteedRef {
                    pollable in
                    guard pollable.isWatched, pollable.round != bulkRound else { return false }
                    pollable.round = bulkRound
                    handledCount += 1
                    unsafe pollable.ready(event.ready)
                    return isOver(&pace, wasLong: true)
                }
                if isLast { return }
            }
            bulkRound = (bulkRound &+ 1) | Self.bulkRoundBit
        }
    }

    /// How long work has taken that comes in pieces. The clock is looked at now and then: not at all where
    /// there is little to do.
    private struct Pace {
        /// nil until the clock was looked at.
        var began: MonotonicTime?
        /// Pieces since the clock was last looked at.
        var count = 0

        /// Short pieces, of some microseconds each, between two looks.
        static let uncheckedLimit = 8
    }

    /// After a piece of work.
    /// - Parameter wasLong: It may have taken long.
    /// - Returns: Whether what follows is for the next tick.
    private func isOver(_ pace: inout Pace, wasLong: Bool = false) -> Bool {
        pace.count += 1
        guard wasLong || pace.count >= Pace.uncheckedLimit else { return false }
        pace.count = 0
        let time = configuration.clock()
        guard let began = pace.began else {
            pace.began = time
            return false
        }
        return time - began > configuration.tickShare
    }

    /// The work of a tick is done, and its output was given to the kernel.
    private func endMeasurement(at time: MonotonicTime) {
        // Plain integers: a `Duration` would be divided by 10^9 here.
        let (work, isNegative) = time.nanoseconds.subtractingReportingOverflow(tickTime.nanoseconds)
        metrics.ticks.observe(isNegative ? 0 : work)
        onTickMeasured?(time)
    }

    private func timeoutMilliseconds(at time: MonotonicTime) -> Int32 {
        if !written.isEmpty || !closed.isEmpty || !unwatched.isEmpty || hasWaitingMessages { return 0 }
        guard let next = timers.nextExpiry else { return -1 }
        return (next - time).wholeMilliseconds
    }

    /// - Parameters:
    ///   - toAll: Otherwise only messages that have waited since the last tick.
    ///   - isLast: There is no next tick: no message may wait for it.
    private func deliverMessages(toAll: Bool, isLast: Bool) {
        hasWaitingMessages = false
        var hasMore = false
        // By index: a handler may attach another mailbox.
        var index = 0
        while index < mailboxes.count {
            if toAll || isLast || mailboxes[index].rest != .nothing, deliver(index, all: isLast) {
                hasMore = true
            }
            index += 1
        }
        guard hasMore else { return }
        let began = configuration.clock()
        while hasMore {
            hasMore = false
            for index in mailboxes.indices where mailboxes[index].rest == .inBatch {
                if deliver(index, all: false) { hasMore = true }
            }
            if configuration.clock() - began > configuration.tickShare { break }
        }
    }

    /// - Parameter all: Otherwise a slice.
    /// - Returns: Whether there are more that were there already.
    private func deliver(_ index: Int, all: Bool) -> Bool {
        let rest = mailboxes[index].deliver(all)
        mailboxes[index].rest = rest
        if rest != .nothing { hasWaitingMessages = true }
        return rest == .inBatch
    }

    /// Timers whose turn is in the next tick are still expired then, and so the next wait is none.
    private func fireTimers() {
        timers.advance(to: now)
        var pace = Pace()
        while let fire = timers.popExpired() {
            fire()
            if isOver(&pace) { return }
        }
    }

    private func finishTick(isLast: Bool) {
        onTickEnd?()
        defer { onTickEnd?() }
        if !written.isEmpty {
            // What is written from now on, for example by `channelDidDrain`, is flushed in the next tick:
            // otherwise a peer that reads fast enough could keep this loop here.
            var batch = exchange(&written, with: [])
            flush(&batch, isLast: isLast)
            // Its capacity is used again.
            if written.isEmpty { written = consume batch }
        }
        notifyClosedChannels()
        // A deinit may run any code, and close more channels.
        while !unwatched.isEmpty {
            _ = exchange(&unwatched, with: [])
            notifyClosedChannels()
        }
    }

    /// Flushes channels, first those with little unsent output, then the others, until `tickShare` has
    /// passed. The rest is flushed first in the next tick.
    private func flush(_ batch: inout [Channel], isLast: Bool) {
        var bulk: [Channel] = []
        var pace = Pace()
        var index = 0
        while index < batch.count {
            let channel = batch[index]
            index += 1
            if channel.outboundByteCount > configuration.outboundLowWaterByteCount {
                bulk.append(channel)
            } else {
                channel.flushAtEndOfTick()
                if isOver(&pace), !isLast { break }
            }
        }
        var bulkCount = 0
        while bulkCount < bulk.count {
            bulk[bulkCount].flushAtEndOfTick()
            bulkCount += 1
            if isOver(&pace, wasLong: true), !isLast { break }
        }
        if index < batch.count || bulkCount < bulk.count {
            written.insert(contentsOf: batch[index...] + bulk[bulkCount...], at: 0)
        }
        batch.removeAll(keepingCapacity: true)
    }

    private func notifyClosedChannels() {
        while !closed.isEmpty {
            for (channel, reason) in exchange(&closed, with: []) { channel.notifyClosed(reason) }
        }
    }

    private func shutDown() {
        repeat {
            while let pollable = watched.last {
                pollable.loopDidStop()
                precondition(
                    !pollable.isWatched, "\(type(of: pollable)) is watched after its loop has stopped")
            }
            finishTick(isLast: true)
            // A handler of `channelDidClose` may have opened something new.
        } while !watched.isEmpty
        written.removeAll()
        timers.removeAll()
        for mailbox in mailboxes { mailbox.close() }
        mailboxes.removeAll()
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
        attach(MailboxSlot(mailbox, sliceCount: sliceCount, handler: handler))
    }

    @usableFromInline func attach(_ mailbox: MailboxSlot) -> MailboxAttachment {
        assert(isCurrent)
        mailboxes.append(mailbox)
        // For messages that were posted before there was a handler.
        wakeup.signal()
        return MailboxAttachment(index: mailboxes.count - 1)
    }

    /// Gives the handler of a mailbox what has arrived, without waiting for the next tick: a slice of it, and
    /// the rest then. Not from inside that handler.
    package func deliver(_ mailbox: MailboxAttachment) {
        assert(isCurrent)
        _ = deliver(mailbox.index, all: false)
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

    // MARK: For channels and other watched objects

    /// How many descriptors are watched, that of `wakeup` not counted.
    package var watchedCount: Int { watched.count }

    func retain(watched pollable: Pollable) {
        pollable.slot = Int32(watched.count)
        watched.append(pollable)
    }

    func release(watched pollable: Pollable) {
        let index = Int(pollable.slot)
        unwatched.append(pollable)
        let last = watched.removeLast()
        if index < watched.count {
            watched[index] = last
            last.slot = Int32(index)
        }
        pollable.slot = -1
    }

    func flushLater(_ channel: Channel) {
        written.append(channel)
    }

    func notifyClosedLater(_ channel: Channel, _ reason: ChannelCloseReason) {
        closed.append((channel, reason))
    }
}

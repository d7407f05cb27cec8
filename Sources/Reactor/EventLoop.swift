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
        /// Time from the beginning of a tick after which channels whose last read was full
        /// (``Pollable/isBulk``) wait for the next tick, so that channels that send little are read first.
        package var bulkTime: Duration = .milliseconds(2)
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
    /// Bytes of memory that unsent output of all channels takes, and what TLS holds of their input; ``SharedBytes``
    /// are not counted. O(1).
    package var ownedOutputByteCount: Int { chunks.copiedByteCount + secureByteCount }
    /// Bytes of memory of TLS for records and handshakes that are not complete, and for records that are not sent.
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
    /// The index in `bulkEvents` at which the next tick begins.
    private var nextBulk = 0
    private var timers: TimerWheel<() -> Void>
    private var mailboxes: [MailboxSlot] = []
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

    /// Called with the time at the end of each tick, when its output was given to the kernel and the next wait begins.
    /// For measurements, which so need no reading of the clock of their own. Set it before ``run()``.
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
        let idleTime = MonotonicTime.now
        if tickCount > 0 { endMeasurement(at: idleTime) }
        let timeout = timeoutMilliseconds(at: idleTime)
        let mayBlock = timeout != 0 && wakeup.prepareToSleep()
        let count = unsafe pando_poll_wait(
            poll, events.baseAddress, PANDO_EVENT_LIMIT, mayBlock ? timeout : 0)
        precondition(count >= 0, "epoll failed: \(errorText(-count))")
        tickTime = .now
        tickCount &+= 1
        // Cleared before the events are handled: while they are, a post costs no system call.
        let wasSignalled = wakeup.clear()

        handleEvents(Int(count))
        let isSignalled = wakeup.clear() || wasSignalled
        // Read after the last `clear()`: otherwise the signal of a `stop()` in between would be lost, and
        // with it the stop. Read before mailboxes are drained, so that what was posted before `stop()` is
        // delivered.
        let stopping = stopRequested.load(ordering: .acquiring)
        if isSignalled || stopping { deliverMessages() }
        timers.advance(to: now)
        while let fire = timers.popExpired() { fire() }
        finishTick()
        return stopping
    }

    /// Handles what the kernel reported: first channels that send little, then bulk channels until `bulkTime`
    /// has passed. The kernel reports the rest again in the next tick, which begins with another bulk
    /// channel.
    private func handleEvents(_ count: Int) {
        for index in 0..<count {
            // In bounds: the kernel filled `count` events.
            let event = unsafe events[index]
            guard let owner = unsafe event.owner else { continue }
            // Alive: `unwatched` keeps what was closed earlier in this batch, `watched` everything else.
            unsafe Unmanaged<Pollable>.fromOpaque(owner)._withUnsafeGuaranteedRef { pollable in
                guard pollable.isWatched else { return }
                if pollable.isBulk {
                    bulkEvents.append(Int32(index))
                } else {
                    unsafe pollable.ready(event.ready)
                }
            }
        }
        guard !bulkEvents.isEmpty else { return }
        let bulkCount = bulkEvents.count
        for turn in 0..<bulkCount {
            let index = Int(bulkEvents[(nextBulk + turn) % bulkCount])
            // In bounds, and alive: as above.
            let event = unsafe events[index]
            if let owner = unsafe event.owner {
                unsafe Unmanaged<Pollable>.fromOpaque(owner)._withUnsafeGuaranteedRef { pollable in
                    if pollable.isWatched { unsafe pollable.ready(event.ready) }
                }
            }
            if turn + 1 < bulkCount, MonotonicTime.now - tickTime > configuration.bulkTime {
                nextBulk = (nextBulk + turn + 1) % bulkCount
                break
            }
        }
        bulkEvents.removeAll(keepingCapacity: true)
    }

    /// The work of a tick is done, and its output was given to the kernel.
    private func endMeasurement(at time: MonotonicTime) {
        // Plain integers: a `Duration` would be divided by 10^9 here.
        let (work, isNegative) = time.nanoseconds.subtractingReportingOverflow(tickTime.nanoseconds)
        metrics.ticks.observe(isNegative ? 0 : work)
        onTickMeasured?(time)
    }

    private func timeoutMilliseconds(at time: MonotonicTime) -> Int32 {
        if !written.isEmpty || !closed.isEmpty || !unwatched.isEmpty { return 0 }
        guard let next = timers.nextExpiry else { return -1 }
        return (next - time).wholeMilliseconds
    }

    private func deliverMessages() {
        // By index: a handler may attach another mailbox.
        var index = 0
        while index < mailboxes.count {
            mailboxes[index].deliver()
            index += 1
        }
    }

    private func finishTick() {
        onTickEnd?()
        defer { onTickEnd?() }
        if !written.isEmpty {
            // What is written from now on, for example by `channelDidDrain`, is flushed in the next tick:
            // otherwise a peer that reads fast enough could keep this loop here.
            var batch = exchange(&written, with: [])
            flush(&batch)
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

    /// Flushes channels: first those with little unsent output, then the others until `bulkTime` has passed.
    /// The rest is flushed first in the next tick.
    private func flush(_ batch: inout [Channel]) {
        var bulk: [Channel] = []
        for channel in batch {
            if channel.outboundByteCount > configuration.outboundLowWaterByteCount {
                bulk.append(channel)
            } else {
                channel.flushAtEndOfTick()
            }
        }
        batch.removeAll(keepingCapacity: true)
        guard !bulk.isEmpty else { return }
        let began = MonotonicTime.now
        for (index, channel) in bulk.enumerated() {
            channel.flushAtEndOfTick()
            if MonotonicTime.now - began > configuration.bulkTime {
                written.insert(contentsOf: bulk[(index + 1)...], at: 0)
                return
            }
        }
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
            finishTick()
            // A handler of `channelDidClose` may have opened something new.
        } while !watched.isEmpty
        written.removeAll()
        timers.removeAll()
        for mailbox in mailboxes { mailbox.close() }
        mailboxes.removeAll()
        finishTick()
    }

    // MARK: Mailboxes

    /// Attaches a mailbox to the loop. Before ``run()`` or on the loop.
    /// - Parameter handler: Gets the messages of each tick, on the loop. What it leaves in the array is
    ///   dropped.
    @inlinable public func attach<Message: Sendable>(
        _ mailbox: Mailbox<Message>, handler: @escaping (_ batch: inout [Message]) -> Void
    ) {
        attach(MailboxSlot(mailbox, handler: handler))
    }

    @usableFromInline func attach(_ mailbox: MailboxSlot) {
        assert(isCurrent)
        mailboxes.append(mailbox)
        // For messages that were posted before there was a handler.
        wakeup.signal()
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

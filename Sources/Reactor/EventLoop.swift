import CSystem
import PandoBytes
import Synchronization

/// One thread's world: it waits for sockets, time and messages, and calls whoever they are for.
///
/// A tick, in this order:
///
///     wait ─▶ socket events ─▶ mailboxes ─▶ timers ─▶ flush the written ─▶ tell the closed ─▶ free the dead
///
/// - Channels written to during a tick are flushed once, at its end, with one system call each.
/// - `channelDidClose` is told only at the end of a tick, never from inside a call that its owner makes.
/// - Nothing that the kernel may still name in this batch of events is freed before the batch is over.
///
/// Level-triggered: a channel reads at most one receive buffer per tick, and what it leaves in the socket is
/// reported again by itself. Edge-triggered epoll would need a second `recv` per event to see EAGAIN, or a
/// list of our own of sockets with more to read. EPOLLOUT is armed only while a socket is full, so levels
/// make no noise.
///
/// `@unchecked Sendable`: everything mutable is touched only by the thread inside `run()`, or before `run()`
/// by the one thread that sets the loop up; `stop()`, `submit(_:)`, `wakeup` and mailboxes are for any thread.
@safe
package final class EventLoop: @unchecked Sendable {
    package struct Configuration: Sendable {
        /// A channel that owes its peer more is disconnected.
        package var outboundByteLimit = 64 << 20
        /// `channelDidDrain` tells when a channel's debt falls to this again.
        package var outboundLowWaterByteCount = 64 << 10
        /// One read takes at most this much; shared by all channels of the loop.
        package var receiveBufferByteCount = 512 << 10
        /// The replies of one read event gather here; what does not fit is queued.
        package var corkByteCount = 512 << 10
        /// A channel in `closeAfterFlush()` is cut when its peer takes nothing for this long.
        package var closeStallTimeout: Duration = .seconds(5)
        /// Time of one tick, from its beginning, after which channels that fill every read wait for the next:
        /// those that send little are then asked first.
        package var bulkTime: Duration = .milliseconds(2)
        /// Timers are rounded up to a multiple of this.
        package var timerTick: Duration = .milliseconds(8)

        package init() {}
    }

    package let configuration: Configuration
    /// Wakes the loop; any thread may ring it.
    package let wakeup: WakeupEvent
    /// When this tick began (its waiting ended). One clock reading a tick.
    package var now: MonotonicTime { tickTime }
    private var tickTime = MonotonicTime.now
    /// Memory that unsent output of all channels keeps, in bytes; what channels share is not counted.
    package var ownedOutputByteCount: Int { chunks.copiedByteCount }
    /// Ticks so far, for metrics and tests.
    package private(set) var tickCount: UInt64 = 0

    let poll: Int32
    var chunks = ChunkArena()
    /// What a channel reads into. Valid until the next read.
    let receiveBuffer: UnsafeMutableRawBufferPointer
    let slices: UnsafeMutableBufferPointer<pando_slice>
    /// Replies of `corkedChannel`, in writing order; they come before everything in its queue.
    let corkBuffer: UnsafeMutableRawBufferPointer
    var corkedByteCount = 0
    /// The channel whose read event is being delivered.
    var corkedChannel: Channel?

    private let events: UnsafeMutableBufferPointer<pando_event>
    /// Of the events at hand, those of channels that send as fast as they can; empty between ticks.
    private var bulkEvents: [Int32] = []
    /// Which of them begins next time.
    private var nextBulk = 0
    private var timers: TimerWheel<() -> Void>
    private var mailboxes: [MailboxSlot] = []
    private let tasks: Mailbox<@Sendable () -> Void>
    /// Keeps what the kernel knows by address alive; a member knows its index.
    private var watched: [Pollable] = []
    /// No longer watched, but the kernel's current batch may still name them.
    private var unwatched: [Pollable] = []
    private var written: [Channel] = []
    private var closed: [(channel: Channel, reason: CloseReason)] = []
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
        // Edge-triggered, so that the eventfd never needs to be read: each write to it is an edge. Its owner
        // is null: the ring itself is seen in the wakeup's state.
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

    /// Called when the events of a tick are handled, and again when its output is flushed: for what gathers
    /// over many connections. Set before ``run()``.
    package var onTickEnd: (() -> Void)?

    // MARK: Running

    /// Runs ticks on the calling thread until `stop()`. Then every channel is closed with `.loopStopped`,
    /// acceptors close, timers are forgotten and mailboxes refuse. Once in a loop's life.
    package func run() {
        precondition(!hasRun, "a loop runs once")
        hasRun = true
        thread.store(pando_thread_id(), ordering: .releasing)
        var stopping = false
        while !stopping { stopping = tick() }
        shutDown()
        thread.store(0, ordering: .releasing)
    }

    /// Any thread. The tick under way is finished, and messages posted before this call are delivered.
    package func stop() {
        stopRequested.store(true, ordering: .releasing)
        wakeup.signal()
    }

    /// Whether the caller may touch what is confined to this loop: it is the loop's thread, or the loop has
    /// none.
    package var isCurrent: Bool {
        let thread = thread.load(ordering: .acquiring)
        return thread == 0 || thread == pando_thread_id()
    }

    private func tick() -> Bool {
        let timeout = timeoutMilliseconds()
        let mayBlock = timeout != 0 && wakeup.prepareToSleep()
        let count = unsafe pando_poll_wait(
            poll, events.baseAddress, PANDO_EVENT_LIMIT, mayBlock ? timeout : 0)
        precondition(count >= 0, "epoll failed: \(errorText(-count))")
        tickTime = .now
        tickCount &+= 1
        // Awake before the events are handled: posts meanwhile cost no system call.
        let wasSignalled = wakeup.clear()

        handleEvents(Int(count))
        let isSignalled = wakeup.clear() || wasSignalled
        // Read after the last ring was taken: otherwise the ring of a `stop()` in between would be lost, and
        // with it the stop. Read before mailboxes are drained, so that what was posted before `stop()` is
        // delivered.
        let stopping = stopRequested.load(ordering: .acquiring)
        if isSignalled || stopping { deliverMail() }
        timers.advance(to: now)
        while let fire = timers.popExpired() { fire() }
        finishTick()
        return stopping
    }

    /// Handles what the kernel reported: first those that bring little, then, for a while, those that send as
    /// fast as they can. What is left of these is reported again, and another one begins.
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

    private func timeoutMilliseconds() -> Int32 {
        if !written.isEmpty || !closed.isEmpty || !unwatched.isEmpty { return 0 }
        guard let next = timers.nextExpiry else { return -1 }
        return (next - .now).wholeMilliseconds
    }

    private func deliverMail() {
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
            // What is written from now on, by `channelDidDrain` for one, belongs to the next tick: a fast
            // reader must not keep us here for ever.
            var batch: [Channel] = []
            swap(&batch, &written)
            flush(&batch)
            if written.isEmpty { swap(&batch, &written) }
        }
        tellClosed()
        // A deinit may run any code, and close more.
        while !unwatched.isEmpty {
            var dead: [Pollable] = []
            swap(&dead, &unwatched)
            dead.removeAll()
            tellClosed()
        }
    }

    /// Sends what the channels owe: those that owe little first, then, for a while, the others. Who is left
    /// is first in the next tick.
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

    private func tellClosed() {
        while !closed.isEmpty {
            var batch: [(channel: Channel, reason: CloseReason)] = []
            swap(&batch, &closed)
            for (channel, reason) in batch { channel.tellClosed(reason) }
        }
    }

    private func shutDown() {
        repeat {
            while let pollable = watched.last {
                pollable.loopDidStop()
                precondition(!pollable.isWatched, "\(type(of: pollable)) outlives its loop")
            }
            finishTick()
            // Whoever was told may have begun something new.
        } while !watched.isEmpty
        written.removeAll()
        timers.removeAll()
        for mailbox in mailboxes { mailbox.close() }
        mailboxes.removeAll()
        finishTick()
    }

    // MARK: Mail

    /// Before `run()` or on the loop: `handler` gets each burst of messages, on the loop. What it leaves in
    /// the array is dropped.
    package func attach<Message: Sendable>(
        _ mailbox: Mailbox<Message>, handler: @escaping (_ batch: inout [Message]) -> Void
    ) {
        assert(isCurrent)
        mailboxes.append(HandledMailbox(mailbox, handler: handler))
        // What was posted before there was a handler.
        wakeup.signal()
    }

    /// A new mailbox of this loop.
    package func mailbox<Message: Sendable>(
        of _: Message.Type = Message.self, handler: @escaping (_ batch: inout [Message]) -> Void
    ) -> Mailbox<Message> {
        let mailbox = Mailbox<Message>(signalling: wakeup)
        attach(mailbox, handler: handler)
        return mailbox
    }

    /// Any thread: runs `task` on the loop, in the order of submission. For rare things; messages of a known
    /// shape deserve a mailbox.
    /// - Returns: false if the loop is over.
    @discardableResult
    package func submit(_ task: @escaping @Sendable () -> Void) -> Bool {
        tasks.post(task)
    }

    // MARK: Time

    /// Calls `body` once, on the loop, not before `wait` is over. O(1).
    @discardableResult
    package func schedule(after wait: Duration, _ body: @escaping () -> Void) -> TimerToken {
        schedule(at: now + wait, body)
    }

    @discardableResult
    package func schedule(at deadline: MonotonicTime, _ body: @escaping () -> Void) -> TimerToken {
        assert(isCurrent)
        return timers.schedule(at: deadline, body)
    }

    /// Harmless when the timer has fired. O(1).
    package func cancel(_ token: TimerToken) {
        assert(isCurrent)
        timers.cancel(token)
    }

    // MARK: For channels and other watched things

    /// How many descriptors are watched, the wakeup not counted.
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

    func tellLater(_ channel: Channel, _ reason: CloseReason) {
        closed.append((channel, reason))
    }
}

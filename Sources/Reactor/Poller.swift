import COperatingSystem
import PandoTime

/// The descriptors that a loop watches, and their events: epoll(7).
///
/// The kernel holds the address of each ``Pollable``, so the object must live as long as the kernel may
/// report an event of it: the poller keeps one reference from ``watch(_:_:)`` until the end of the tick in
/// which ``unwatch(_:)`` was called. An event of the same batch that is handled after that finds the object
/// alive and is ignored.
///
/// epoll is used level-triggered: a channel reads at most one receive buffer per tick, and if bytes are left
/// in the socket, the next tick reports it again. Edge-triggered epoll would need a second `recv` per event
/// to see EAGAIN, or a list of the sockets with more to read. EPOLLOUT is requested only while a socket is
/// full.
///
/// Bulk channels (``Pollable/isBulk``) are in a set of their own, which the main set reports when any of them
/// has an event:
///
///     main set ── acceptors, channels that send little    all events of a tick, while its time lasts
///              └─ bulk set ── busy channels, many new ones then one event at a time, for the time that is left;
///                                                         at least one
///
/// So thousands of busy clients do not stand in the kernel's list before a client that sends little. The
/// kernel puts what it has reported at the end of a set's list: all have their turns.
///
/// Confined to its loop. A class, because handlers of events change what is watched.
@safe
final class Poller {
    let descriptor: Int32
    /// The set of the bulk channels.
    private let bulkDescriptor: Int32
    private let configuration: LoopConfiguration
    private let events: UnsafeMutableBufferPointer<pando_event>
    /// The present round of the main set (``Pollable/round``). It ends with the tick that has handled all
    /// events.
    private var round: UInt16 = 1
    /// The present round of the bulk set: each tick is one.
    private var bulkRound: UInt16 = bulkRoundBit
    /// No number is one of both.
    private static let bulkRoundBit: UInt16 = 0x8000
    /// See ``beginNewInMainSet()``.
    private var newInMainSetCount = 0
    /// Keeps objects alive whose address the kernel has. Each knows its index (``Pollable/slot``).
    private var watched: [Pollable] = []
    /// Not watched any more, but the current batch of events may still name them.
    private var unwatched: [Pollable] = []

    /// - Throws: EMFILE, ENFILE, ENOMEM or ENOSPC.
    init(_ configuration: LoopConfiguration) throws(SocketError) {
        let descriptor = try checked(pando_poll_create(), "create an epoll set")
        let bulkDescriptor: Int32
        do throws(SocketError) {
            bulkDescriptor = try checked(pando_poll_create(), "create an epoll set")
        } catch {
            _ = pando_close(descriptor)
            throw error
        }
        (self.descriptor, self.bulkDescriptor) = (descriptor, bulkDescriptor)
        self.configuration = configuration
        unsafe events = .allocate(capacity: Int(PANDO_EVENT_LIMIT))
        unsafe events.initialize(repeating: unsafe pando_event())
        // Its events carry the address of `events`, which is not the address of any pollable.
        try checked(
            unsafe pando_poll_add(descriptor, bulkDescriptor, PANDO_READABLE, events.baseAddress),
            "watch an epoll set")
    }

    deinit {
        _ = pando_close(bulkDescriptor)
        _ = pando_close(descriptor)
        unsafe events.deallocate()
    }

    // MARK: What is watched

    /// How many descriptors are watched, that of the loop's ``WakeupEvent`` not counted.
    var watchedCount: Int { watched.count }

    /// One of them; nil where there is none.
    var anyWatched: Pollable? { watched.last }

    /// Has the kernel end a wait when the event is signalled.
    /// - Throws: ENOMEM, or ENOSPC at the system's limit of watched descriptors.
    func watch(_ wakeup: WakeupEvent) throws(SocketError) {
        // Edge-triggered, so that the eventfd need not be read: each write to it is an edge. Its owner is
        // null: the signal is seen in the state of `wakeup`.
        try checked(
            pando_poll_add(descriptor, wakeup.descriptor, PANDO_READABLE | PANDO_EDGE, nil),
            "watch an eventfd")
    }

    /// Has the kernel report events of a descriptor.
    /// - Throws: ENOMEM, or ENOSPC at the system's limit of watched descriptors.
    func watch(_ pollable: Pollable, _ interest: UInt32) throws(SocketError) {
        assert(!pollable.isWatched)
        // The address stays valid: `watched` and then `unwatched` keep a reference.
        let owner = unsafe Unmanaged.passUnretained(pollable).toOpaque()
        try checked(
            unsafe pando_poll_add(
                epollDescriptor(isBulk: pollable.isBulk), pollable.descriptor, interest, owner),
            "watch a descriptor")
        pollable.isInBulkSet = pollable.isBulk
        pollable.interest = interest
        pollable.slot = Int32(watched.count)
        watched.append(pollable)
    }

    /// Whether a new channel may be read beside those that send little, before it has sent anything. A few
    /// may: to put a channel into the bulk set and then to move it takes four system calls, a tenth of all
    /// that a connection takes which brings some messages. But thousands that are silent, and then send at
    /// once, must not be read before others.
    /// - Returns: If true, ``endNewInMainSet()`` follows at its first event or its end.
    func beginNewInMainSet() -> Bool {
        guard newInMainSetCount < configuration.newInMainSetLimit else { return false }
        newInMainSetCount += 1
        return true
    }

    func endNewInMainSet() {
        assert(newInMainSetCount > 0)
        newInMainSetCount -= 1
    }

    /// Changes which events are reported. A system call if that is a change.
    func setInterest(_ interest: UInt32, of pollable: Pollable) {
        guard pollable.isWatched, interest != pollable.interest else { return }
        pollable.interest = interest
        if moveIfNeeded(pollable) { return }
        // As in `watch`. Cannot fail: the descriptor is in the set, and changing it allocates nothing.
        let owner = unsafe Unmanaged.passUnretained(pollable).toOpaque()
        let result = unsafe pando_poll_change(
            epollDescriptor(isBulk: pollable.isInBulkSet), pollable.descriptor, interest, owner)
        precondition(result == 0, "epoll does not know a watched descriptor: \(errorText(-result))")
    }

    /// Ends the reports. The object is released at the end of the tick.
    private func unwatch(_ pollable: Pollable) {
        guard pollable.isWatched else { return }
        // Closing would remove it too, but only if no other process has the descriptor. A child process has
        // it between fork and exec; the kernel would then report events with the address of a freed object.
        _ = pando_poll_remove(epollDescriptor(isBulk: pollable.isInBulkSet), pollable.descriptor)
        pollable.interest = 0
        let index = Int(pollable.slot)
        unwatched.append(pollable)
        let last = watched.removeLast()
        if index < watched.count {
            watched[index] = last
            last.slot = Int32(index)
        }
        pollable.slot = -1
    }

    /// Closes a descriptor now; its object lives until the end of the tick.
    func close(_ pollable: Pollable) {
        guard pollable.descriptor >= 0 else { return }
        unwatch(pollable)
        _ = pando_close(pollable.descriptor)
        pollable.descriptor = -1
    }

    /// Stops watching and gives the open descriptor to the caller.
    func surrender(_ pollable: Pollable) -> Int32 {
        unwatch(pollable)
        defer { pollable.descriptor = -1 }
        return pollable.descriptor
    }

    /// Objects are to be released at the end of the tick.
    var hasUnwatched: Bool { !unwatched.isEmpty }

    /// Releases objects that are not watched any more. No event of this tick names them. A deinit may run any
    /// code, and have more of them.
    func releaseUnwatched() { _ = exchange(&unwatched, with: []) }

    // MARK: Events

    /// Waits for events.
    /// - Parameter timeout: Milliseconds; 0 does not wait, -1 waits for ever.
    /// - Returns: How many there are, for ``handle(_:since:)``.
    func wait(_ timeout: Int32) -> Int {
        let count = unsafe pando_poll_wait(descriptor, events.baseAddress, PANDO_EVENT_LIMIT, timeout)
        precondition(count >= 0, "epoll failed: \(errorText(-count))")
        return Int(count)
    }

    /// Handles what the kernel reported: first what sends little, then bulk channels, until `tickShare` has
    /// passed. The kernel reports the rest again in the next tick, where it comes before what was handled in
    /// this one.
    /// - Parameter began: When the wait for them ended.
    func handle(_ count: Int, since began: MonotonicTime) {
        var pace = TickPace(began: began)
        bulkRound = (bulkRound &+ 1) | Self.bulkRoundBit
        var (isComplete, hasBulkEvents) = (true, false)
        for index in 0..<count {
            // In bounds: the kernel filled `count` events.
            let event = unsafe events[index]
            guard let owner = unsafe event.owner else { continue }
            if unsafe owner == UnsafeMutableRawPointer(events.baseAddress) {
                hasBulkEvents = true
                continue
            }
            // Alive: `unwatched` keeps what was closed earlier in this batch, `watched` everything else.
            unsafe Unmanaged<Pollable>.fromOpaque(owner)._withUnsafeGuaranteedRef { pollable in
                guard isComplete, pollable.isWatched, pollable.round != round else { return }
                pollable.round = round
                unsafe pollable.ready(event.ready)
                moveIfNeeded(pollable)
                isComplete = !pace.isOver(configuration, wasLong: pollable.isBulk || pollable.wasLong)
            }
        }
        if isComplete { round = (round &+ 1) & ~Self.bulkRoundBit }
        if hasBulkEvents { handleBulkEvents(&pace) }
    }

    /// Handles events of bulk channels, each channel once: at least one, so that what sends little cannot
    /// keep them waiting for ever. They are fetched one at a time: the kernel moves what it has reported to
    /// the end of its list, handled or not.
    private func handleBulkEvents(_ pace: inout TickPace) {
        var isOver = false
        while !isOver {
            // In bounds: there is space for many.
            let count = unsafe pando_poll_wait(bulkDescriptor, events.baseAddress, 1, 0)
            precondition(count >= 0, "epoll failed: \(errorText(-count))")
            guard count > 0 else { return }
            let event = unsafe events[0]
            guard let owner = unsafe event.owner else { return }
            // Alive: what is closed leaves the set at once.
            unsafe Unmanaged<Pollable>.fromOpaque(owner)._withUnsafeGuaranteedRef { pollable in
                // All others that are ready have been served.
                guard pollable.round != bulkRound else { return isOver = true }
                pollable.round = bulkRound
                unsafe pollable.ready(event.ready)
                moveIfNeeded(pollable)
                isOver = pace.isOver(configuration, wasLong: true)
            }
        }
    }

    private func epollDescriptor(isBulk: Bool) -> Int32 { isBulk ? bulkDescriptor : descriptor }

    /// If a channel has become bulk, or is not bulk any more: moves it to the other set, with its present
    /// interest. Two system calls, then.
    /// - Returns: Whether it was moved.
    @discardableResult
    private func moveIfNeeded(_ pollable: Pollable) -> Bool {
        guard pollable.isBulk != pollable.isInBulkSet, pollable.isWatched else { return false }
        // As in `watch`. Where memory is short it stays where it is, and the next event tries again.
        let owner = unsafe Unmanaged.passUnretained(pollable).toOpaque()
        guard
            unsafe pando_poll_add(
                epollDescriptor(isBulk: pollable.isBulk), pollable.descriptor, pollable.interest, owner) == 0
        else { return false }
        _ = pando_poll_remove(epollDescriptor(isBulk: pollable.isInBulkSet), pollable.descriptor)
        pollable.isInBulkSet = pollable.isBulk
        // It was read in this tick, or is read from the next one on.
        if pollable.isBulk { pollable.round = bulkRound }
        return true
    }
}

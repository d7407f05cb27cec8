import CSystem
import PandoBytes

/// A connected TCP socket that belongs to a loop. Confined to the loop's thread.
///
///               ┌────── closeAfterFlush() ──────┐
///     open ─────┤                               ▼                    all sent
///       │       └────── (nothing owed) ────▶ flushing ─────────────────────────▶ lingering
///       │                                       │   FIN goes out; input is dropped until the peer's FIN
///       └── close(), error, limit, … ──▶ closed ◀───────────────────────────────────┘
///
/// Lingering is needed because closing a socket with unread input sends RST, and a RST may overtake the last
/// reply.
///
/// An idle channel costs its object (about 100 bytes) and a slot in the loop.
package final class Channel: Pollable {
    private enum Phase { case open, flushing, lingering, closed }

    /// Told what happens; may be replaced at any time, also from inside its own `received`.
    package var delegate: (any ChannelDelegate)? {
        get { listener }
        set { listener = newValue }
    }
    /// Above this the channel is disconnected.
    package let outboundByteLimit: Int
    /// Bytes written and not yet taken by the kernel. O(1).
    package var outboundByteCount: Int { unsentByteCount }
    // Stored apart from what other rooms may see: then the compiler sees every access, and that nothing
    // happens meanwhile.
    private var listener: (any ChannelDelegate)?
    private var unsentByteCount = 0
    /// All that was written so far.
    package private(set) var writtenByteCount = 0
    /// Bytes that one `received` gets at most; never more than the loop's receive buffer has room for. What
    /// is left stays in the socket, and the loop's other channels have their turn first.
    package var readByteLimit = Int.max

    private var queue = OutboundQueue()
    private var phase = Phase.open
    private var isReadingPaused = false
    /// The peer's FIN was read.
    private var hasEnded = false
    /// The socket is full; EPOLLOUT will tell. Meanwhile nothing is tried.
    private var isBlocked = false
    private var isInFlushList = false
    private var isAboveLowWater = false
    /// It was accepted in the administrators' reserve (``ConnectionLimiter``).
    package private(set) var isReserved = false
    private var limiter: ConnectionLimiter?

    private init(connected descriptor: Int32, loop: EventLoop) {
        outboundByteLimit = loop.configuration.outboundByteLimit
        super.init(descriptor: descriptor, loop: loop)
        // Until its first read says otherwise: a thousand that come at once, and send at once, come after
        // those who are there.
        isBulk = true
    }

    /// Makes a channel of a connected non-blocking socket and begins to read. Loop only.
    /// - Parameter makeDelegate: Gets the channel, which may already be written to.
    /// - Throws: When the kernel cannot watch one more descriptor; the socket is closed then.
    @discardableResult
    package static func adopt(
        _ socket: ConnectedSocket, on loop: EventLoop, makeDelegate: (Channel) -> any ChannelDelegate
    ) throws(SocketError) -> Channel {
        assert(loop.isCurrent)
        let channel = Channel(connected: socket.take(), loop: loop)
        channel.limiter = socket.limiter
        channel.isReserved = socket.isReserved
        do throws(SocketError) {
            try channel.watch(PANDO_READABLE)
        } catch {
            channel.closeAndCount()
            throw error
        }
        channel.delegate = makeDelegate(channel)
        return channel
    }

    /// nil once the connection is gone.
    package var peerAddress: SocketAddress? {
        var address = pando_address()
        return unsafe pando_peer_address(descriptor, &address) > 0 ? SocketAddress(raw: address) : nil
    }

    /// Memory that unsent output keeps for this channel alone, in bytes; what it shares with others is not
    /// counted. O(chunks).
    package var ownedOutputByteCount: Int { loop.chunks.copiedByteCount(of: queue) }

    /// Whether what is written will be sent: neither closed nor about to be.
    package var isOpen: Bool { phase == .open }

    /// Whether the descriptor is closed; `channelDidClose` follows, or was called.
    package var isClosed: Bool { phase == .closed }

    /// ``takenByteCount`` is to tell the truth also when the connection is gone.
    package var remembersTakenBytes = false
    /// What the peer had acknowledged in the end, where that is remembered.
    private var takenAtEnd: Int?

    /// Bytes that the peer has acknowledged: what was written less what waits here or in the kernel; once the
    /// connection is gone, all, or what is remembered. One system call.
    package var takenByteCount: Int {
        guard phase != .closed else { return takenAtEnd ?? writtenByteCount }
        return writtenByteCount - unsentByteCount - max(0, Int(pando_unacknowledged(descriptor)))
    }

    // MARK: Writing

    /// Sends a copy of `bytes`. Ignored unless the channel is open.
    ///
    /// Inside this channel's `received` they go to the loop's cork buffer, otherwise to the channel's queue,
    /// which the loop flushes at the end of the tick. No system call is made here.
    package func write(_ bytes: RawSpan) {
        assert(loop.isCurrent)
        guard makeRoom(for: bytes.byteCount) else { return }
        unsafe bytes.withUnsafeBytes { source in
            guard let start = source.baseAddress, source.count > 0 else { return }
            if loop.corkedChannel === self, queue.isEmpty,
                unsafe source.count <= loop.corkBuffer.count - loop.corkedByteCount,
                let cork = unsafe loop.corkBuffer.baseAddress
            {
                // Room was just checked; the cork buffer is never lent out, so the two do not overlap.
                unsafe (cork + loop.corkedByteCount).copyMemory(from: start, byteCount: source.count)
                loop.corkedByteCount += source.count
            } else {
                queue = unsafe loop.chunks.append(source, to: queue)
                flushLater()
            }
        }
        didQueue(bytes.byteCount)
    }

    /// Sends `bytes` without copying them. Ignored unless the channel is open. Order is that of the calls,
    /// whatever the kind.
    package func write(_ bytes: SharedBytes) {
        assert(loop.isCurrent)
        guard bytes.count > 0, makeRoom(for: bytes.count) else { return }
        // Corked bytes were written earlier and go first: see `flush`.
        queue = loop.chunks.append(bytes, to: queue)
        flushLater()
        didQueue(bytes.count)
    }

    /// False when nothing may be written. Disconnects a peer that owes us too much reading.
    private func makeRoom(for byteCount: Int) -> Bool {
        guard phase == .open else { return false }
        if byteCount <= outboundByteLimit - unsentByteCount { return true }
        // A busy tick alone is no crime: let the kernel take what it can first.
        if unsentByteCount > 0, !isBlocked {
            flush()
            guard phase == .open else { return false }
            if byteCount <= outboundByteLimit - unsentByteCount { return true }
        }
        // RST: what the kernel still holds for this peer is memory too.
        _ = pando_linger_zero(descriptor)
        finish(.outboundLimitExceeded)
        return false
    }

    private func didQueue(_ byteCount: Int) {
        unsentByteCount += byteCount
        writtenByteCount += byteCount
        if unsentByteCount > loop.configuration.outboundLowWaterByteCount { isAboveLowWater = true }
    }

    private func flushLater() {
        guard !isInFlushList, !isBlocked else { return }
        isInFlushList = true
        loop.flushLater(self)
    }

    func flushAtEndOfTick() {
        isInFlushList = false
        guard phase != .closed else { return }
        flush()
        tellDrained()
    }

    /// Hands the kernel what it takes: corked bytes first, then the queue. One system call, unless the queue
    /// has more chunks than one call takes.
    private func flush() {
        // Enough for 4096 chunks; more must wait for the next tick, for the others' sake.
        var rounds = 4
        while unsentByteCount > 0 {
            let isCorked = loop.corkedChannel === self && loop.corkedByteCount > 0
            let corkedByteCount = isCorked ? loop.corkedByteCount : 0
            if isCorked {
                unsafe loop.slices[0] = pando_slice(
                    base: UnsafeRawPointer(loop.corkBuffer.baseAddress), count: corkedByteCount)
            }
            let used = isCorked ? 1 : 0
            let (sliceCount, queuedByteCount) = unsafe loop.chunks.gather(
                queue, into: loop.slices, from: used)
            let offered = corkedByteCount + queuedByteCount
            // The slices point into the cork buffer and into chunks that the queue holds: nothing changes
            // them here.
            let taken =
                unsafe used + sliceCount == 1
                ? pando_send(descriptor, loop.slices[0].base, loop.slices[0].count)
                : pando_send_slices(descriptor, loop.slices.baseAddress, Int32(used + sliceCount))
            if taken < 0, taken != -Int64(PANDO_EAGAIN) {
                fail(Int32(truncatingIfNeeded: -taken))
                return
            }
            consume(max(0, Int(taken)), corkedByteCount: corkedByteCount)
            rounds -= 1
            if max(0, Int(taken)) < offered || (rounds == 0 && unsentByteCount > 0) {
                isBlocked = true
                break
            }
        }
        if unsentByteCount == 0 { isBlocked = false }
        updateInterest()
        if phase == .flushing, unsentByteCount == 0 { linger() }
    }

    /// Not part of `flush`, which also runs inside calls that the delegate makes.
    private func tellDrained() {
        guard isAboveLowWater, unsentByteCount <= loop.configuration.outboundLowWaterByteCount else {
            return
        }
        isAboveLowWater = false
        if phase == .open { listener?.channelDidDrain(self) }
    }

    /// Forgets `byteCount` sent bytes. What is left of the cork moves to the front of the queue.
    private func consume(_ byteCount: Int, corkedByteCount: Int) {
        unsentByteCount -= byteCount
        let fromCork = min(byteCount, corkedByteCount)
        queue = loop.chunks.consume(byteCount - fromCork, from: queue)
        guard corkedByteCount > 0 else { return }
        if fromCork < corkedByteCount {
            // In bounds: fromCork < corkedByteCount <= the buffer's size.
            let rest = unsafe UnsafeRawBufferPointer(rebasing: loop.corkBuffer[fromCork..<corkedByteCount])
            queue = unsafe loop.chunks.prepend(rest, to: queue)
        }
        loop.corkedByteCount = 0
    }

    // MARK: Reading

    /// Stops `received` after the current call; the peer then feels our full window. Calls do
    /// not nest: one resume ends it.
    package func pauseReading() {
        assert(loop.isCurrent)
        isReadingPaused = true
        updateInterest()
    }

    package func resumeReading() {
        assert(loop.isCurrent)
        isReadingPaused = false
        updateInterest()
    }

    /// Whether the kernel holds bytes that the next read event brings. One system call.
    package var hasUnreadInput: Bool { phase == .open && !hasEnded && pando_has_input(descriptor) != 0 }

    package var isReading: Bool { phase == .open && !isReadingPaused && !hasEnded }

    private func updateInterest() {
        // After `closeAfterFlush()` input is read and dropped, paused or not: a peer that is itself blocked
        // on writing would never come to read.
        let reads = !hasEnded && (!isReadingPaused || phase != .open)
        setInterest((reads ? PANDO_READABLE : 0) | (isBlocked ? PANDO_WRITABLE : 0))
    }

    override func ready(_ events: UInt32) {
        if events & PANDO_WRITABLE != 0 {
            isBlocked = false
            flushLater()
        }
        if interest & PANDO_READABLE != 0 {
            if events & (PANDO_READABLE | PANDO_FAILED | PANDO_HUNG_UP) != 0 { read() }
        } else if events & (PANDO_FAILED | PANDO_HUNG_UP) != 0 {
            // These two cannot be switched off, and would be reported for ever.
            let error = pando_socket_error(descriptor)
            fail(error == 0 ? PANDO_ECONNRESET : error)
        }
    }

    /// One `recv` per event bounds what one channel may take of a tick: the receive buffer.
    private func read() {
        let byteLimit = unsafe min(loop.receiveBuffer.count, readByteLimit)
        let count = unsafe pando_receive(descriptor, loop.receiveBuffer.baseAddress, byteLimit)
        isBulk = count >= byteLimit
        if count > 0 {
            if phase == .open { deliver(Int(count)) }
        } else if count == 0 {
            hasEnded = true
            if phase == .lingering {
                finish(.requested)
            } else {
                updateInterest()
                if phase == .open { listener?.channelDidEnd(self) }
            }
        } else if count != -Int64(PANDO_EAGAIN) {
            fail(Int32(truncatingIfNeeded: -count))
        }
    }

    private func deliver(_ byteCount: Int) {
        loop.corkedChannel = self
        loop.corkedByteCount = 0
        // In bounds: recv filled `byteCount` bytes of it. The delegate cannot keep the span.
        let window = unsafe UnsafeMutableRawBufferPointer(rebasing: loop.receiveBuffer[0..<byteCount])
        var bytes = unsafe window.mutableBytes
        listener?.received(&bytes, on: self)
        // A closed channel's corked bytes are dropped with the rest of its output.
        if phase != .closed, loop.corkedByteCount > 0 { flush() }
        loop.corkedChannel = nil
        loop.corkedByteCount = 0
        tellDrained()
    }

    // MARK: Moving

    /// Detaches the socket, so that another loop can adopt it. The delegate gets no further call, and what is
    /// written is ignored. Also from inside `received`: what of its bytes is still to be looked at, the
    /// caller takes along.
    /// - Returns: The socket, and what was written and not sent yet, which goes first on the other loop; nil
    ///   where the connection is no longer open.
    package func detach() -> (socket: ConnectedSocket, unsent: [UInt8])? {
        assert(loop.isCurrent)
        guard phase == .open, let peer = peerAddress else { return nil }
        flush()
        guard phase == .open else { return nil }
        let unsent = loop.chunks.bytes(of: queue)
        queue = loop.chunks.removeAll(of: queue)
        unsentByteCount = 0
        phase = .closed
        listener = nil
        let socket = ConnectedSocket(
            movingDescriptor: surrenderDescriptor(), peer: peer, limiter: limiter, isReserved: isReserved)
        limiter = nil
        return (socket, unsent)
    }

    // MARK: Closing

    /// Closes now; unsent output is dropped. `channelDidClose` follows at the end of the tick.
    package func close() {
        assert(loop.isCurrent)
        finish(.requested)
    }

    /// Closes now with RST: the peer learns that it was not a regular end.
    package func reset() {
        assert(loop.isCurrent)
        guard phase != .closed else { return }
        _ = pando_linger_zero(descriptor)
        finish(.requested)
    }

    /// Sends what was written, then closes. Nothing more is received, and writes are ignored. A peer that
    /// takes nothing for `closeStallTimeout` is cut off.
    package func closeAfterFlush() {
        assert(loop.isCurrent)
        guard phase == .open else { return }
        phase = .flushing
        updateInterest()
        if unsentByteCount == 0 { linger() }
        if phase != .closed { watchForStall(taken: takenByteCount, wasSent: unsentByteCount == 0) }
    }

    /// Everything is sent.
    private func linger() {
        // The peer has said its last word, and we have read it: nothing is left that a close could turn into
        // RST.
        if hasEnded {
            finish(.requested)
            return
        }
        phase = .lingering
        if pando_shutdown_write(descriptor) < 0 { finish(.reset) }
    }

    /// - Parameters:
    ///   - taken: What the peer's machine had acknowledged when it was last looked at.
    ///   - wasSent: The kernel had all of it by then.
    private func watchForStall(taken: Int, wasSent: Bool) {
        // Holds the channel, but not for longer than one period after it closed.
        loop.schedule(after: loop.configuration.closeStallTimeout) { [self] in
            guard phase == .flushing || phase == .lingering else { return }
            let takenNow = takenByteCount
            guard takenNow <= taken else {
                return watchForStall(taken: takenNow, wasSent: unsentByteCount == 0)
            }
            switch phase {
            case .open, .closed: break
            // Everything was sent a period ago, and the peer neither takes what the kernel holds nor closes.
            case .lingering where wasSent: finish(.requested)
            case .lingering: watchForStall(taken: takenNow, wasSent: true)
            case .flushing:
                _ = pando_linger_zero(descriptor)
                finish(.stalled)
            }
        }
    }

    private func fail(_ code: Int32) {
        finish(code == PANDO_ECONNRESET || code == PANDO_EPIPE ? .reset : .failed(code))
    }

    private func finish(_ reason: CloseReason) {
        guard phase != .closed else { return }
        if remembersTakenBytes { takenAtEnd = takenByteCount }
        phase = .closed
        queue = loop.chunks.removeAll(of: queue)
        unsentByteCount = 0
        if loop.corkedChannel === self { loop.corkedByteCount = 0 }
        closeAndCount()
        loop.tellLater(self, reason)
    }

    private func closeAndCount() {
        closeDescriptor()
        limiter?.didClose(isReserved: isReserved)
        limiter = nil
    }

    func tellClosed(_ reason: CloseReason) {
        // The delegate commonly holds the channel: this ends the cycle.
        let last = listener
        listener = nil
        last?.channelDidClose(self, reason: reason)
    }

    override func loopDidStop() {
        finish(.loopStopped)
    }
}

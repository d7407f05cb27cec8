import COperatingSystem
import PandoBytes
import PandoTLS
import PandoTime

/// A connected TCP socket that belongs to a loop. Confined to the loop's thread.
///
///               ┌────── closeAfterFlush() ──────┐
///     open ─────┤                               ▼                    all sent
///       │       └──── (nothing unsent) ────▶ flushing ─────────────────────────▶ lingering
///       │                                       │   FIN goes out; input is dropped until the peer's FIN
///       └── close(), error, limit, … ──▶ closed ◀───────────────────────────────────┘
///
/// Lingering is needed because closing a socket with unread input sends RST, and the peer may drop the last
/// reply when it gets the RST.
///
/// An idle channel costs its object (about 100 bytes) and a slot in the loop.
package final class Channel: Pollable {
    private enum Phase { case open, flushing, lingering, closed }

    /// Gets the channel's events. May be replaced at any time, also from inside its own `received`.
    package var delegate: (any ChannelDelegate)? {
        get { currentDelegate }
        set { currentDelegate = newValue }
    }
    /// Most bytes that may wait to be sent; above this the channel is disconnected.
    package let outboundByteLimit: Int
    /// Bytes that were written to the channel and that the kernel has not accepted yet. O(1).
    package var outboundByteCount: Int { unsentByteCount }
    // Private storage behind the two package properties: the compiler then sees every access in this file,
    // and leaves out dynamic checks and accessor calls.
    private var currentDelegate: (any ChannelDelegate)?
    private var unsentByteCount = 0
    /// Bytes written so far, in all.
    package private(set) var writtenByteCount = 0
    /// Most bytes that one `received` gets; never more than the loop's receive buffer holds. The rest stays
    /// in the socket until the loop's other channels were read. With TLS, the end of a record that was read
    /// in part may come on top: less than 16 KiB.
    package var readByteLimit = Int.max

    private var queue = OutboundQueue()
    private var phase = Phase.open
    private var isReadingPaused = false
    /// The peer's FIN was received.
    private var hasEnded = false
    /// The kernel accepts no more bytes. Nothing is sent until EPOLLOUT is reported.
    private var isBlocked = false
    private var isInFlushList = false
    private var isAboveLowWater = false
    /// Reads for which the channel stays bulk, because one before them took long.
    private var bulkReadCount: UInt8 = 0
    /// Whether it was accepted in the administrators' reserve (``ConnectionLimiter``).
    package private(set) var isReserved = false
    private var limiter: ConnectionLimiter?
    /// Encrypts and decrypts; nil without TLS.
    private var secure: SecureStage?
    /// What the proxy says of its client; nil where the peer is no trusted proxy.
    private var proxy: ProxyStage?

    /// Counts the connection of its address until it is closed; nil where that is not limited.
    package var grant: AddressLimiter.Grant?

    private init(connected descriptor: Int32, loop: EventLoop) {
        outboundByteLimit = loop.configuration.outboundByteLimit
        super.init(descriptor: descriptor, loop: loop)
        // Until its first read: of a thousand connections that open and send at once, none is read before the
        // connections that were open already.
        isBulk = true
    }

    /// Makes a channel of a connected non-blocking socket and begins to read. Loop only.
    /// - Parameters:
    ///   - socket: Of an acceptor or of ``detach()``; not adopted before.
    ///   - tls: The connection's TLS; nil for none, or where it came with the socket.
    ///   - readsProxyHeader: The peer is a trusted proxy, and may begin with a ``ProxyHeader``.
    ///   - makeDelegate: Gets the channel, which may already be written to.
    /// - Returns: The channel, which the loop keeps until it is closed.
    /// - Throws: ENOMEM, or ENOSPC at the system's limit of watched descriptors; the socket is closed then.
    @discardableResult
    package static func adopt(
        _ socket: ConnectedSocket, on loop: EventLoop, tls: TLSConnection? = nil,
        readsProxyHeader: Bool = false, makeDelegate: (Channel) -> any ChannelDelegate
    ) throws(SocketError) -> Channel {
        assert(loop.isCurrent)
        let channel = Channel(connected: socket.takeDescriptor(), loop: loop)
        channel.limiter = socket.limiter
        channel.isReserved = socket.isReserved
        channel.grant = socket.grant
        channel.secure = socket.secure ?? tls.map { SecureStage($0) }
        channel.proxy = socket.proxy ?? (readsProxyHeader ? ProxyStage() : nil)
        do throws(SocketError) {
            try channel.watch(PANDO_READABLE)
        } catch {
            channel.closeAndCount()
            throw error
        }
        loop.metrics.adopted.add()
        if let secure = channel.secure { channel.begin(secure) }
        channel.delegate = makeDelegate(channel)
        return channel
    }

    /// What the TLS handshake has agreed on; nil without TLS, and before the handshake is done.
    package var tlsFacts: TLSFacts? { secure?.facts }

    /// The address of the client, by its proxy's header where that is trusted; nil once the connection is
    /// closed. One system call.
    package var peerAddress: SocketAddress? { proxy?.source ?? socketAddress }

    private var socketAddress: SocketAddress? {
        var address = pando_address()
        return unsafe pando_peer_address(descriptor, &address) > 0
            ? SocketAddress(raw: address).withoutMapping : nil
    }

    /// Bytes of memory that unsent output takes for this channel alone, and what TLS holds of its input;
    /// ``SharedBytes`` are not counted. O(chunks).
    package var ownedOutputByteCount: Int {
        loop.chunks.copiedByteCount(of: queue) + (secure?.heldByteCount ?? 0)
    }

    /// Whether bytes that are written will be sent: the channel is neither closed nor closing.
    package var isOpen: Bool { phase == .open }

    /// Whether the descriptor is closed. `channelDidClose` was called, or is called at the end of the tick.
    package var isClosed: Bool { phase == .closed }

    /// Set it where ``acknowledgedByteCount`` is needed after the connection is closed: the count is then
    /// stored when it closes, which costs a system call.
    package var remembersAcknowledgedBytes = false
    /// ``acknowledgedByteCount`` when the channel closed, if ``remembersAcknowledgedBytes``.
    private var acknowledgedAtClose: Int?

    /// Bytes that the peer's system has acknowledged (TCP): those written, less those that wait here or in
    /// the kernel. Once the connection is closed: the count of that moment if ``remembersAcknowledgedBytes``,
    /// else all bytes. One system call.
    package var acknowledgedByteCount: Int {
        guard phase != .closed else { return acknowledgedAtClose ?? writtenByteCount }
        let accepted = writtenByteCount - unsentByteCount
        let unacknowledged = max(0, Int(pando_unacknowledged(descriptor)))
        return secure?.acknowledgedByteCount(accepted: accepted, unacknowledged: unacknowledged)
            ?? accepted - unacknowledged
    }

    // MARK: Writing

    /// Sends a copy of `bytes`. Ignored unless the channel is open.
    ///
    /// Inside this channel's `received` the copy goes to the loop's cork buffer, otherwise to the channel's
    /// queue, which the loop flushes at the end of the tick. No system call, unless `outboundByteLimit` would
    /// be exceeded: then the queue is flushed first, and the channel is disconnected if that does not help.
    /// - Complexity: O(bytes).
    package func write(_ bytes: RawSpan) {
        assert(loop.isCurrent)
        guard reserve(bytes.byteCount) else { return }
        unsafe bytes.withUnsafeBytes { source in
            guard let start = source.baseAddress, source.count > 0 else { return }
            if loop.corkedChannel === self, queue.isEmpty,
                unsafe source.count <= loop.corkBuffer.count - loop.corkedByteCount,
                let cork = unsafe loop.corkBuffer.baseAddress
            {
                // In bounds: just checked. No one else gets the cork buffer, so the two do not overlap.
                unsafe (cork + loop.corkedByteCount).copyMemory(from: start, byteCount: source.count)
                loop.corkedByteCount += source.count
            } else {
                queue = unsafe loop.chunks.append(source, to: queue)
                flushLater()
            }
        }
        didQueue(bytes.byteCount)
    }

    /// Sends `bytes` without copying them. Ignored unless the channel is open. Bytes leave in the order of
    /// the calls, whichever `write` was called. O(1).
    package func write(_ bytes: SharedBytes) {
        assert(loop.isCurrent)
        guard bytes.count > 0, reserve(bytes.count) else { return }
        // Corked bytes were written earlier and go first: see `flush`.
        queue = loop.chunks.append(bytes, to: queue)
        flushLater()
        didQueue(bytes.count)
    }

    /// Checks the outbound limit, and disconnects a peer that leaves more than that unread.
    /// - Returns: false when nothing may be written.
    private func reserve(_ byteCount: Int) -> Bool {
        guard phase == .open else { return false }
        if byteCount <= outboundByteLimit - unsentByteCount { return true }
        // Much output in one tick is not the peer's fault: let the kernel accept what it can first.
        if unsentByteCount > 0, !isBlocked {
            flush()
            guard phase == .open else { return false }
            if byteCount <= outboundByteLimit - unsentByteCount { return true }
        }
        // RST, so that the kernel frees what it holds for this peer, too.
        _ = pando_linger_zero(descriptor)
        finish(.outboundLimitExceeded)
        return false
    }

    private func didQueue(_ byteCount: Int) {
        unsentByteCount += byteCount
        writtenByteCount += byteCount
        loop.metrics.queuedBytes.add(byteCount)
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
        notifyIfDrained()
    }

    /// Gives the kernel as much as it accepts: corked bytes first, then the queue. One system call for each
    /// 1024 chunks.
    private func flush() {
        if let secure { return flush(through: secure) }
        // Up to 4096 chunks; the rest waits for the next tick, so that other channels are flushed in this
        // one.
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
            let accepted =
                unsafe used + sliceCount == 1
                ? pando_send(descriptor, loop.slices[0].base, loop.slices[0].count)
                : pando_send_slices(descriptor, loop.slices.baseAddress, Int32(used + sliceCount))
            if accepted < 0, accepted != -Int64(PANDO_EAGAIN) {
                fail(Int32(truncatingIfNeeded: -accepted))
                return
            }
            removeSent(max(0, Int(accepted)), corkedByteCount: corkedByteCount)
            rounds -= 1
            if max(0, Int(accepted)) < offered || (rounds == 0 && unsentByteCount > 0) {
                isBlocked = true
                break
            }
        }
        if unsentByteCount == 0 { isBlocked = false }
        updateInterest()
        if phase == .flushing, unsentByteCount == 0 { linger() }
    }

    /// Not part of `flush`, which also runs inside calls that the delegate makes.
    private func notifyIfDrained() {
        guard isAboveLowWater, unsentByteCount <= loop.configuration.outboundLowWaterByteCount else {
            return
        }
        isAboveLowWater = false
        if phase == .open { currentDelegate?.channelDidDrain(self) }
    }

    /// Removes `byteCount` bytes that were sent. What is left of the cork buffer moves to the front of the
    /// queue.
    private func removeSent(_ byteCount: Int, corkedByteCount: Int) {
        unsentByteCount -= byteCount
        loop.metrics.sentBytes.add(byteCount)
        removeFirst(byteCount, corkedByteCount: corkedByteCount)
    }

    private func removeFirst(_ byteCount: Int, corkedByteCount: Int) {
        let fromCork = min(byteCount, corkedByteCount)
        queue = loop.chunks.removeFirst(byteCount - fromCork, from: queue)
        guard corkedByteCount > 0 else { return }
        if fromCork < corkedByteCount {
            // In bounds: fromCork < corkedByteCount <= the buffer's size.
            let rest = unsafe UnsafeRawBufferPointer(rebasing: loop.corkBuffer[fromCork..<corkedByteCount])
            queue = unsafe loop.chunks.prepend(rest, to: queue)
        }
        loop.corkedByteCount = 0
    }

    // MARK: Reading

    /// Stops calls of `received` after the current one. The kernel's receive buffer fills, and TCP then stops
    /// the peer. Calls do not nest: one ``resumeReading()`` ends the pause.
    package func pauseReading() {
        assert(loop.isCurrent)
        isReadingPaused = true
        updateInterest()
    }

    /// Ends ``pauseReading()``.
    package func resumeReading() {
        assert(loop.isCurrent)
        isReadingPaused = false
        updateInterest()
    }

    /// Whether the kernel holds bytes that were not read yet. One system call.
    package var hasUnreadInput: Bool { phase == .open && !hasEnded && pando_has_input(descriptor) != 0 }

    /// Whether `received` is called when bytes arrive.
    package var isReading: Bool { phase == .open && !isReadingPaused && !hasEnded }

    private func updateInterest() {
        // After `closeAfterFlush()` input is read and dropped, paused or not: a peer that is blocked in
        // writing would never read.
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
            // epoll reports these two always: without an end of the channel, in every tick.
            let error = pando_socket_error(descriptor)
            fail(error == 0 ? PANDO_ECONNRESET : error)
        }
    }

    /// One `recv` per event bounds the part of a tick that one channel uses: at most one receive buffer.
    private func read() {
        if let proxy, !proxy.isDone, phase == .open { guard readHeader(proxy) else { return } }
        if let secure, phase == .open { return read(through: secure) }
        let byteLimit = unsafe min(loop.receiveBuffer.count, readByteLimit)
        let count = unsafe pando_receive(descriptor, loop.receiveBuffer.baseAddress, byteLimit)
        noteRead(isFull: count >= byteLimit)
        if count > 0 {
            // In bounds: recv filled `count` bytes of it.
            if phase == .open {
                unsafe deliver(UnsafeMutableRawBufferPointer(rebasing: loop.receiveBuffer[0..<Int(count)]))
            }
        } else if count == 0 {
            didEnd()
        } else if count != -Int64(PANDO_EAGAIN) {
            fail(Int32(truncatingIfNeeded: -count))
        }
    }

    /// - Returns: Whether the client's bytes are next.
    private func readHeader(_ proxy: ProxyStage) -> Bool {
        isBulk = false
        switch proxy.read(descriptor) {
        case .waiting: return false
        case .done:
            currentDelegate?.channelDidLearnPeer(self)
            return phase == .open
        case .ended:
            didEnd()
            return false
        case .failed(let code):
            fail(code)
            return false
        }
    }

    /// The peer sends no more.
    private func didEnd() {
        hasEnded = true
        if phase == .lingering {
            finish(.requested)
        } else {
            updateInterest()
            if phase == .open { currentDelegate?.channelDidEnd(self) }
        }
    }

    private func noteRead(isFull: Bool) {
        isBulk = isFull || bulkReadCount > 0
        if bulkReadCount > 0 { bulkReadCount -= 1 }
    }

    /// Reads of fewer bytes are not measured: they cannot take long.
    private static let measuredByteCount = 2 << 10
    /// Reads that a channel stays bulk after one that took long: a peer that mixes short and long ones gains
    /// little.
    private static let bulkReadLimit: UInt8 = 8

    private func deliver(_ received: UnsafeMutableRawBufferPointer) {
        guard received.count >= Self.measuredByteCount else { return unsafe handle(received) }
        let began = loop.configuration.clock()
        unsafe handle(received)
        guard loop.configuration.clock() - began > loop.configuration.longRead else { return }
        bulkReadCount = Self.bulkReadLimit
        isBulk = true
    }

    private func handle(_ received: UnsafeMutableRawBufferPointer) {
        loop.metrics.receivedBytes.add(received.count)
        loop.corkedChannel = self
        loop.corkedByteCount = 0
        // The delegate cannot keep the span.
        var bytes = unsafe received.mutableBytes
        currentDelegate?.received(&bytes, on: self)
        // A closed channel's corked bytes are dropped with the rest of its output.
        if phase != .closed, loop.corkedByteCount > 0 { flush() }
        // With TLS, records of earlier output may have to leave first: then these bytes wait in the queue.
        if phase != .closed, loop.corkedByteCount > 0 {
            removeFirst(0, corkedByteCount: loop.corkedByteCount)
        }
        loop.corkedChannel = nil
        loop.corkedByteCount = 0
        notifyIfDrained()
    }

    // MARK: TLS

    /// Most batches of a flush; the rest waits for the next tick, so that other channels are flushed in this
    /// one.
    private static let batchLimit = 8

    private func begin(_ secure: SecureStage) {
        secure.begin(loop)
        // The ClientHello of a client, or what was not sent before a move.
        if secure.hasUnsent { flushLater() }
        secure.count(in: loop)
        guard !secure.isHandshakeDone else { return }
        secure.timeout = loop.schedule(after: loop.configuration.handshakeTimeout) { [weak self] in
            guard let self, self.secure?.isHandshakeDone == false else { return }
            _ = pando_linger_zero(descriptor)
            loop.metrics.handshakes.add(.timedOut)
            finish(.handshakeTimedOut)
        }
    }

    /// As ``flush()``: records that wait first, then batches of data. One system call for each batch.
    private func flush(through secure: SecureStage) {
        var rounds = Self.batchLimit
        while unsentByteCount > 0 || secure.hasUnsent {
            let error: Int64
            if secure.hasUnsent {
                error = secure.sendUnsent(descriptor)
            } else {
                // Before the handshake is done, data waits.
                guard secure.isEstablished else { break }
                error = sendBatch(through: secure)
            }
            guard error == 0 else { return fail(Int32(truncatingIfNeeded: -error)) }
            rounds -= 1
            if secure.hasUnsent {
                isBlocked = true
                break
            }
            let sentByteCount = secure.takeSentDataByteCount()
            unsentByteCount -= sentByteCount
            loop.metrics.sentBytes.add(sentByteCount)
            if rounds == 0, unsentByteCount > 0 {
                isBlocked = true
                break
            }
        }
        secure.count(in: loop)
        let isEmpty = unsentByteCount == 0 && !secure.hasUnsent
        if isEmpty { isBlocked = false }
        updateInterest()
        if phase == .flushing, isEmpty { linger() }
    }

    /// Encrypts and sends what was written first: corked bytes, then the queue.
    private func sendBatch(through secure: SecureStage) -> Int64 {
        let corkedByteCount = loop.corkedChannel === self ? loop.corkedByteCount : 0
        if corkedByteCount > 0 {
            unsafe loop.slices[0] = pando_slice(
                base: UnsafeRawPointer(loop.corkBuffer.baseAddress), count: corkedByteCount)
        }
        let used = corkedByteCount > 0 ? 1 : 0
        let (sliceCount, _) = unsafe loop.chunks.gather(queue, into: loop.slices, from: used)
        let (taken, error) = secure.sendBatch(descriptor, sliceCount: used + sliceCount, loop)
        removeFirst(taken, corkedByteCount: corkedByteCount)
        return error
    }

    private func read(through secure: SecureStage) {
        let input = secure.read(descriptor, atMost: readByteLimit, loop)
        // Handshakes are bulk: in a tick, other channels are handled first, and only so many handshakes.
        noteRead(isFull: input.isFull || !secure.isHandshakeDone)
        guard input.result > 0 else {
            if input.result == 0 {
                didEnd()
            } else if input.result != -Int64(PANDO_EAGAIN) {
                fail(Int32(truncatingIfNeeded: -input.result))
            }
            return
        }
        let received = input.received
        if received.didEstablish {
            loop.metrics.handshakes.add(.done)
        } else if received.failure != nil, !secure.isHandshakeDone {
            loop.metrics.handshakes.add(.failed)
        }
        if received.didEstablish, let timeout = secure.timeout {
            loop.cancel(timeout)
            secure.timeout = nil
        }
        // Replies, and data that was written during the handshake.
        if secure.hasUnsent || received.didEstablish { flush(through: secure) }
        secure.count(in: loop)
        if phase == .open, !received.data.isEmpty {
            // In bounds: the stage found the data there.
            unsafe deliver(
                UnsafeMutableRawBufferPointer(rebasing: loop.secureBuffers.received[received.data]))
        }
        guard phase == .open else { return }
        if received.failure != nil {
            refuse(secure)
        } else if received.hasEnded {
            didEnd()
        }
    }

    /// The connection cannot go on: sends the alert that waits, then closes. Other output is dropped.
    private func refuse(_ secure: SecureStage) {
        queue = loop.chunks.removeAll(of: queue)
        loop.metrics.droppedBytes.add(unsentByteCount - secure.batchDataByteCount)
        unsentByteCount = secure.batchDataByteCount
        phase = .flushing
        flush(through: secure)
        if phase != .closed {
            watchForStall(acknowledged: acknowledgedByteCount, wasSent: !secure.hasUnsent)
        }
    }

    // MARK: Moving

    /// Detaches the socket, so that another loop can adopt it. The delegate gets no further call, and later
    /// writes are ignored. May be called from inside `received`: the caller then keeps the bytes that it has
    /// not handled.
    /// - Returns: The socket, and the bytes that were written and not sent: the new channel must send them
    ///   first. nil where the connection is no longer open.
    /// - Complexity: O(unsent bytes), and one `send`.
    package func detach() -> (socket: ConnectedSocket, unsent: [UInt8])? {
        assert(loop.isCurrent)
        guard phase == .open, let peer = socketAddress else { return nil }
        flush()
        guard phase == .open else { return nil }
        let unsent = loop.chunks.bytes(of: queue)
        queue = loop.chunks.removeAll(of: queue)
        loop.metrics.droppedBytes.add(unsentByteCount)
        loop.metrics.detached.add()
        unsentByteCount = 0
        phase = .closed
        currentDelegate = nil
        secure?.leave(loop)
        let socket = ConnectedSocket(
            movingDescriptor: surrenderDescriptor(), peer: peer, limiter: limiter, isReserved: isReserved,
            secure: secure, proxy: proxy, grant: grant)
        grant = nil
        secure = nil
        limiter = nil
        return (socket, unsent)
    }

    // MARK: Closing

    /// Closes now; unsent output is dropped. `channelDidClose` follows at the end of the tick.
    package func close() {
        assert(loop.isCurrent)
        if phase == .open, !hasUnsentOutput, let secure, secure.isEstablished {
            // As far as the kernel accepts it: without close_notify, the peer would have to report a cut.
            secure.close(loop)
            _ = secure.sendUnsent(descriptor)
        }
        finish(.requested)
    }

    /// Closes now with RST, so that the peer gets an error and no regular end. Unsent output is dropped.
    package func reset() {
        assert(loop.isCurrent)
        guard phase != .closed else { return }
        _ = pando_linger_zero(descriptor)
        finish(.requested)
    }

    /// Sends what was written, then closes. `received` is not called any more, and writes are ignored. A peer
    /// that acknowledges nothing for `closeStallTimeout` is disconnected.
    package func closeAfterFlush() {
        assert(loop.isCurrent)
        guard phase == .open else { return }
        // Before the TLS handshake is done, nothing can be said.
        guard secure?.isEstablished ?? true else { return finish(.requested) }
        phase = .flushing
        updateInterest()
        if !hasUnsentOutput { linger() }
        if phase != .closed {
            watchForStall(acknowledged: acknowledgedByteCount, wasSent: !hasUnsentOutput)
        }
    }

    private var hasUnsentOutput: Bool { unsentByteCount > 0 || secure?.hasUnsent ?? false }

    /// Everything is sent.
    private func linger() {
        if let secure, secure.isEstablished {
            // Comes back here when close_notify is sent.
            secure.close(loop)
            if secure.hasUnsent { return flush(through: secure) }
        }
        // The peer's FIN was read: there is no unread input, so closing sends no RST.
        if hasEnded {
            finish(.requested)
            return
        }
        phase = .lingering
        if pando_shutdown_write(descriptor) < 0 { finish(.reset) }
    }

    /// - Parameters:
    ///   - acknowledged: Bytes that the peer had acknowledged at the last check.
    ///   - wasSent: The kernel had accepted all bytes by then.
    private func watchForStall(acknowledged: Int, wasSent: Bool) {
        // Keeps the channel alive, but not longer than one period after it closed.
        loop.schedule(after: loop.configuration.closeStallTimeout) { [self] in
            guard phase == .flushing || phase == .lingering else { return }
            let acknowledgedNow = acknowledgedByteCount
            guard acknowledgedNow <= acknowledged else {
                return watchForStall(acknowledged: acknowledgedNow, wasSent: !hasUnsentOutput)
            }
            switch phase {
            case .open, .closed: break
            // All was sent a period ago, and the peer neither acknowledges what the kernel holds nor closes.
            case .lingering where wasSent: finish(.requested)
            case .lingering: watchForStall(acknowledged: acknowledgedNow, wasSent: true)
            case .flushing:
                _ = pando_linger_zero(descriptor)
                finish(.stalled)
            }
        }
    }

    private func fail(_ code: Int32) {
        finish(code == PANDO_ECONNRESET || code == PANDO_EPIPE ? .reset : .failed(code))
    }

    private func finish(_ reason: ChannelCloseReason) {
        guard phase != .closed else { return }
        if remembersAcknowledgedBytes { acknowledgedAtClose = acknowledgedByteCount }
        phase = .closed
        queue = loop.chunks.removeAll(of: queue)
        loop.metrics.droppedBytes.add(unsentByteCount)
        unsentByteCount = 0
        if loop.corkedChannel === self { loop.corkedByteCount = 0 }
        secure?.leave(loop)
        closeAndCount()
        let failure = reason == .requested ? secure?.failure : nil
        let cause = failure.map { ChannelCloseReason.insecure($0) } ?? reason
        loop.metrics.ended.add(LoopMetrics.End(cause))
        loop.notifyClosedLater(self, cause)
    }

    private func closeAndCount() {
        closeDescriptor()
        grant = nil
        limiter?.didClose(isReserved: isReserved)
        limiter = nil
    }

    func notifyClosed(_ reason: ChannelCloseReason) {
        // The delegate commonly holds the channel: this ends the reference cycle.
        exchange(&currentDelegate, with: nil)?.channelDidClose(self, reason: reason)
    }

    override func loopDidStop() {
        finish(.loopStopped)
    }
}

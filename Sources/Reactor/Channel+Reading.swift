import COperatingSystem
import PandoBytes
import PandoTLS
import PandoTime

// From the socket to the delegate; and the handshake of TLS.

extension Channel {
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
    package var hasPendingInput: Bool { phase == .open && !hasEnded && pando_has_input(descriptor) != 0 }

    /// Whether `received` is called when bytes arrive.
    package var isReading: Bool { phase == .open && !isReadingPaused && !hasEnded }

    /// Whether the peer has begun a ``ProxyHeader`` and not ended it. false with TLS: there its time is that
    /// of the handshake, which begins with the connection.
    package var awaitsProxyHeader: Bool { secure == nil && proxy?.isIncomplete == true }

    func updateInterest() {
        // After `closeAfterFlush()` input is read and dropped, paused or not: a peer that is blocked in
        // writing would never read.
        let reads = !hasEnded && (!isReadingPaused || phase != .open)
        poller.setInterest(
            (reads ? PANDO_READABLE : 0) | (output.isBlocked ? PANDO_WRITABLE : 0), of: self)
    }

    /// The peer has sent much that was not read: it is read after those that send little, as one whose reads
    /// are full. Call it before ``resumeReading()``.
    package func noteBacklog() {
        assert(loop.isCurrent)
        readPace.noteLong()
        isBulk = true
    }

    /// One `recv` per event bounds the part of a tick that one channel uses: at most one receive buffer.
    func read() {
        lastReadMilliseconds = flushes.milliseconds
        if let proxy, !proxy.isDone, phase == .open { guard readHeader(proxy) else { return } }
        if let secure, phase == .open { return read(through: secure) }
        let (count, isFull) = PlainStage.read(
            descriptor, atMost: min(readByteLimit, buffers.readByteLimit), buffers)
        // A read that was short because memory is says nothing of the peer.
        isBulk = readPace.noteRead(isFull: isFull && readByteLimit <= buffers.readByteLimit)
        if count > 0 {
            // In bounds: recv filled `count` bytes of it.
            if phase == .open {
                unsafe deliver(
                    UnsafeMutableRawBufferPointer(rebasing: buffers.received[0..<Int(count)]))
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

    private func deliver(_ received: UnsafeMutableRawBufferPointer) {
        guard received.count >= ReadPace.measuredByteCount else { return unsafe handle(received) }
        let began = loop.configuration.clock()
        unsafe handle(received)
        guard loop.configuration.clock() - began > loop.configuration.longRead else { return }
        readPace.noteLong()
        isBulk = true
    }

    private func handle(_ received: UnsafeMutableRawBufferPointer) {
        metrics.receivedBytes.add(received.count)
        output.cork(in: buffers)
        // The delegate cannot keep the span.
        var bytes = unsafe received.mutableBytes
        currentDelegate?.received(&bytes, on: self)
        // A closed channel's corked bytes are dropped with the rest of its output.
        if phase != .closed, output.hasCorkedBytes(in: buffers) { flush() }
        // With TLS, records of earlier output may have to leave first: then these bytes wait in the queue.
        output.uncork(in: buffers)
        notifyIfDrained()
    }

    // MARK: TLS

    func begin(_ secure: SecureStage) {
        secure.begin(buffers)
        // The ClientHello of a client, or what was not sent before a move.
        if secure.hasUnsent { flushLater() }
        secure.count(in: buffers)
        guard !secure.isHandshakeDone else { return }
        secure.timeout = loop.schedule(after: loop.configuration.handshakeTimeout) { [weak self] in
            guard let self, self.secure?.isHandshakeDone == false else { return }
            _ = pando_linger_zero(descriptor)
            metrics.handshakes.add(.timedOut)
            finish(.handshakeTimedOut)
        }
    }

    private func read(through secure: SecureStage) {
        // A signature, or the check of a client's certificates.
        wasLong = !secure.isHandshakeDone
        let input = secure.read(descriptor, atMost: min(readByteLimit, buffers.readByteLimit), buffers)
        // Handshakes are bulk until they are answered: in a tick, other channels are handled first, and only
        // so many handshakes.
        isBulk =
            secure.hasAnswered
            ? readPace.noteAnswered(isFull: input.isFull)
            : readPace.noteRead(isFull: input.isFull || !secure.isHandshakeDone)
        guard input.result > 0 else {
            if input.isAbandoned { metrics.handshakes.add(.abandoned) }
            if input.result == 0 {
                didEnd()
            } else if input.result != -Int64(PANDO_EAGAIN) {
                fail(Int32(truncatingIfNeeded: -input.result))
            }
            return
        }
        let received = input.received
        if received.didEstablish {
            metrics.handshakes.add(.done)
            isBulk = readPace.noteAnswered(isFull: input.isFull)
        } else if received.failure != nil, !secure.isHandshakeDone {
            metrics.handshakes.add(.failed)
        }
        if received.didEstablish { cancelTimeout(of: secure) }
        // Replies, and data that was written during the handshake.
        if secure.hasUnsent || received.didEstablish { flush() }
        secure.count(in: buffers)
        if phase == .open, !received.data.isEmpty {
            // In bounds: the stage found the data there.
            unsafe deliver(
                UnsafeMutableRawBufferPointer(rebasing: buffers.secure.received[received.data]))
        }
        guard phase == .open else { return }
        if received.failure != nil {
            refuse(secure)
        } else if received.hasEnded {
            didEnd()
        }
    }

    /// The connection cannot go on: sends the alert that waits, then closes. Other output is dropped. For the
    /// owner it is the end of the input: its session ends now, and not when the peer closes, too.
    private func refuse(_ secure: SecureStage) {
        let dropped = output.removeAll(except: secure.batchDataByteCount, in: buffers)
        metrics.droppedBytes.add(dropped)
        phase = .flushing
        flush()
        guard phase != .closed else { return }
        watchForStall(wasSent: !secure.hasUnsent)
        currentDelegate?.channelDidEnd(self)
    }

    func cancelTimeout(of secure: SecureStage) {
        if let timeout = secure.timeout { loop.cancel(timeout) }
        secure.timeout = nil
    }

    func leave(_ secure: SecureStage) {
        cancelTimeout(of: secure)
        secure.leave(buffers)
    }
}

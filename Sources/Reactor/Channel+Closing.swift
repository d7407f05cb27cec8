import COperatingSystem

// How a channel ends, or leaves its loop.

extension Channel {
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
        output.uncork(in: buffers)
        let unsent = output.queuedBytes(in: buffers)
        metrics.droppedBytes.add(output.removeAll(in: buffers))
        metrics.detached.add()
        phase = .closed
        currentDelegate = nil
        if let secure { leave(secure) }
        endNew()
        let socket = ConnectedSocket(
            movingDescriptor: loop.poller.surrender(self), peer: peer, limiter: limiter,
            isReserved: isReserved,
            secure: secure, proxy: proxy, grant: grant)
        grant = nil
        secure = nil
        limiter = nil
        return (socket, unsent)
    }

    // MARK: Closing

    /// Closes now; unsent output is dropped. `channelDidClose` follows at the end of a tick.
    package func close() {
        assert(loop.isCurrent)
        if phase == .open, !hasUnsentOutput, let secure, secure.isEstablished {
            // As far as the kernel accepts it: without close_notify, the peer would have to report a cut.
            secure.close(buffers)
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
        if phase != .closed { watchForStall(wasSent: !hasUnsentOutput) }
    }

    /// Everything is sent.
    func linger() {
        if let secure, secure.isEstablished {
            // Comes back here when close_notify is sent.
            secure.close(buffers)
            if secure.hasUnsent { return flush() }
        }
        // The peer's FIN was read: there is no unread input, so closing sends no RST.
        if hasEnded {
            finish(.requested)
            return
        }
        phase = .lingering
        if pando_shutdown_write(descriptor) < 0 { finish(.reset) }
    }

    /// - Parameter wasSent: The kernel has accepted all bytes.
    func watchForStall(wasSent: Bool) {
        checkLater(StallWatch(acknowledged: acknowledgedByteCount, wasSent: wasSent))
    }

    private func checkLater(_ watch: StallWatch) {
        // Keeps the channel alive, but not longer than one period after it closed.
        loop.schedule(after: loop.configuration.closeStallTimeout) { [self] in
            guard phase == .flushing || phase == .lingering else { return }
            var watch = watch
            let decision = watch.check(
                acknowledged: acknowledgedByteCount, isSent: !hasUnsentOutput,
                isLingering: phase == .lingering)
            switch decision {
            case .checkAgain: checkLater(watch)
            case .close: finish(.requested)
            case .disconnect:
                _ = pando_linger_zero(descriptor)
                finish(.stalled)
            }
        }
    }

    func fail(_ code: Int32) {
        finish(code == PANDO_ECONNRESET || code == PANDO_EPIPE ? .reset : .failed(code))
    }

    func finish(_ reason: ChannelCloseReason) {
        guard phase != .closed else { return }
        let acknowledged = remembersAcknowledgedBytes ? acknowledgedByteCount : nil
        phase = .closed
        metrics.droppedBytes.add(output.removeAll(in: buffers))
        if let secure { leave(secure) }
        closeAndCount()
        let failure = reason == .requested ? secure?.failure : nil
        let closeReason = failure.map { ChannelCloseReason.insecure($0) } ?? reason
        ending = Ending(closeReason, acknowledgedByteCount: acknowledged)
        metrics.ended.add(LoopMetrics.End(closeReason))
        loop.closes.append(self)
    }

    func closeAndCount() {
        endNew()
        loop.poller.close(self)
        grant = nil
        limiter?.didClose(isReserved: isReserved)
        limiter = nil
    }
}

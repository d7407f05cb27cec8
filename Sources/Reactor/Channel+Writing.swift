import COperatingSystem
import PandoBytes

// What is written to a channel, on its way to the kernel.

extension Channel {
    // MARK: Writing

    /// Sends a copy of `bytes`. Ignored unless the channel is open.
    ///
    /// Inside this channel's `received` the copy goes to the loop's cork buffer, otherwise to the channel's
    /// queue, which the loop flushes at the end of the tick. No system call, unless `outboundByteLimit` would
    /// be exceeded: then the queue is flushed first, and the channel is disconnected if that does not help.
    /// - Complexity: O(bytes).
    package func write(_ bytes: RawSpan) {
        assert(loop.isCurrent)
        guard mayQueue(bytes.byteCount) else { return }
        if output.append(bytes, lowWater: lowWaterByteCount, in: buffers) { flushLater() }
        metrics.queuedBytes.add(bytes.byteCount)
    }

    /// Sends `bytes` without copying them. Ignored unless the channel is open. Bytes leave in the order of
    /// the calls, whichever `write` was called. O(1).
    package func write(_ bytes: SharedBytes) {
        assert(loop.isCurrent)
        guard bytes.count > 0, mayQueue(bytes.count) else { return }
        output.append(bytes, lowWater: lowWaterByteCount, in: buffers)
        flushLater()
        metrics.queuedBytes.add(bytes.count)
    }

    /// Whether so many bytes may be queued. Disconnects a peer to which more than the outbound limit would be
    /// unsent.
    private func mayQueue(_ byteCount: Int) -> Bool {
        guard phase == .open else { return false }
        if byteCount <= outboundByteLimit - output.unsentByteCount { return true }
        // Much output in one tick is not the peer's fault: let the kernel accept what it can first.
        if output.unsentByteCount > 0, !output.isBlocked {
            flush()
            guard phase == .open else { return false }
            if byteCount <= outboundByteLimit - output.unsentByteCount { return true }
        }
        // RST, so that the kernel frees what it holds for this peer, too.
        _ = pando_linger_zero(descriptor)
        finish(.outboundLimitExceeded)
        return false
    }

    // MARK: Flushing

    func flushLater() {
        guard !output.isBlocked else { return }
        isInFlushList = true
        flushes.append(self)
    }

    /// Gives the kernel as much as it accepts.
    func flush() {
        let unsentByteCount = output.unsentByteCount
        let error =
            if let secure {
                secure.flush(&output, to: descriptor, buffers)
            } else {
                PlainStage.flush(&output, to: descriptor, buffers)
            }
        metrics.sentBytes.add(unsentByteCount - output.unsentByteCount)
        guard error == 0 else { return fail(Int32(truncatingIfNeeded: -error)) }
        updateInterest()
        if phase == .flushing, !hasUnsentOutput { linger() }
        // The peer connects again, with other keys.
        if phase == .open, secure?.isUsedUp == true { closeAfterFlush() }
    }

    var hasUnsentOutput: Bool { output.unsentByteCount > 0 || secure?.hasUnsent ?? false }

    /// Not part of `flush`, which also runs inside calls that the delegate makes.
    func notifyIfDrained() {
        guard output.hasDrained(to: lowWaterByteCount) else { return }
        if phase == .open { currentDelegate?.channelDidDrain(self) }
    }
}

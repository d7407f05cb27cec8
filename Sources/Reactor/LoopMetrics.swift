import PandoMetrics

/// What one event loop counts. Added to by the loop's thread, read by any.
package final class LoopMetrics: Sendable {
    /// How a connection of the loop ended (``ChannelCloseReason``).
    package enum End: UInt8, CaseIterable, Sendable {
        case requested, reset, outboundLimit, stalled, insecure, handshakeTimeout, failed, loopStopped
    }

    /// How a TLS handshake ended; abandoned by a peer that has closed before it got a reply.
    package enum Handshake: UInt8, CaseIterable, Sendable { case done, failed, timedOut, abandoned }

    /// Nanoseconds that a tick worked, from the end of its wait to the beginning of the next: an event that
    /// occurs meanwhile waits for as long, at most.
    package let ticks = Histogram.durations
    /// Connections that the loop's acceptors have accepted, for all loops.
    package let accepted = Counter()
    /// Connections that the loop got, those that came from another loop included.
    package let adopted = Counter()
    /// Connections that went to another loop.
    package let detached = Counter()
    package let ended = CounterTable<End>()
    package let handshakes = CounterTable<Handshake>()
    /// Bytes that clients sent, as sessions get them: decrypted.
    package let receivedBytes = Counter()
    /// Bytes that sessions wrote.
    package let queuedBytes = Counter()
    /// Of those, bytes that the kernel accepted, and bytes of connections that ended before.
    package let sentBytes = Counter()
    package let droppedBytes = Counter()

    package init() {}

    /// Connections of the loop now.
    package var openCount: Int64 {
        let ended = End.allCases.reduce(0) { $0 &+ self.ended.value(of: $1) }
        return max(0, Int64(clamping: adopted.value) - Int64(clamping: ended &+ detached.value))
    }

    /// Bytes that wait to be sent.
    package var unsentByteCount: Int64 {
        // In this order: what is sent in between is not subtracted from less than it was part of.
        let gone = sentBytes.value &+ droppedBytes.value
        return max(0, Int64(clamping: queuedBytes.value) - Int64(clamping: gone))
    }
}

extension LoopMetrics.End {
    init(_ reason: ChannelCloseReason) {
        self =
            switch reason {
            case .requested: .requested
            case .reset: .reset
            case .outboundLimitExceeded: .outboundLimit
            case .stalled: .stalled
            case .insecure: .insecure
            case .handshakeTimedOut: .handshakeTimeout
            case .failed: .failed
            case .loopStopped: .loopStopped
            }
    }
}

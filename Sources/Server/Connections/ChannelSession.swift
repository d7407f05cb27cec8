import PandoBytes
import PandoDatabase
import PandoEngine
import PandoReactor

/// A client on one connection: HTTP, or a WebSocket. What it is sent goes to the connection's channel.
class ChannelSession: ClientSession, ChannelDelegate {
    final let channel: Channel
    /// How fast the client takes what it is sent; nil while nothing waits for it, and before it is first
    /// looked at: to ask how much a client has taken is a system call.
    private var outputPace: MinimumRateMonitor?

    init(_ id: SessionID, on channel: Channel, of owner: IOLoop) {
        self.channel = channel
        super.init(id, of: owner)
    }

    // MARK: What carries the outputs

    override var isOpen: Bool { channel.isOpen }

    final override func write(_ frames: RawSpan) { channel.write(frames) }

    final override func write(_ frames: SharedBytes) { channel.write(frames) }

    final override var unsentByteCount: Int { channel.outboundByteCount }

    final override func pauseReading() { channel.pauseReading() }

    final override func resumeReading() { channel.resumeReading() }

    override func cut() { channel.reset() }

    override func end(_ reason: DisconnectReason) { channel.closeAfterFlush() }

    final override var peerAddress: SocketAddress? { channel.peerAddress }

    final override var isReserved: Bool { channel.isReserved }

    /// - Complexity: O(chunks of its output).
    override var heldByteCount: Int {
        let output = channel.outboundByteCount
        let owned = output > 0 ? channel.ownedOutputByteCount : 0
        return super.heldByteCount + owned + max(0, output - owned) / sharedOutputWeight
    }

    /// By how much the weight of output is divided that others may hold too.
    var sharedOutputWeight: Int { Self.sharedWeight }

    // MARK: How fast the client takes it

    override func checkIdle(at now: MonotonicTime) {
        guard channel.outboundByteCount > 0 else { return outputPace = nil }
        if isTakingTooSlowly(at: now) { channel.reset() }
    }

    /// Looks how much the client has taken of what it was sent. What the kernel holds is not taken yet. One
    /// system call.
    final func isTakingTooSlowly(at now: MonotonicTime) -> Bool {
        let count = channel.acknowledgedByteCount
        var pace = outputPace ?? MinimumRateMonitor(count, at: now)
        let isTooSlow = pace.isTooSlow(
            count, at: now, window: owner.configuration.stallTimeout,
            bytesPerSecond: Self.slowestBytesPerSecond)
        outputPace = pace
        return isTooSlow
    }

    /// An output begins: its client has had nothing to take before.
    final func beginOutputPace() {
        if channel.outboundByteCount == 0 { outputPace = nil }
    }

    // MARK: From the channel

    func received(_ bytes: inout MutableRawSpan, on channel: Channel) {}

    func channelDidEnd(_ channel: Channel) { channel.closeAfterFlush() }

    func channelDidDrain(_ channel: Channel) { didDrain() }

    func channelDidClose(_ channel: Channel, reason: ChannelCloseReason) { leave() }
}

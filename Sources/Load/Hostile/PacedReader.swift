import PandoReactor
import PandoTime

/// Reads a channel for another delegate with a limited rate, in pieces of an eighth of a second, or of one
/// kilobyte where that is more: otherwise one read would take all that the kernel has, and the next one would
/// follow minutes later. Confined to its loop.
final class PacedReader: ChannelDelegate {
    /// How often the allowance grows.
    private static let tick: Duration = .milliseconds(24)

    /// nil: as fast as it comes.
    var bytesPerSecond: Int? {
        didSet {
            limitReads()
            if bytesPerSecond == nil { channel.resumeReading() }
        }
    }

    private let inner: any ChannelDelegate
    private let channel: Channel
    private let loop: EventLoop
    /// Bytes that may be read now; below 0 after a read that was larger.
    private var allowance = 0.0
    private var lastTick = MonotonicTime.now
    private var isOver = false

    init(_ inner: any ChannelDelegate, of channel: Channel, on loop: EventLoop, bytesPerSecond: Int?) {
        self.inner = inner
        self.channel = channel
        self.loop = loop
        self.bytesPerSecond = bytesPerSecond
        limitReads()
        schedule()
    }

    private func limitReads() {
        channel.readByteLimit = bytesPerSecond.map { max(1000, $0 / 8) } ?? .max
    }

    private func schedule() {
        loop.schedule(after: Self.tick) { [weak self] in
            guard let self, !isOver, let bytesPerSecond else { return }
            let now = MonotonicTime.now
            let rate = Double(bytesPerSecond)
            let elapsed = Double(now.nanoseconds &- lastTick.nanoseconds) / 1e9
            // What was not used up is not saved for later.
            allowance = min(allowance + elapsed * rate, rate)
            lastTick = now
            if allowance > 0 { channel.resumeReading() }
            schedule()
        }
    }

    func received(_ bytes: inout MutableRawSpan, on channel: Channel) {
        allowance -= Double(bytes.byteCount)
        if bytesPerSecond != nil, allowance <= 0 { channel.pauseReading() }
        inner.received(&bytes, on: channel)
    }

    func channelDidEnd(_ channel: Channel) { inner.channelDidEnd(channel) }

    func channelDidDrain(_ channel: Channel) { inner.channelDidDrain(channel) }

    func channelDidClose(_ channel: Channel, reason: ChannelCloseReason) {
        isOver = true
        inner.channelDidClose(channel, reason: reason)
    }
}

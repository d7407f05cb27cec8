import PandoTime

/// How an ``EventLoop`` works, and its channels.
package struct LoopConfiguration: Sendable {
    /// Bytes. A channel with more unsent output is disconnected: its peer does not read.
    package var outboundByteLimit = 64 << 20
    /// Bytes. `channelDidDrain` is called when a channel's unsent output falls to this again.
    package var outboundLowWaterByteCount = 64 << 10
    /// Most bytes of one read. All channels of the loop share one such buffer.
    package var receiveBufferByteCount = 512 << 10
    /// Bytes written during one read event that are gathered for one `send`; what does not fit is queued.
    package var corkByteCount = 512 << 10
    /// A channel in `closeAfterFlush()` is disconnected when its peer acknowledges nothing for this long.
    package var closeStallTimeout: Duration = .seconds(5)
    /// A TLS handshake that is not done after this long ends the connection.
    package var handshakeTimeout: Duration = .seconds(30)
    /// Time after which what is left of a tick's events waits for the next tick; the same again for its
    /// messages, its timers, its flushes (of replies, and of others: ``FlushList``), and the channels that
    /// have closed. One of each is always handled.
    /// A client's request waits for two ticks: for the one in which it is read, and for that of its reply. A
    /// tick costs about ten microseconds beside its work, so a much smaller share would waste time.
    package var tickShare: Duration = .microseconds(500)
    /// A channel whose reads take longer is bulk (``Pollable/isBulk``).
    package var longRead: Duration = .microseconds(200)
    /// New channels that are read beside those that send little (``Pollable/isBulk``), before they have sent
    /// anything: about as many as a quiet server accepts in one tick.
    package var newInMainSetLimit = 16
    /// What is asked for the time while events and messages are handled; tests have a clock of their own.
    package var clock: @Sendable () -> MonotonicTime = { MonotonicTime.now }
    /// Timers are rounded up to a multiple of this.
    package var timerTick: Duration = .milliseconds(8)

    package init() {}
}

import PandoBytes

/// Why a channel is no more.
package enum CloseReason: Equatable, Sendable {
    /// We asked: `close()`, `reset()`, or `closeAfterFlush()` after everything was sent.
    case requested
    /// The peer cut the connection (ECONNRESET, EPIPE).
    case reset
    /// The peer did not read, and what waited for it outgrew `outboundByteLimit`.
    case outboundLimitExceeded
    /// `closeAfterFlush()` waited in vain: the peer took nothing for `closeStallTimeout`.
    case stalled
    /// Any other errno; ETIMEDOUT when the peer went silent.
    case failed(Int32)
    /// The loop came to its end.
    case loopStopped
}

/// What happens on a channel, told on its loop. The channel holds its delegate until `channelDidClose`.
package protocol ChannelDelegate: AnyObject {
    /// Bytes arrived: called once per read event, with all that one `recv` gave (1 byte … 512 KiB). They may
    /// be changed in place, and are valid only during the call. All that is written to *this* channel
    /// meanwhile leaves in one `send` afterwards.
    func received(_ bytes: inout MutableRawSpan, on channel: Channel)

    /// The peer will send no more; it may still read. The default is `closeAfterFlush()`.
    func channelDidEnd(_ channel: Channel)

    /// `outboundByteCount` has been above the low-water mark and is not any more.
    func channelDidDrain(_ channel: Channel)

    /// The last call. Always made, exactly once, at the end of a tick: never from inside a call to the
    /// channel.
    func channelDidClose(_ channel: Channel, reason: CloseReason)
}

extension ChannelDelegate {
    package func channelDidEnd(_ channel: Channel) { channel.closeAfterFlush() }
    package func channelDidDrain(_ channel: Channel) {}
}

import PandoBytes

/// Gets a channel's events, on its loop. The channel holds its delegate until `channelDidClose`.
package protocol ChannelDelegate: AnyObject {
    /// Bytes arrived: called once per read event, with what one `recv` gave (1 byte … 512 KiB). They may be
    /// changed in place, and are valid only during the call. What is written to *this* channel during the
    /// call is sent with one `send` after it.
    func received(_ bytes: inout MutableRawSpan, on channel: Channel)

    /// The peer sends no more (FIN, or close_notify of TLS); it may still read. Also called when the peer has
    /// sent a record that TLS refuses: then the channel is closing, and takes no more output. The default is
    /// `closeAfterFlush()`.
    func channelDidEnd(_ channel: Channel)

    /// A trusted proxy has said who its client is, or that it speaks for itself: ``Channel/peerAddress`` is
    /// final. Called once, before the first `received`, where the channel was adopted to read a header.
    func channelDidLearnPeer(_ channel: Channel)

    /// `outboundByteCount` was above `outboundLowWaterByteCount`, and no longer is.
    func channelDidDrain(_ channel: Channel)

    /// The last call, made exactly once, at the end of this tick or of a later one: never from inside a call
    /// to the channel.
    func channelDidClose(_ channel: Channel, reason: ChannelCloseReason)
}

extension ChannelDelegate {
    package func channelDidEnd(_ channel: Channel) { channel.closeAfterFlush() }
    package func channelDidDrain(_ channel: Channel) {}
    package func channelDidLearnPeer(_ channel: Channel) {}
}

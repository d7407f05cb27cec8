import PandoTLS

/// Why a channel was closed.
package enum ChannelCloseReason: Equatable, Sendable {
    /// By this side: `close()`, `reset()`, or `closeAfterFlush()` after everything was sent.
    case requested
    /// By the peer (ECONNRESET, EPIPE).
    case reset
    /// The peer did not read, and its unsent output exceeded `outboundByteLimit`.
    case outboundLimitExceeded
    /// After `closeAfterFlush()` the peer acknowledged nothing for `closeStallTimeout`.
    case stalled
    /// The TLS connection cannot go on; during the handshake, or because a record is bad.
    case insecure(TLSError)
    /// The TLS handshake was not done within `handshakeTimeout`.
    case handshakeTimedOut
    /// Any other errno; ETIMEDOUT when the peer's system stopped answering.
    case failed(Int32)
    /// The loop was stopped.
    case loopStopped
}

extension TLSConnection {
    /// What one call of ``receive(_:count:replies:)`` has found.
    package struct Received {
        /// Where the data is, in the buffer that was given.
        package var data = 0..<0
        /// The handshake is done since this call.
        package var didEstablish = false
        /// The peer has said that it sends no more (close_notify). What follows is ignored.
        package var hasEnded = false
        /// Why the connection cannot go on. Data that came before is good.
        package var failure: TLSError?

        package init() {}
    }
}

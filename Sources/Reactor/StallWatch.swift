/// Whether the peer of a channel that is closing still takes what it was sent. Checked once in each
/// `closeStallTimeout`.
struct StallWatch {
    enum Decision {
        case checkAgain
        /// Everything is sent, and the peer neither acknowledges what the kernel holds nor closes its side.
        case close
        /// The peer takes nothing.
        case disconnect
    }

    /// Bytes that the peer had acknowledged at the last check.
    private var acknowledged: Int
    /// The kernel had accepted all bytes by then.
    private var wasSent: Bool

    init(acknowledged: Int, wasSent: Bool) {
        self.acknowledged = acknowledged
        self.wasSent = wasSent
    }

    /// - Parameters:
    ///   - acknowledged: Bytes that the peer has acknowledged by now.
    ///   - isSent: The kernel has accepted all bytes.
    ///   - isLingering: The FIN is sent, too.
    mutating func check(acknowledged now: Int, isSent: Bool, isLingering: Bool) -> Decision {
        if now > acknowledged {
            acknowledged = now
            wasSent = isSent
            return .checkAgain
        }
        guard isLingering else { return .disconnect }
        if wasSent { return .close }
        wasSent = true
        return .checkAgain
    }
}

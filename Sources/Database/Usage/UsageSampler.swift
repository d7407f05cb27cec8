import PandoTime

/// Decides which messages are measured: one of many, so few under load that measuring costs nothing, and all
/// where there are few. A value: its caller counts down.
///
///     countdown -= 1; if it is 0: measure, and take the next countdown
struct UsageSampler {
    /// Messages for which the measured one stands: those since the one before.
    private(set) var interval = 1
    private var last: MonotonicTime?
    private var random: UInt64 = 0x9E37_79B9_7F4A_7C15

    /// More than a thousand samples a second are too many, fewer than a hundred too few.
    private static let shortest: Duration = .milliseconds(1)
    private static let longest: Duration = .milliseconds(10)
    private static let highestInterval = 1024
    private var mean = 1

    /// - Parameter now: When a message was measured.
    /// - Returns: The countdown to the next one.
    mutating func next(at now: MonotonicTime) -> Int {
        if let last {
            let time = now - last
            if time < Self.shortest { mean = min(mean * 2, Self.highestInterval) }
            if time > Self.longest { mean = max(mean / 2, 1) }
        }
        last = now
        // A client whose requests come in a fixed order would always have the same one measured. (xorshift)
        random ^= random << 13
        random ^= random >> 7
        random ^= random << 17
        interval = mean == 1 ? 1 : mean / 2 + Int(random % UInt64(mean + 1))
        return interval
    }
}

import PandoTime

/// A token bucket: so many tokens a second on average, and at once as many as ``burst`` brings.
///
/// What a request costs is taken also where less is left: the bucket is in debt then, and refuses until that
/// is paid. So a request of any cost is possible, and the average still holds. One word: the time at which
/// the bucket will be full.
///
///     fullAt - now      0 ────────────────── burst ──────────▶
///                       full                 empty   in debt
struct TokenBucket: Equatable, Sendable {
    /// A time that is past stands for a full bucket.
    private var fullAt = MonotonicTime(nanoseconds: 0)

    /// A client that was away sends what it has gathered at once; on average over such a time it is limited.
    /// Ours.
    static let burst: Duration = .seconds(10)

    init() {}

    /// How long a request must wait; nil where it may be made now.
    func wait(at now: MonotonicTime) -> Duration? {
        let missing = fullAt - now
        return missing < Self.burst ? nil : missing - Self.burst
    }

    /// Whether it is as if it had never been used.
    func isFull(at now: MonotonicTime) -> Bool { fullAt <= now }

    /// Takes the cost of a request.
    /// - Parameters:
    ///   - cost: Tokens, at least 0.
    ///   - rate: Tokens that come in a second, positive.
    mutating func spend(_ cost: Int, perSecond rate: Int, at now: MonotonicTime) {
        let start = max(fullAt, now).nanoseconds
        let (end, overflows) = start.addingReportingOverflow(Self.nanoseconds(of: cost, perSecond: rate))
        fullAt = MonotonicTime(nanoseconds: overflows ? .max : end)
    }

    /// How long so many tokens take to come. Saturates.
    private static func nanoseconds(of cost: Int, perSecond rate: Int) -> UInt64 {
        let rate = UInt64(max(1, rate))
        let product = UInt64(max(0, cost)).multipliedFullWidth(by: 1_000_000_000)
        // Else the quotient would not fit into 64 bits.
        guard product.high < rate else { return .max }
        return rate.dividingFullWidth(product).quotient
    }
}

import PandoREST
import PandoTime

/// How much a client may write in a second (`--max-writes-per-second`, `--max-bytes-per-second`): over one
/// connection, and as one ``LimitedClient`` over all connections.
package struct WriteRates: Equatable, Sendable {
    /// Writes; 0 for no limit.
    package var writesPerSecond = 0
    /// Bytes of their messages or bodies, inflated; 0 for no limit.
    package var bytesPerSecond = 0

    package init(writesPerSecond: Int = 0, bytesPerSecond: Int = 0) {
        self.writesPerSecond = writesPerSecond
        self.bytesPerSecond = bytesPerSecond
    }

    package var isUnlimited: Bool { writesPerSecond | bytesPerSecond == 0 }

    /// The longest that a realtime write waits for its rate; one that would have to wait longer is refused.
    /// SDKs have no timeout for a write, and send at once what they have gathered while they were offline.
    /// Ours.
    package static let longestDelay: Duration = .seconds(30)
}

/// A write that is beyond its rate: by which limit, and how long it is until it may be made.
package struct RateExcess: Equatable, Sendable {
    package var limit: ClientLimit
    package var wait: Duration

    /// Whole seconds, at least one: for `Retry-After` (RFC 9110 §10.2.3).
    package var retrySeconds: Int {
        let (seconds, attoseconds) = wait.components
        return max(1, Int(clamping: seconds) + (attoseconds > 0 ? 1 : 0))
    }

    /// - Parameter limit: nil where no wait is possible.
    func isLonger(than limit: Duration?) -> Bool { limit.map { wait > $0 } ?? true }

    /// The one with the longer wait; the first where they are equal.
    static func longer(_ first: RateExcess?, _ second: RateExcess?) -> RateExcess? {
        guard let first, let second else { return first ?? second }
        return first.wait >= second.wait ? first : second
    }
}

/// When a write may be made.
package enum RateDecision: Equatable, Sendable {
    case now
    /// It is counted, and is to be made when the time is over.
    case later(RateExcess)
    /// It is not counted.
    case refused(RateExcess)
}

/// What one connection, or one client, has left of its ``WriteRates``.
struct WriteBuckets: Equatable, Sendable {
    private var writes = TokenBucket()
    private var bytes = TokenBucket()

    init() {}

    /// Why a write may not be made now; nil where it may. Of two limits that with the longer wait.
    func excess(at now: MonotonicTime, _ rates: WriteRates) -> RateExcess? {
        let ofWrites = rates.writesPerSecond > 0 ? writes.wait(at: now) : nil
        let ofBytes = rates.bytesPerSecond > 0 ? bytes.wait(at: now) : nil
        return RateExcess.longer(
            ofWrites.map { RateExcess(limit: .writesPerSecond, wait: $0) },
            ofBytes.map { RateExcess(limit: .bytesPerSecond, wait: $0) })
    }

    /// Counts a write.
    mutating func spend(_ byteCount: Int, at now: MonotonicTime, _ rates: WriteRates) {
        if rates.writesPerSecond > 0 { writes.spend(1, perSecond: rates.writesPerSecond, at: now) }
        if rates.bytesPerSecond > 0 { bytes.spend(byteCount, perSecond: rates.bytesPerSecond, at: now) }
    }

    /// Counts bytes of a write that was counted before.
    mutating func spend(moreBytes byteCount: Int, at now: MonotonicTime, _ rates: WriteRates) {
        if rates.bytesPerSecond > 0 { bytes.spend(byteCount, perSecond: rates.bytesPerSecond, at: now) }
    }

    /// Whether nothing of it need be kept.
    func areFull(at now: MonotonicTime) -> Bool { writes.isFull(at: now) && bytes.isFull(at: now) }
}

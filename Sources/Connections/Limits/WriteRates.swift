import PandoREST
import PandoTime

/// How much a client may write in a second (`--max-writes-per-second`, `--max-bytes-per-second`): over one connection, and
/// as one user over all connections.
package struct WriteRates: Equatable, Sendable {
    /// Writes; 0 for no limit.
    package var writesPerSecond = 0
    /// Bytes of their messages or bodies; 0 for no limit.
    package var bytesPerSecond = 0

    package init(writesPerSecond: Int = 0, bytesPerSecond: Int = 0) {
        self.writesPerSecond = writesPerSecond
        self.bytesPerSecond = bytesPerSecond
    }

    var isUnlimited: Bool { writesPerSecond | bytesPerSecond == 0 }
}

/// Why a write is refused, and when another try makes sense.
package struct RateRefusal: Equatable, Sendable {
    package var limit: ClientLimit
    package var wait: Duration

    /// Whole seconds, at least one: for `Retry-After` (RFC 9110 §10.2.3).
    package var retrySeconds: Int {
        let (seconds, attoseconds) = wait.components
        return max(1, Int(clamping: seconds) + (attoseconds > 0 ? 1 : 0))
    }
}

/// What one connection, or one user, has left of its ``WriteRates``.
struct WriteBuckets: Equatable, Sendable {
    private var writes = TokenBucket()
    private var bytes = TokenBucket()

    init() {}

    /// Why a write may not be made now; nil where it may.
    func refusal(at now: MonotonicTime, _ rates: WriteRates) -> RateRefusal? {
        if rates.writesPerSecond > 0, let wait = writes.wait(at: now) {
            return RateRefusal(limit: .writesPerSecond, wait: wait)
        }
        if rates.bytesPerSecond > 0, let wait = bytes.wait(at: now) {
            return RateRefusal(limit: .bytesPerSecond, wait: wait)
        }
        return nil
    }

    /// Counts a write.
    mutating func take(_ byteCount: Int, at now: MonotonicTime, _ rates: WriteRates) {
        if rates.writesPerSecond > 0 { writes.take(1, perSecond: rates.writesPerSecond, at: now) }
        if rates.bytesPerSecond > 0 { bytes.take(byteCount, perSecond: rates.bytesPerSecond, at: now) }
    }

    /// Whether nothing of it need be kept.
    func areFull(at now: MonotonicTime) -> Bool { writes.isFull(at: now) && bytes.isFull(at: now) }
}

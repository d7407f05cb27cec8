import PandoTime

/// When freed memory is given back to the system: each second it is checked whether much is free; and as
/// soon as clients hold much less than before, their memory goes back in portions, so that no trim has much
/// to do.
///
/// Trims hold locks that others need. Those of the first kind take at most a hundredth of the time, those of
/// the second a tenth, for as long as clients' memory is freed.
struct TrimSchedule {
    enum Step: Equatable {
        case nothing
        /// Trim where much is free.
        case check
        case trim
    }

    static let interval: Duration = .seconds(1)
    /// Between two looks at what clients hold, while they hold more than ``portionByteCount``.
    static let lookInterval: Duration = .milliseconds(50)
    /// Bytes that clients hold less than before: a trim of so many takes about 5 ms.
    static let portionByteCount = 32 << 20
    /// The time between two checks, and between two portions, as multiples of the duration of the last.
    static let checkPauseFactor = 100.0
    static let portionPauseFactor = 10.0

    /// Before the next call of ``next(heldByteCount:now:)``.
    private(set) var pause = interval
    /// The most that clients have held since the last trim.
    private var highestByteCount = 0
    private var heldByteCount = 0
    private var nextCheck: MonotonicTime
    private var nextPortion: MonotonicTime

    init(now: MonotonicTime) {
        nextCheck = now + Self.interval
        nextPortion = now
    }

    mutating func next(heldByteCount: Int, now: MonotonicTime) -> Step {
        self.heldByteCount = heldByteCount
        highestByteCount = max(highestByteCount, heldByteCount)
        pause = highestByteCount > Self.portionByteCount ? Self.lookInterval : Self.interval
        if highestByteCount - heldByteCount >= Self.portionByteCount, now >= nextPortion { return .trim }
        return now >= nextCheck ? .check : .nothing
    }

    /// A check or a trim has ended.
    mutating func ended(now: MonotonicTime, after duration: Duration, wasTrimmed: Bool) {
        if wasTrimmed { highestByteCount = heldByteCount }
        nextCheck = now + max(Self.interval, duration * Self.checkPauseFactor)
        nextPortion = now + duration * Self.portionPauseFactor
    }
}

import PandoTime

/// When freed memory is given back to the system. There are two reasons to trim:
///
/// - A check, once a second, finds much free memory. Checks and their trims take at most a hundredth of the
///   time.
/// - Clients hold 32 MiB less than before. These trims take at most a tenth of the time, and none has much to
///   do.
///
/// A trim holds locks for which other threads wait.
struct TrimSchedule {
    enum Step: Equatable {
        case nothing
        /// Trim where much is free.
        case check
        case trim
    }

    static let interval: Duration = .seconds(1)
    /// The time between two looks at what clients hold, while they hold more than ``portionByteCount``.
    static let lookInterval: Duration = .milliseconds(50)
    /// Bytes that clients hold less than before: a trim of so many takes about 5 ms.
    static let portionByteCount = 32 << 20
    /// The time between two checks, and between two portions, as multiples of the duration of the last.
    static let checkPauseFactor = 100.0
    static let portionPauseFactor = 10.0
    /// As ``checkPauseFactor`` behind a portion, and as ``portionPauseFactor`` behind one that brought
    /// little: what clients held has become data, or is not freed yet. A portion of 40 ms then puts the rest
    /// off by little more than a second.
    static let poorPortionPauseFactor = 30.0
    /// A portion that gives less than this back to the system has brought little.
    static let releasedByteCount = portionByteCount / 2

    /// Before the next call of ``next(heldByteCount:now:)``.
    private(set) var pause = interval
    /// The most that clients have held since the last trim.
    private var highestByteCount = 0
    private var heldByteCount = 0
    private var nextCheck: MonotonicTime
    private var nextPortion: MonotonicTime
    /// The last step was a ``Step/trim``.
    private var isPortion = false

    init(now: MonotonicTime) {
        nextCheck = now + Self.interval
        nextPortion = now
    }

    /// What to do now.
    /// - Parameter heldByteCount: The bytes that clients hold.
    mutating func next(heldByteCount: Int, now: MonotonicTime) -> Step {
        self.heldByteCount = heldByteCount
        highestByteCount = max(highestByteCount, heldByteCount)
        let isPortionFree = highestByteCount - heldByteCount >= Self.portionByteCount
        pause = isPortionFree || heldByteCount > Self.portionByteCount ? Self.lookInterval : Self.interval
        isPortion = isPortionFree && now >= nextPortion
        if isPortion { return .trim }
        return now >= nextCheck ? .check : .nothing
    }

    /// A check or a trim has ended.
    /// - Parameter releasedByteCount: What the trim gave back to the system; nil for a check without a trim.
    mutating func ended(now: MonotonicTime, after duration: Duration, releasedByteCount: Int?) {
        highestByteCount = heldByteCount
        let factor = isPortion ? Self.poorPortionPauseFactor : Self.checkPauseFactor
        // A short portion does not bring a check nearer that takes long.
        let check = now + max(Self.interval, duration * factor)
        nextCheck = isPortion ? max(nextCheck, check) : check
        guard let releasedByteCount else { return }
        let isWorthIt = releasedByteCount >= Self.releasedByteCount
        nextPortion = now + duration * (isWorthIt ? Self.portionPauseFactor : factor)
    }
}

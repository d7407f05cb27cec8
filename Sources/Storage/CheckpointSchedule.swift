import PandoReactor
import PandoTime

/// Decides when the next checkpoint is written: when enough journal has gathered, or when it is time. A
/// value: its caller reports events and the time.
///
///     journal grows ──▶ due ──▶ begun ──▶ finished ──▶ the journal it covers counts no more
///                                        └─ failed ──▶ not before 30 s later
struct CheckpointSchedule {
    /// Bytes of journal that make one due.
    private let byteLimit: Int
    /// The time between two that are due by the clock; zero for none.
    private let interval: Duration
    /// Bytes of journal that no checkpoint covers.
    private(set) var journalByteCount: Int
    /// How many of them the checkpoint under way covers.
    private var coveredByteCount = 0
    private var isUnderWay = false
    /// When the next one is due by the clock; nil for never.
    private var deadline: MonotonicTime?
    /// After a failure: none is due before.
    private var retryTime: MonotonicTime?

    private static let retryInterval: Duration = .seconds(30)

    /// - Parameters:
    ///   - byteLimit: Bytes of journal; more than 0.
    ///   - journalByteCount: Bytes of journal that recovery has read behind the last checkpoint.
    init(byteLimit: Int, interval: Duration, journalByteCount: Int) {
        precondition(byteLimit > 0 && journalByteCount >= 0)
        self.byteLimit = byteLimit
        self.interval = interval
        self.journalByteCount = journalByteCount
    }

    /// The clock starts.
    mutating func start(at now: MonotonicTime) {
        if interval > .zero { deadline = now + interval }
    }

    mutating func journalGrew(by byteCount: Int) {
        assert(byteCount >= 0)
        journalByteCount += byteCount
    }

    /// Whether the journal is long enough for one before the server stops.
    var isLongJournal: Bool { !isUnderWay && journalByteCount >= byteLimit / 4 }

    /// When ``beginIfDue(at:)`` is to be called again although the journal does not grow; nil for never.
    var nextCheck: MonotonicTime? {
        guard !isUnderWay else { return nil }
        if journalByteCount >= byteLimit { return retryTime ?? deadline }
        return deadline.map { max($0, retryTime ?? $0) }
    }

    /// - Returns: Whether a checkpoint is due; then it counts as under way.
    mutating func beginIfDue(at now: MonotonicTime) -> Bool {
        guard !isUnderWay, retryTime.map({ $0 <= now }) ?? true else { return false }
        let isTime = deadline.map { $0 <= now } ?? false
        guard journalByteCount >= byteLimit || isTime else { return false }
        if interval > .zero { deadline = now + interval }
        guard journalByteCount > 0 else { return false }
        isUnderWay = true
        return true
    }

    /// A snapshot was taken behind all of the journal so far.
    mutating func snapshotTaken() { coveredByteCount = journalByteCount }

    /// The snapshot is being written.
    mutating func began() { isUnderWay = true }

    /// - Parameter isWritten: Whether there is a new checkpoint.
    mutating func finished(isWritten: Bool, at now: MonotonicTime) {
        isUnderWay = false
        if isWritten { journalByteCount -= coveredByteCount }
        // Two may be under way when the server stops: the second must not subtract the same bytes again.
        coveredByteCount = 0
        retryTime = isWritten ? nil : now + Self.retryInterval
        assert(journalByteCount >= 0, "a checkpoint covers no more journal than there is")
    }
}

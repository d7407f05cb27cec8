import PandoTime

/// When the trees are counted: where something was written since the last count, and in at most a hundredth
/// of one processor's time.
struct TreeCountSchedule {
    /// The time between two counts, at least.
    static let interval: Duration = .seconds(10)
    /// The pause after a count, as a multiple of its duration.
    static let pauseFactor = 100.0

    /// Before the next call of ``isDue(commitCount:)``.
    private(set) var pause = interval
    /// Of the last count; nil before the first.
    private var countedCommitCount: UInt64?

    /// - Parameter commitCount: Commits since the start, read before the trees: they hold at least these.
    mutating func isDue(commitCount: UInt64) -> Bool {
        pause = Self.interval
        return commitCount != countedCommitCount
    }

    mutating func counted(commitCount: UInt64, in duration: Duration) {
        countedCommitCount = commitCount
        pause = max(Self.interval, duration * Self.pauseFactor)
    }
}

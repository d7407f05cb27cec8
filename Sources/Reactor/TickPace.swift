import PandoTime

/// How long work of one tick has taken that comes in pieces. The clock is looked at now and then: not at all
/// where there is little to do.
struct TickPace {
    /// nil until the clock was looked at.
    private var began: MonotonicTime?
    /// Pieces since the clock was last looked at.
    private var count = 0

    /// Short pieces, of some microseconds each, between two readings of the clock.
    static let uncheckedLimit = 8

    /// - Parameter began: nil where the time is not known: the first look at the clock then begins.
    init(began: MonotonicTime? = nil) {
        self.began = began
    }

    /// After a piece of work.
    /// - Parameter wasLong: It may have taken long.
    /// - Returns: Whether what follows is for the next tick.
    @inline(__always) mutating func isOver(_ configuration: LoopConfiguration, wasLong: Bool = false) -> Bool
    {
        count += 1
        guard wasLong || count >= Self.uncheckedLimit else { return false }
        count = 0
        let time = configuration.clock()
        guard let began else {
            began = time
            return false
        }
        return time - began > configuration.tickShare
    }
}

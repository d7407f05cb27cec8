import PandoReactor
import PandoTime

/// How long one turn of the ``DatabaseHost`` has worked, by the readings of a clock.
struct TurnTimer {
    let began: MonotonicTime
    private var lastReading: MonotonicTime

    init(began: MonotonicTime) {
        self.began = began
        lastReading = began
    }

    /// Nanoseconds from its beginning to the last reading.
    var elapsed: UInt64 { lastReading.nanoseconds &- began.nanoseconds }

    /// - Returns: Nanoseconds since the last reading.
    mutating func readClock(_ now: MonotonicTime) -> Int {
        let work = (now - lastReading).nanosecondCount
        lastReading = max(now, lastReading)
        return Int(clamping: work)
    }
}

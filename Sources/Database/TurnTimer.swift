import PandoStorage
import PandoTime

/// How long one turn of the ``DatabaseHost`` has worked, by the readings of a clock.
struct TurnTimer {
    let began: MonotonicTime
    private var lastReading: MonotonicTime
    /// The clock, and nanoseconds of the thread's processor time, when both were read together.
    private var checked: (time: MonotonicTime, threadNanoseconds: UInt64)?

    /// Nanoseconds from which on it is checked whether a request has really worked so long.
    private static let checkedWork = RequestBacklog.quantum / 2

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

    /// From now on ``work(_:by:)`` is known.
    mutating func beginChecks(by environment: Environment) {
        checked = (lastReading, environment.threadNanoseconds)
    }

    /// How long a request has worked: without the time in which other threads had the processor. A session
    /// must not owe the others what it has waited itself.
    /// - Parameter measured: Nanoseconds by the clock, up to the last reading.
    mutating func work(_ measured: Int, by environment: Environment) -> Int {
        guard measured > Self.checkedWork, let before = checked else { return measured }
        beginChecks(by: environment)
        guard let now = checked else { return measured }
        let passed = Int(clamping: (now.time - before.time).nanosecondCount)
        let worked = Int(clamping: now.threadNanoseconds &- before.threadNanoseconds)
        return max(0, measured - max(0, passed - worked))
    }
}

import PandoStorage
import PandoTime

/// How long one turn of the ``DatabaseHost`` has worked, by the readings of a clock.
struct TurnTimer {
    let began: MonotonicTime
    private var lastReading: MonotonicTime
    /// A reading of the clock, and the thread's processor time in nanoseconds, which was read right after it.
    private var processorReading: (time: MonotonicTime, threadNanoseconds: UInt64)?

    /// Nanoseconds by the clock from which on the thread's processor time is read, too: a system call.
    private static let longWork = RequestBacklog.quantum / 2

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

    /// Whether more time than that has passed since the last reading. Never by a scripted clock: to read it
    /// would advance it.
    /// - Parameter duration: Nanoseconds.
    func hasWorked(longerThan duration: UInt64, by environment: Environment) -> Bool {
        guard environment.hasWorkers else { return false }
        return (environment.workTime - lastReading).nanosecondCount > duration
    }

    /// Reads the thread's processor time. Before ``work(_:by:)``, which otherwise gives what was measured.
    mutating func readProcessorTime(by environment: Environment) {
        processorReading = (lastReading, environment.threadProcessorNanoseconds)
    }

    /// The work with which a session is charged: no time in which another thread had the processor, if the
    /// request took long by the clock. (What the thread has waited during shorter requests since the last
    /// reading is subtracted, too.)
    /// - Parameter measured: Nanoseconds by the clock, up to the last reading.
    mutating func work(_ measured: Int, by environment: Environment) -> Int {
        guard measured > Self.longWork, let before = processorReading else { return measured }
        readProcessorTime(by: environment)
        guard let now = processorReading else { return measured }
        let passed = Int(clamping: (now.time - before.time).nanosecondCount)
        let worked = Int(clamping: now.threadNanoseconds &- before.threadNanoseconds)
        return max(0, measured - max(0, passed - worked))
    }
}

/// Milliseconds since 1970 that never go back, even when the machine's clock is set back: the order of
/// times is the order of commits. Used by one thread at a time.
///
/// A class, and the environment is asked before the property is changed: then the compiler sees that nothing
/// else accesses the property meanwhile, and a debug build checks nothing (125 instructions per command).
package final class WallClock {
    /// The time of the last reading.
    package private(set) var last: Int64
    /// By how much the machine's clock was behind ``last`` at the last reading: it was set back, or was ahead
    /// when the journal was written. Milliseconds; 0 mostly.
    package private(set) var machineLag: Int64 = 0
    private let environment: Environment

    /// - Parameter last: The latest time that was written to the journal; milliseconds since 1970.
    package init(notBefore last: Int64 = 0, in environment: Environment = .machine) {
        self.last = last
        self.environment = environment
    }

    /// Reads the machine's clock.
    /// - Returns: Its time, or ``last`` where that is later.
    @discardableResult
    package func now() -> Int64 {
        let time = environment.wallMilliseconds
        if time >= last {
            last = time
            machineLag = 0
        } else {
            // No overflow: both are milliseconds of a clock, or of a record that was read.
            machineLag = last.subtractingReportingOverflow(time).partialValue
        }
        return last
    }
}

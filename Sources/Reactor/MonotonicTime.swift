import COperatingSystem

/// A time on the machine's monotonic clock (CLOCK_MONOTONIC): it never jumps, and cannot be compared with
/// that of another machine or of another boot.
package struct MonotonicTime: Comparable, Hashable, Sendable {
    /// Since an unspecified moment.
    package var nanoseconds: UInt64

    package init(nanoseconds: UInt64) {
        self.nanoseconds = nanoseconds
    }

    /// Reads the clock (about 20 ns, no system call). On a loop, `loop.now` costs less.
    package static var now: MonotonicTime { MonotonicTime(nanoseconds: pando_monotonic_ns()) }

    package static func < (left: MonotonicTime, right: MonotonicTime) -> Bool {
        left.nanoseconds < right.nanoseconds
    }

    /// Saturates at the end of the clock's range.
    package static func + (time: MonotonicTime, wait: Duration) -> MonotonicTime {
        let (sum, overflows) = time.nanoseconds.addingReportingOverflow(wait.wholeNanoseconds)
        return MonotonicTime(nanoseconds: overflows ? .max : sum)
    }

    /// How long after `right` this is; zero if it is not after.
    package static func - (left: MonotonicTime, right: MonotonicTime) -> Duration {
        left <= right ? .zero : .nanoseconds(Int64(clamping: left.nanoseconds - right.nanoseconds))
    }
}

extension Duration {
    /// Whole nanoseconds; 0 for a negative duration.
    package var nanosecondCount: UInt64 { wholeNanoseconds }

    /// Saturates at both ends: a negative duration gives 0.
    var wholeNanoseconds: UInt64 {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        let (whole, overflows) = UInt64(seconds).multipliedReportingOverflow(by: 1_000_000_000)
        guard !overflows else { return .max }
        let (sum, overflowsToo) = whole.addingReportingOverflow(UInt64(attoseconds) / 1_000_000_000)
        return overflowsToo ? .max : sum
    }

    /// Rounded up, so that a wait is never shorter than asked for; clamped to 31 bits, as the kernel takes
    /// it.
    var wholeMilliseconds: Int32 {
        let nanoseconds = wholeNanoseconds
        return Int32(clamping: nanoseconds / 1_000_000 + (nanoseconds % 1_000_000 == 0 ? 0 : 1))
    }
}

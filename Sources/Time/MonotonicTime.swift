/// A time on the machine's monotonic clock (CLOCK_MONOTONIC): it never jumps, and cannot be compared with
/// that of another machine or of another boot.
package struct MonotonicTime: Comparable, Hashable, Sendable {
    /// Since an unspecified moment.
    package var nanoseconds: UInt64

    @inlinable
    package init(nanoseconds: UInt64) {
        self.nanoseconds = nanoseconds
    }

    @inlinable
    package static func < (left: MonotonicTime, right: MonotonicTime) -> Bool {
        left.nanoseconds < right.nanoseconds
    }

    /// Saturates at the end of the clock's range.
    @inlinable
    package static func + (time: MonotonicTime, wait: Duration) -> MonotonicTime {
        let (sum, overflows) = time.nanoseconds.addingReportingOverflow(wait.nanosecondCount)
        return MonotonicTime(nanoseconds: overflows ? .max : sum)
    }

    /// How long after `right` this is; zero if it is not after.
    @inlinable
    package static func - (left: MonotonicTime, right: MonotonicTime) -> Duration {
        left <= right ? .zero : .nanoseconds(Int64(clamping: left.nanoseconds - right.nanoseconds))
    }
}

extension Duration {
    /// Whole nanoseconds. Saturates at both ends: 0 for a negative duration.
    @inlinable
    package var nanosecondCount: UInt64 {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        let (whole, overflows) = UInt64(seconds).multipliedReportingOverflow(by: 1_000_000_000)
        guard !overflows else { return .max }
        let (sum, overflowsToo) = whole.addingReportingOverflow(UInt64(attoseconds) / 1_000_000_000)
        return overflowsToo ? .max : sum
    }
}

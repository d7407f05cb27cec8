import PandoTime

/// The first moment of every test.
let testStart = MonotonicTime(nanoseconds: 1_000_000_000_000)

/// A moment, in seconds behind ``testStart``.
func second(_ seconds: Double) -> MonotonicTime {
    testStart + .milliseconds(Int(seconds * 1000))
}

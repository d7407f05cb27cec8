import Histogram

/// Latencies in nanoseconds, to three digits, up to an hour.
typealias Latencies = Histogram<UInt64>

func makeLatencies() -> Latencies {
    Latencies(
        lowestDiscernibleValue: 1_000, highestTrackableValue: 3_600_000_000_000,
        numberOfSignificantValueDigits: .three)
}

/// What one worker has seen in one second.
struct Interval: Sendable {
    /// The second since the workers started.
    let second: Int
    var operations = 0
    var deliveries = 0
    var errors = 0
    /// By series; empty ones are nil.
    var latencies: [Latencies?]

    init(second: Int, seriesCount: Int) {
        self.second = second
        latencies = Array(repeating: nil, count: seriesCount)
    }

    mutating func merge(_ other: Interval) {
        operations += other.operations
        deliveries += other.deliveries
        errors += other.errors
        for (index, theirs) in other.latencies.enumerated() {
            guard let theirs else { continue }
            if latencies[index] == nil { latencies[index] = makeLatencies() }
            latencies[index]?.add(theirs)
        }
    }
}

/// One worker's counters. What was meant to be sent outside the measured window has no latency here.
struct Tally {
    private let seriesCount: Int
    private var interval: Interval
    /// Measured: moments from … up to.
    private let window: Range<Int>
    /// All of the run, warm-up and drain included.
    private(set) var operationCount = 0
    private(set) var deliveryCount = 0
    /// In the window, by the time they happened.
    private(set) var measuredOperationCount = 0
    private(set) var measuredDeliveryCount = 0
    /// Sends that left later than they were meant to: the harness's own lag.
    private(set) var lag = makeLatencies()

    init(seriesCount: Int, window: Range<Int>) {
        self.seriesCount = seriesCount
        self.window = window
        interval = Interval(second: 0, seriesCount: seriesCount)
    }

    mutating func operationDone(at now: Int) {
        operationCount += 1
        interval.operations += 1
        if window.contains(now) { measuredOperationCount += 1 }
    }

    mutating func delivered(at now: Int) {
        deliveryCount += 1
        interval.deliveries += 1
        if window.contains(now) { measuredDeliveryCount += 1 }
    }

    /// Attempts that somebody else's write has made useless.
    private(set) var retryCount = 0

    mutating func retried() { retryCount += 1 }

    mutating func failed() { interval.errors += 1 }

    /// Something that was meant for `intended` has happened.
    mutating func record(_ series: Int, since intended: Int, at now: Int) {
        guard window.contains(intended) else { return }
        recordAlways(series, since: intended, at: now)
    }

    /// The same, inside the window or not.
    mutating func recordAlways(_ series: Int, since intended: Int, at now: Int) {
        if interval.latencies[series] == nil { interval.latencies[series] = makeLatencies() }
        _ = interval.latencies[series]?.record(UInt64(max(0, now - intended)))
    }

    mutating func sent(intended: Int, at now: Int) {
        guard window.contains(intended) else { return }
        _ = lag.record(UInt64(max(0, now - intended)))
    }

    /// Gives what has gathered, and begins `second`.
    mutating func turn(to second: Int) -> Interval {
        let full = interval
        interval = Interval(second: second, seriesCount: seriesCount)
        return full
    }
}

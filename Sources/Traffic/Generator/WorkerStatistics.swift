import Histogram

/// Latencies in nanoseconds, to three digits, up to an hour.
package typealias Latencies = Histogram<UInt64>

/// An empty histogram.
package func makeLatencies() -> Latencies {
    Latencies(
        lowestDiscernibleValue: 1_000, highestTrackableValue: 3_600_000_000_000,
        numberOfSignificantValueDigits: .three)
}

/// Counts and latencies of one worker in one second.
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

/// Latencies of one series. Equal ones that follow each other, as those of one read often do, are counted and
/// enter the histogram together.
final class LatencyLog {
    private var latencies = makeLatencies()
    /// The equal latencies that are not in ``latencies`` yet.
    private var runValue: UInt64 = 0
    private var runCount: UInt64 = 0

    func record(_ nanoseconds: Int) {
        let value = UInt64(max(0, nanoseconds))
        if value == runValue {
            runCount += 1
        } else {
            endRun()
            (runValue, runCount) = (value, 1)
        }
    }

    private func endRun() {
        if runCount > 0 { latencies.record(runValue, count: runCount) }
        runCount = 0
    }

    /// Returns what was recorded, and begins a new histogram; nil when nothing was recorded.
    func take() -> Latencies? {
        endRun()
        guard latencies.totalCount > 0 else { return nil }
        let full = latencies
        latencies = makeLatencies()
        return full
    }

    /// What was recorded since the last ``take()``.
    var recorded: Latencies {
        endRun()
        return latencies
    }
}

/// One worker's counters and latencies. An operation that was due outside the measured period has no latency
/// here.
final class WorkerStatistics {
    private let logs: [LatencyLog]
    private let lagLog = LatencyLog()
    /// Measured: moments from … up to.
    private var windowStart = 0
    private var windowEnd = 0
    /// All of the run, warm-up and drain included.
    private(set) var operationCount = 0
    private(set) var deliveryCount = 0
    private var errorCount = 0
    /// The sum of the values' numbers, modulo 2^64.
    private(set) var checksum: UInt64 = 0
    /// In the measured period, by the time they happened.
    private(set) var measuredOperationCount = 0
    private(set) var measuredDeliveryCount = 0
    private(set) var measuredRequestCount = 0
    /// Attempts of transactions that another write made stale.
    private(set) var retryCount = 0
    /// The interval under way: its second, and the counts at its beginning.
    private var second = 0
    private var countsBefore = (operations: 0, deliveries: 0, errors: 0)

    init(seriesCount: Int) {
        logs = (0..<seriesCount).map { _ in LatencyLog() }
    }

    /// The run begins; what was counted before is forgotten.
    func begin(window: Range<Int>) {
        (windowStart, windowEnd) = (window.lowerBound, window.upperBound)
        (operationCount, deliveryCount, errorCount) = (0, 0, 0)
        checksum = 0
        (measuredOperationCount, measuredDeliveryCount, retryCount, measuredRequestCount) = (0, 0, 0, 0)
        for log in logs + [lagLog] { _ = log.take() }
        _ = turn(to: 0)
    }

    private func isMeasured(_ moment: Int) -> Bool { moment >= windowStart && moment < windowEnd }

    func operationDone(at now: Int, number: Int = 0) {
        operationCount += 1
        checksum &+= UInt64(truncatingIfNeeded: number)
        if isMeasured(now) { measuredOperationCount += 1 }
    }

    func delivered(at now: Int, number: Int = 0) {
        deliveryCount += 1
        checksum &+= UInt64(truncatingIfNeeded: number)
        if isMeasured(now) { measuredDeliveryCount += 1 }
    }

    /// An HTTP request that carries the realtime protocol has left.
    func requested(at now: Int) {
        if isMeasured(now) { measuredRequestCount += 1 }
    }

    func retried() { retryCount += 1 }

    func failed() { errorCount += 1 }

    /// Records the latency of something that was due at `intended`.
    func record(_ series: Int, since intended: Int, at now: Int) {
        guard isMeasured(intended) else { return }
        recordAlways(series, since: intended, at: now)
    }

    /// The same, inside the measured period or not.
    func recordAlways(_ series: Int, since intended: Int, at now: Int) {
        logs[series].record(now - intended)
    }

    func sent(intended: Int, at now: Int) {
        guard isMeasured(intended) else { return }
        lagLog.record(now - intended)
    }

    /// How late operations were sent that were due at a moment: the generator's own lag.
    var lag: Latencies { lagLog.recorded }

    /// Returns the counts of the interval that ends, and begins `second`.
    func turn(to second: Int) -> Interval {
        var full = Interval(second: self.second, seriesCount: logs.count)
        full.operations = operationCount - countsBefore.operations
        full.deliveries = deliveryCount - countsBefore.deliveries
        full.errors = errorCount - countsBefore.errors
        full.latencies = logs.map { $0.take() }
        countsBefore = (operationCount, deliveryCount, errorCount)
        self.second = second
        return full
    }
}

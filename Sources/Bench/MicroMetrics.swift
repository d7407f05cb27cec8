import PandoMetrics
import PandoReactor
import PandoTime

// What counting costs a durable set. The numbers are those of `DatabaseMetrics`, `SessionMetrics`,
// `LoopMetrics` and `StorageMetrics` that it reaches: once for each set, and once for the batch in which it
// is processed. Under load many sets share a batch.

private enum Kind: UInt8, CaseIterable, Sendable { case put, other }

/// The cells that a set adds to, as the threads of a server have them.
private final class SetCells {
    let requests = CounterTable<Kind>()
    let evaluations = Counter()
    let commits = Counter()
    let pushes = Counter()
    let replies = Counter()
    let sentPushes = Counter()
    let received = Counter()
    let queued = Gauge()
    let sent = Counter()
    let written = Counter()
    let turns = Histogram.durations
    let ticks = Histogram.durations
    let syncs = Histogram.durations
    let acknowledgements = Histogram.durations
    let deliveries = Histogram.durations
    let batches = Histogram.counts
    let batchBytes = Histogram.bytes

    /// Adds what is counted once for each set; its received bytes are counted with the batch.
    func addSet() {
        requests.add(.put)
        evaluations.add()
        commits.add()
        pushes.add(0)
        queued.add(60)
    }

    /// One read, turn, write to the journal, sync and send, and the clock where nothing else reads it.
    func addBatch(of count: Int) {
        received.add(150 * count)
        turns.observe(20_000)
        batches.observe(1)
        batchBytes.observe(UInt64(200 * count))
        written.add(200 * count)
        let began = MonotonicTime.now
        syncs.observe((.now - began).nanosecondCount + 300_000)
        for _ in 0..<2 { ticks.observe(MonotonicTime.now.nanoseconds & 63 + 20_000) }
        sent.add(60 * count)
        queued.add(-60 * count)
        replies.add(count)
        sentPushes.add(0)
        acknowledgements.observe(400_000, count: UInt64(count))
        deliveries.observe(400_000, count: 0)
    }
}

func metricTimings(_ effort: MicroEffort) -> [Timing] {
    let cells = SetCells()
    var setCount: UInt64 = 0
    func add(_ count: Int) -> Bool {
        for _ in 0..<count { cells.addSet() }
        cells.addBatch(of: count)
        setCount += UInt64(count)
        return cells.commits.value == setCount
    }
    return [
        Timing("metrics, all that one set adds", effort) { add(1) },
        Timing("metrics, all that 64 sets in a batch add", effort) { add(64) },
    ]
}

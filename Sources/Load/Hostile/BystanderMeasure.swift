import PandoTraffic

/// What the bystander saw in one phase. Latency counts from the moment at which an operation was due.
struct BystanderMeasure: Sendable {
    /// By ``BystanderOperation``; what was never answered is in with the time it has waited.
    var latencies = BystanderOperation.allCases.map { _ in makeLatencies() }
    /// How late operations were sent: the harness's own share.
    var lag = makeLatencies()
    var slowest = SlowestOperations()
    var unanswered = 0
    var refused = 0
    /// Its connections stood at the end of the phase.
    var isConnected = true

    var all: Latencies {
        var sum = makeLatencies()
        for one in latencies { sum.add(one) }
        return sum
    }
}

import PandoReactor
import PandoTraffic

/// The counters at one moment.
struct Snapshot {
    let time = MonotonicTime.now
    let completedCount: Int
    let deliveryCount: Int
    /// Nanoseconds of processor time since each process began, all threads.
    let clientNanoseconds = processorNanoseconds(of: 0) ?? 0
    let serverNanoseconds: UInt64?

    init(_ serverProcess: Int32?, completed: Int, deliveries: Int) {
        completedCount = completed
        deliveryCount = deliveries
        serverNanoseconds = serverProcess.flatMap { processorNanoseconds(of: $0) }
    }
}

/// What came out of a run.
struct Measurement: Sendable {
    let seconds: Double
    /// Messages done, and deliveries to connections, in that time.
    let completedCount: Int
    let deliveryCount: Int
    /// Microseconds from sending to the last one it is for: 50, 90, 99, 99.9 %, and the longest.
    let latencies: [(name: String, microseconds: Int)]
    /// Over the whole run, warm-up and drain included.
    let sentCount: Int
    let totalDeliveryCount: Int
    let checksum: UInt64
    /// Share of one processor.
    let clientLoad: Double
    let serverLoad: Double?
    let problems: [String]

    init(
        from first: Snapshot, to last: Snapshot, latencies: Latencies, sentCount: Int,
        totalDeliveryCount: Int, checksum: UInt64, problems: [String]
    ) {
        let nanoseconds = Double(max(1, last.time.nanoseconds - first.time.nanoseconds))
        seconds = nanoseconds / 1e9
        completedCount = last.completedCount - first.completedCount
        deliveryCount = last.deliveryCount - first.deliveryCount
        let shares = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)]
        self.latencies =
            shares.compactMap { name, share in latencies.percentile(share).map { (name, $0) } }
            + (latencies.count > 0 ? [("max", latencies.maximum)] : [])
        self.sentCount = sentCount
        self.totalDeliveryCount = totalDeliveryCount
        self.checksum = checksum
        clientLoad = Double(last.clientNanoseconds - first.clientNanoseconds) / nanoseconds
        if let before = first.serverNanoseconds, let after = last.serverNanoseconds {
            serverLoad = Double(after - before) / nanoseconds
        } else {
            serverLoad = nil
        }
        self.problems = problems
    }

    var messagesPerSecond: Double { Double(completedCount) / seconds }
    var deliveriesPerSecond: Double { Double(deliveryCount) / seconds }

    /// Processor time of the server per delivery, in microseconds: what it costs, however many others share
    /// the machine.
    var serverMicrosecondsPerDelivery: Double? {
        guard let serverLoad, deliveryCount > 0 else { return nil }
        return serverLoad * seconds * 1e6 / Double(deliveryCount)
    }
}

import PandoReactor
import PandoTraffic

/// One second of a run, all workers together.
struct Second: Sendable {
    let second: Int
    let operations: Int
    let deliveries: Int
    let errors: Int
    /// Microseconds; nil in a second without any.
    let p50: Double?
    let p99: Double?
}

/// What a run against one target came to.
struct Outcome: Sendable {
    let plan: Plan
    /// Length of the measured window.
    let seconds: Double
    /// In the window.
    let operations: Int
    let deliveries: Int
    /// HTTP requests that carried the realtime protocol; none over WebSockets.
    var httpRequests = 0
    /// Over all the run.
    let totalOperations: Int
    let totalDeliveries: Int
    let retries: Int
    let unsent: Int
    let series: [(name: String, latencies: Latencies)]
    let lag: Latencies
    let timeline: [Second]
    let findings: Findings
    /// Share of one processor in the window.
    let ownLoad: Double
    let serverLoad: Double?
    /// Resident bytes of the server before anybody connected, and when everybody was.
    let serverMemory: (before: Int, after: Int)?
    let wasInterrupted: Bool
    /// The run's data could not be removed; it is here.
    let leftBehind: String?

    var operationsPerSecond: Double { Double(operations) / max(seconds, 1e-9) }
    var deliveriesPerSecond: Double { Double(deliveries) / max(seconds, 1e-9) }

    /// HTTP requests per operation and delivery.
    var httpRequestsPerMessage: Double? {
        let messages = operations + deliveries
        return messages > 0 && plan.target.transport == .longPolling
            ? Double(httpRequests) / Double(messages) : nil
    }

    /// What a run against a peer is compared by: deliveries where there are any.
    var mainRate: Double { deliveries > 0 ? deliveriesPerSecond : operationsPerSecond }

    /// Processor time of the harness per operation and delivery, in microseconds.
    var ownMicrosecondsPerMessage: Double? {
        let messages = operations + deliveries
        return messages > 0 ? ownLoad * seconds * 1e6 / Double(messages) : nil
    }

    var serverMicrosecondsPerMessage: Double? {
        let messages = operations + deliveries
        guard let serverLoad, messages > 0 else { return nil }
        return serverLoad * seconds * 1e6 / Double(messages)
    }

    /// Bytes that a connection has cost the server.
    var serverBytesPerConnection: Double? {
        guard let serverMemory, plan.connectionCount > 0 else { return nil }
        return Double(serverMemory.after - serverMemory.before) / Double(plan.connectionCount)
    }
}

extension Latencies {
    /// Percentiles that are shown, with their names, in microseconds; none without a value.
    var shown: [(name: String, microseconds: Double)] {
        guard totalCount > 0 else { return [] }
        let percentiles: [(String, Double)] = [
            ("p50", 50), ("p90", 90), ("p99", 99), ("p99.9", 99.9), ("p99.99", 99.99),
        ]
        return percentiles.map { ($0.0, microseconds(at: $0.1)) } + [("max", Double(max) / 1000)]
    }

    /// 0 without a value.
    func microseconds(at percentile: Double) -> Double {
        totalCount > 0 ? Double(valueAtPercentile(percentile)) / 1000 : 0
    }
}

/// Resident bytes of a process; nil when there is none such.
func residentByteCount(of process: Int32) -> Int? {
    guard let status = readWholeFile("/proc/\(process)/status") else { return nil }
    for line in status.split(separator: "\n") where line.hasPrefix("VmRSS:") {
        return line.split(separator: " ").compactMap { Int($0) }.first.map { $0 * 1024 }
    }
    return nil
}

import PandoReactor

/// One second of a run, all workers together.
package struct Second: Sendable {
    package let second: Int
    package let operations: Int
    package let deliveries: Int
    package let errors: Int
    /// Microseconds; nil in a second without any.
    package let p50: Double?
    package let p99: Double?
}

/// The results of a run against one target.
package struct Outcome: Sendable {
    package let plan: Plan
    /// Length of the measured period.
    package let seconds: Double
    /// In it.
    package let operations: Int
    package let deliveries: Int
    /// HTTP requests that carried the realtime protocol; none over WebSockets.
    package var httpRequests = 0
    /// Over all the run.
    package let totalOperations: Int
    package let totalDeliveries: Int
    /// The sum of the numbers of all values that were acknowledged or delivered, modulo 2^64.
    package var checksum: UInt64 = 0
    package let retries: Int
    package let unsent: Int
    package let series: [(name: String, latencies: Latencies)]
    package let lag: Latencies
    package let timeline: [Second]
    package let findings: Findings
    /// Share of one processor in the measured period.
    package let ownLoad: Double
    package let serverLoad: Double?
    /// Resident bytes of the server before the first connection, and with all connections.
    package let serverMemory: (before: Int, after: Int)?
    package let wasInterrupted: Bool
    /// The run's data could not be removed; it is here.
    package let leftBehind: String?

    package var operationsPerSecond: Double { Double(operations) / max(seconds, 1e-9) }
    package var deliveriesPerSecond: Double { Double(deliveries) / max(seconds, 1e-9) }

    /// HTTP requests per operation and delivery.
    package var httpRequestsPerMessage: Double? {
        let messages = operations + deliveries
        return messages > 0 && plan.target.transport == .longPolling
            ? Double(httpRequests) / Double(messages) : nil
    }

    /// The rate by which targets are compared: deliveries where there are any.
    package var mainRate: Double { deliveries > 0 ? deliveriesPerSecond : operationsPerSecond }

    /// Processor time of the harness per operation and delivery, in microseconds.
    package var ownMicrosecondsPerMessage: Double? {
        let messages = operations + deliveries
        return messages > 0 ? ownLoad * seconds * 1e6 / Double(messages) : nil
    }

    package var serverMicrosecondsPerMessage: Double? {
        let messages = operations + deliveries
        guard let serverLoad, messages > 0 else { return nil }
        return serverLoad * seconds * 1e6 / Double(messages)
    }

    /// Resident bytes of the server per connection.
    package var serverBytesPerConnection: Double? {
        guard let serverMemory, plan.connectionCount > 0 else { return nil }
        return Double(serverMemory.after - serverMemory.before) / Double(plan.connectionCount)
    }
}

extension Latencies {
    /// Percentiles that are shown, with their names, in microseconds; none without a value.
    package var shown: [(name: String, microseconds: Double)] {
        guard totalCount > 0 else { return [] }
        let percentiles: [(String, Double)] = [
            ("p50", 50), ("p90", 90), ("p99", 99), ("p99.9", 99.9), ("p99.99", 99.99),
        ]
        return percentiles.map { ($0.0, microseconds(at: $0.1)) } + [("max", Double(max) / 1000)]
    }

    /// 0 without a value.
    package func microseconds(at percentile: Double) -> Double {
        totalCount > 0 ? Double(valueAtPercentile(percentile)) / 1000 : 0
    }
}

/// Resident bytes of a process; nil when there is none such.
package func residentByteCount(of process: Int32) -> Int? {
    guard let status = readWholeFile("/proc/\(process)/status") else { return nil }
    for line in status.split(separator: "\n") where line.hasPrefix("VmRSS:") {
        return line.split(separator: " ").compactMap { Int($0) }.first.map { $0 * 1024 }
    }
    return nil
}

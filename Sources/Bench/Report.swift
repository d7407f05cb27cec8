//  Results as lines for people, or as one JSON object per line for programs.

import PandoTraffic

/// The outcome of one measurement, and its name.
struct Report: Sendable {
    let name: String
    let outcome: Outcome

    static let heading = [
        "", "messages/s", "deliveries/s", "p50 µs", "p99 µs", "max µs", "server µs/delivery", "server CPU",
        "client CPU",
    ]

    /// Round trips have no listeners: their responses are the deliveries.
    private var hasListeners: Bool {
        if case .fanOut = outcome.plan.work { true } else { false }
    }

    private var deliveryCount: Int { hasListeners ? outcome.deliveries : outcome.operations }

    private var totalDeliveryCount: Int {
        hasListeners ? outcome.totalDeliveries : outcome.totalOperations
    }

    var deliveriesPerSecond: Double { Double(deliveryCount) / max(outcome.seconds, 1e-9) }

    /// Processor time of the server per delivery, in microseconds: what it costs, however many other
    /// processes share the machine.
    var serverMicrosecondsPerDelivery: Double? {
        guard let load = outcome.serverLoad, deliveryCount > 0 else { return nil }
        return load * outcome.seconds * 1e6 / Double(deliveryCount)
    }

    /// From sending until the response has come, and all listeners have the value: names and microseconds.
    private var latencies: [(name: String, microseconds: Int)] {
        let whole = outcome.series.last?.latencies.shown ?? []
        return whole.filter { $0.name != "p99.99" }.map { ($0.name, Int($0.microseconds.rounded())) }
    }

    /// What was wrong; empty if nothing. An interrupted measurement is wrong too.
    var problems: [String] {
        let counts = outcome.findings.counts.filter { $0.count > 0 }.map { "\($0.count) \($0.name)" }
        return (outcome.wasInterrupted ? ["interrupted"] : [])
            + (counts.isEmpty ? [] : [counts.joined(separator: ", ")]) + outcome.findings.examples
            + (outcome.leftBehind.map { ["the data at \($0) could not be removed"] } ?? [])
    }

    /// Cells under ``heading``.
    var row: [String] {
        let latencies = Dictionary(
            self.latencies.map { ($0.name, String($0.microseconds)) }, uniquingKeysWith: { $1 })
        return [
            name,
            Figures.grouped(outcome.operationsPerSecond),
            Figures.grouped(deliveriesPerSecond),
            latencies["p50"] ?? "-",
            latencies["p99"] ?? "-",
            latencies["max"] ?? "-",
            serverMicrosecondsPerDelivery.map { Figures.decimal($0, places: 2) } ?? "-",
            outcome.serverLoad.map { Figures.decimal($0 * 100, places: 0) + " %" } ?? "-",
            Figures.decimal(outcome.ownLoad * 100, places: 0) + " %",
        ]
    }

    /// Everything, for one measurement alone.
    var text: String {
        let latencies = self.latencies.map { "\($0.name) \($0.microseconds)" }.joined(separator: "  ")
        let row = self.row
        return """
            \(name)
              \(row[1]) messages/s, \(row[2]) deliveries/s, over \(Figures.decimal(outcome.seconds, places: 2)) s
              latency in µs: \(latencies)
              CPU: server \(row[7]), \(row[6]) µs/delivery; this client \(row[8])
              in all: \(outcome.totalOperations) sent, \(totalDeliveryCount) delivered, \
            checksum \(outcome.checksum)
            """ + problems.map { "\n  WRONG: \($0)" }.joined()
    }

    /// One line of JSON.
    var json: String {
        var members = [
            ("name", Figures.quoted(name)),
            ("seconds", Figures.decimal(outcome.seconds, places: 6)),
            ("messages", String(outcome.operations)),
            ("deliveries", String(deliveryCount)),
            ("messagesPerSecond", Figures.decimal(outcome.operationsPerSecond, places: 1)),
            ("deliveriesPerSecond", Figures.decimal(deliveriesPerSecond, places: 1)),
            ("clientCPU", Figures.decimal(outcome.ownLoad, places: 4)),
            ("totalSent", String(outcome.totalOperations)),
            ("totalDelivered", String(totalDeliveryCount)),
            ("checksum", String(outcome.checksum)),
        ]
        if let load = outcome.serverLoad {
            members.append(("serverCPU", Figures.decimal(load, places: 4)))
        }
        if let cost = serverMicrosecondsPerDelivery {
            members.append(("serverMicrosecondsPerDelivery", Figures.decimal(cost, places: 4)))
        }
        for (name, microseconds) in latencies {
            members.append(("\(name)Microseconds", String(microseconds)))
        }
        members.append(("problems", "[\(problems.map(Figures.quoted).joined(separator: ","))]"))
        return Figures.object(members)
    }
}

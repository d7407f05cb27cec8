//  Results as lines for people, or as one JSON object per line for programs.

import PandoTraffic

/// A measurement and what it is called.
struct Report: Sendable {
    let name: String
    let measurement: Measurement

    static let heading = [
        "", "messages/s", "deliveries/s", "p50 µs", "p99 µs", "max µs", "server µs/delivery", "server CPU",
        "client CPU",
    ]

    /// Cells under ``heading``.
    var row: [String] {
        let latencies = Dictionary(
            measurement.latencies.map { ($0.name, String($0.microseconds)) }, uniquingKeysWith: { $1 })
        return [
            name,
            Figures.grouped(measurement.messagesPerSecond),
            Figures.grouped(measurement.deliveriesPerSecond),
            latencies["p50"] ?? "-",
            latencies["p99"] ?? "-",
            latencies["max"] ?? "-",
            measurement.serverMicrosecondsPerDelivery.map { Figures.decimal($0, places: 2) } ?? "-",
            measurement.serverLoad.map { Figures.decimal($0 * 100, places: 0) + " %" } ?? "-",
            Figures.decimal(measurement.clientLoad * 100, places: 0) + " %",
        ]
    }

    /// Everything, for one measurement alone.
    var text: String {
        let latencies = measurement.latencies.map { "\($0.name) \($0.microseconds)" }.joined(separator: "  ")
        let row = self.row
        return """
            \(name)
              \(row[1]) messages/s, \(row[2]) deliveries/s, over \(Figures.decimal(measurement.seconds, places: 2)) s
              latency in µs: \(latencies)
              CPU: server \(row[7]), \(row[6]) µs/delivery; this client \(row[8])
              in all: \(measurement.sentCount) sent, \(measurement.totalDeliveryCount) delivered, \
            checksum \(measurement.checksum)
            """ + measurement.problems.map { "\n  WRONG: \($0)" }.joined()
    }

    /// One line of JSON.
    var json: String {
        var members = [
            ("name", Figures.quoted(name)),
            ("seconds", Figures.decimal(measurement.seconds, places: 6)),
            ("messages", String(measurement.completedCount)),
            ("deliveries", String(measurement.deliveryCount)),
            ("messagesPerSecond", Figures.decimal(measurement.messagesPerSecond, places: 1)),
            ("deliveriesPerSecond", Figures.decimal(measurement.deliveriesPerSecond, places: 1)),
            ("clientCPU", Figures.decimal(measurement.clientLoad, places: 4)),
            ("totalSent", String(measurement.sentCount)),
            ("totalDelivered", String(measurement.totalDeliveryCount)),
            ("checksum", String(measurement.checksum)),
        ]
        if let load = measurement.serverLoad {
            members.append(("serverCPU", Figures.decimal(load, places: 4)))
        }
        if let cost = measurement.serverMicrosecondsPerDelivery {
            members.append(("serverMicrosecondsPerDelivery", Figures.decimal(cost, places: 4)))
        }
        for (name, microseconds) in measurement.latencies {
            members.append(("\(name)Microseconds", String(microseconds)))
        }
        members.append(("problems", "[\(measurement.problems.map(Figures.quoted).joined(separator: ","))]"))
        return Figures.object(members)
    }
}

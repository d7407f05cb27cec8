//  Results as lines for people, or as one JSON object per line for programs.

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
            Self.grouped(measurement.messagesPerSecond),
            Self.grouped(measurement.deliveriesPerSecond),
            latencies["p50"] ?? "-",
            latencies["p99"] ?? "-",
            latencies["max"] ?? "-",
            measurement.serverMicrosecondsPerDelivery.map { Self.decimal($0, places: 2) } ?? "-",
            measurement.serverLoad.map { Self.decimal($0 * 100, places: 0) + " %" } ?? "-",
            Self.decimal(measurement.clientLoad * 100, places: 0) + " %",
        ]
    }

    /// Everything, for one measurement alone.
    var text: String {
        let latencies = measurement.latencies.map { "\($0.name) \($0.microseconds)" }.joined(separator: "  ")
        let row = self.row
        return """
            \(name)
              \(row[1]) messages/s, \(row[2]) deliveries/s, over \(Self.decimal(measurement.seconds, places: 2)) s
              latency in µs: \(latencies)
              CPU: server \(row[7]), \(row[6]) µs/delivery; this client \(row[8])
              in all: \(measurement.sentCount) sent, \(measurement.totalDeliveryCount) delivered, \
            checksum \(measurement.checksum)
            """ + measurement.problems.map { "\n  WRONG: \($0)" }.joined()
    }

    /// One line of JSON.
    var json: String {
        var members = [
            ("name", Self.quoted(name)),
            ("seconds", Self.decimal(measurement.seconds, places: 6)),
            ("messages", String(measurement.completedCount)),
            ("deliveries", String(measurement.deliveryCount)),
            ("messagesPerSecond", Self.decimal(measurement.messagesPerSecond, places: 1)),
            ("deliveriesPerSecond", Self.decimal(measurement.deliveriesPerSecond, places: 1)),
            ("clientCPU", Self.decimal(measurement.clientLoad, places: 4)),
            ("totalSent", String(measurement.sentCount)),
            ("totalDelivered", String(measurement.totalDeliveryCount)),
            ("checksum", String(measurement.checksum)),
        ]
        if let load = measurement.serverLoad {
            members.append(("serverCPU", Self.decimal(load, places: 4)))
        }
        if let cost = measurement.serverMicrosecondsPerDelivery {
            members.append(("serverMicrosecondsPerDelivery", Self.decimal(cost, places: 4)))
        }
        for (name, microseconds) in measurement.latencies {
            members.append(("\(name)Microseconds", String(microseconds)))
        }
        members.append(("problems", "[\(measurement.problems.map(Self.quoted).joined(separator: ","))]"))
        return Self.object(members)
    }

    // MARK: Text

    static func object(_ members: [(String, String)]) -> String {
        "{" + members.map { quoted($0.0) + ":" + $0.1 }.joined(separator: ",") + "}"
    }

    static func quoted(_ text: String) -> String {
        var output = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\": output += "\\\(scalar)"
            case _ where scalar.value < 0x20: output += " "
            default: output.unicodeScalars.append(scalar)
            }
        }
        return output + "\""
    }

    /// `12.30`
    static func decimal(_ value: Double, places: Int) -> String {
        guard value.isFinite, value.magnitude < 1e15 else { return "0" }
        var scale = 1
        for _ in 0..<places { scale *= 10 }
        let scaled = Int((value.magnitude * Double(scale)).rounded())
        let sign = value < 0 && scaled > 0 ? "-" : ""
        guard places > 0 else { return sign + String(scaled) }
        let fraction = String(scaled % scale)
        return sign + String(scaled / scale) + "." + String(repeating: "0", count: places - fraction.count)
            + fraction
    }

    /// `1 234 567`
    static func grouped(_ value: Double) -> String {
        var digits = decimal(value, places: 0)
        var groups: [String] = []
        while digits.count > 3 {
            groups.insert(String(digits.suffix(3)), at: 0)
            digits.removeLast(3)
        }
        return ([digits] + groups).joined(separator: " ")
    }

    /// Lines of equally wide columns: the first flush left, the others right.
    static func table(_ rows: [[String]]) -> String {
        var widths: [Int] = []
        for row in rows {
            for (column, cell) in row.enumerated() {
                if column == widths.count { widths.append(0) }
                widths[column] = max(widths[column], cell.count)
            }
        }
        return rows.map { row in
            row.enumerated().map { column, cell in
                let padding = String(repeating: " ", count: widths[column] - cell.count)
                return column == 0 ? cell + padding : padding + cell
            }.joined(separator: "  ")
        }.joined(separator: "\n")
    }
}

import ArgumentParser
import Foundation

/// What `/varz` says at one time.
struct TopReading {
    /// A histogram: how many values were not above each bound, and how many there were.
    struct Buckets {
        var bounds: [Double]
        var counts: [Double]
        var count: Double
    }

    let time: Date
    let version: String
    let phase: String
    let startTime: Double
    /// By name and labels: `pando_requests_total{kind="get",protocol="rest"}`.
    private var numbers: [String: [(labels: [String: String], value: Double)]] = [:]
    private var histograms: [String: [(labels: [String: String], buckets: Buckets)]] = [:]

    /// - Throws: An exit code, after a message, where it is not what an admin port says.
    init(_ json: [UInt8], at time: Date) throws {
        guard let object = try? JSONSerialization.jsonObject(with: Data(json)) as? [String: Any],
            let metrics = object["metrics"] as? [String: [[String: Any]]]
        else {
            printError("/varz: not a response of Pando's admin port; is this the address of --admin-listen?")
            throw Exit.badConfiguration
        }
        self.time = time
        version = object["version"] as? String ?? "?"
        phase = object["phase"] as? String ?? "?"
        startTime = (object["start_time"] as? NSNumber)?.doubleValue ?? 0
        for (name, samples) in metrics {
            for sample in samples {
                let labels = sample["labels"] as? [String: String] ?? [:]
                if let value = sample["value"] as? NSNumber {
                    numbers[name, default: []].append((labels, value.doubleValue))
                } else if let value = sample["value"] as? [String: Any], let buckets = Buckets(value) {
                    histograms[name, default: []].append((labels, buckets))
                }
            }
        }
    }

    /// The sum of a metric over all labels that have these values; 0 where there is none.
    func sum(_ name: String, _ labels: [String: String] = [:]) -> Double {
        numbers[name, default: []].reduce(0) { sum, sample in
            labels.allSatisfy { sample.labels[$0.key] == $0.value } ? sum + sample.value : sum
        }
    }

    /// The histograms of a metric, by the value of a label.
    func histograms(_ name: String, by label: String = "") -> [String: Buckets] {
        Dictionary(
            histograms[name, default: []].map { ($0.labels[label] ?? "", $0.buckets) },
            uniquingKeysWith: { $1 })
    }
}

extension TopReading.Buckets {
    init?(_ value: [String: Any]) {
        guard let count = (value["count"] as? NSNumber)?.doubleValue,
            let buckets = value["buckets"] as? [String: NSNumber]
        else { return nil }
        let sorted = buckets.compactMap { entry in Double(entry.key).map { ($0, entry.value.doubleValue) } }
            .sorted { $0.0 < $1.0 }
        self.init(bounds: sorted.map(\.0), counts: sorted.map(\.1), count: count)
    }

    /// The bound that 99 of 100 values since an earlier reading were not above; nil where there were none,
    /// infinity where more than one in a hundred was above all bounds.
    func percentile99(since earlier: Self?) -> Double? {
        let total = count - (earlier?.count ?? 0)
        guard total > 0 else { return nil }
        for (index, bound) in bounds.enumerated() {
            let before = earlier.flatMap { $0.counts.indices.contains(index) ? $0.counts[index] : nil } ?? 0
            if counts[index] - before >= 0.99 * total { return bound }
        }
        return .infinity
    }
}

/// One path pattern of `/topz`.
struct TopUsage: Decodable, Equatable {
    var database: String
    var path: String
    var reads_per_second: Double
    var writes_per_second: Double
    var listens_per_second: Double
    var unindexed_queries_per_second: Double
    var listeners: Int
    var received_bytes_per_second: Double
    var sent_bytes_per_second: Double
    var busy_share: Double

    private struct List: Decodable { var paths: [TopUsage] }

    /// - Throws: An exit code, after a message, where it is not what an admin port says.
    static func read(_ json: [UInt8]) throws -> [TopUsage] {
        do {
            return try JSONDecoder().decode(List.self, from: Data(json)).paths
        } catch {
            printError("/topz: not a response of Pando's admin port; is this the address of --admin-listen?")
            throw Exit.badConfiguration
        }
    }
}

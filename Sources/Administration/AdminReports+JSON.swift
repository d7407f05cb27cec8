import PandoBytes
import PandoDatabase
import PandoMetrics
import PandoSettings
import PandoStorage
import PandoTree

// What `/livez`, `/readyz`, `/varz`, `/slowz` and `/topz` say.

extension AdminReports {
    /// Whether the process does its work, and why not. A restart ends what blocks the databases.
    var liveness: (isAlive: Bool, text: String) {
        let problem = DatabaseHealth(unfinishedTurn: database.unfinishedTurn()).problem
        return (problem == nil, problem ?? "alive")
    }

    /// Whether clients are served, and why not.
    var readiness: (isReady: Bool, text: String) {
        switch metrics.status.phase {
        case .ready:
            let (isAlive, text) = liveness
            return (isAlive, isAlive ? "ready" : text)
        case .draining: return (false, "draining: the server stops")
        case .recovering:
            return (
                false,
                "recovering: \(metrics.storage.recoveredRecords.value) records, "
                    + "\(metrics.storage.recoveredBytes.value) of at most \(metrics.storage.recoverableBytes.value) bytes"
            )
        }
    }

    /// What the server is, and all metrics, as JSON.
    var variables: [UInt8] {
        var json: [UInt8] = []
        json.append("{\"version\":")
        json.append(json: Text(programVersion))
        json.append(",\"phase\":")
        json.append(json: Text(metrics.status.phase.name))
        json.append(",\"start_time\":")
        json.append(decimal: metrics.machine.startTime)
        json.append(",\"time\":")
        json.append(decimal: wallTime() / 1000)
        json.append(",\"host\":")
        json.append(json: Text(configuration.host))
        json.append(",\"data\":")
        if let directory = configuration.dataDirectory {
            json.append(json: Text(directory))
        } else {
            json.append("null")
        }
        json.append(",\"durability\":")
        json.append(json: Text(metrics.durability))
        json.append(",\"dev\":")
        json.append(json: Node.boolean(configuration.isDevelopment))
        json.append(",\"metrics\":{")
        for (index, family) in registry.families.enumerated() {
            if index > 0 { json.append(",") }
            json.append(json: Text(family.name))
            json.append(":[")
            for (place, sample) in family.samples().enumerated() {
                if place > 0 { json.append(",") }
                json.append(sample)
            }
            json.append("]")
        }
        json.append("}}")
        return json
    }

    /// Asks the databases which path patterns cost most, and calls `body` with it as JSON, on the loop; with
    /// nothing where they do not answer in time.
    func pathUsage(_ body: @escaping ([UInt8]) -> Void) {
        let answer = FirstResult(on: loop, timeout: Self.databaseTimeout, otherwise: UsageSnapshot()) {
            found in
            var json: [UInt8] = []
            json.append("{\"paths\":[")
            for (index, entry) in found.paths.enumerated() {
                if index > 0 { json.append(",") }
                json.append(entry)
            }
            json.append("]}")
            body(json)
        }
        guard metrics.status.phase == .ready else { return answer.give(UsageSnapshot()) }
        database.post(.usage { found in answer.giveFromElsewhere(found) })
    }

    /// The slowest operations of the last hour, as JSON.
    var slowOperations: [UInt8] {
        var json: [UInt8] = []
        json.append("{\"threshold_seconds\":")
        json.append(json: Double(SlowOperations.standardThreshold) / 1e9)
        json.append(",\"operations\":[")
        for (index, entry) in metrics.database.slowOperations.slowestFirst(at: wallTime()).enumerated() {
            if index > 0 { json.append(",") }
            json.append("{\"seconds\":")
            json.append(json: Double(entry.nanoseconds) / 1e9)
            json.append(",\"protocol\":")
            json.append(json: Text(entry.kind.protocolLabel))
            json.append(",\"kind\":")
            json.append(json: Text(entry.kind.kindLabel))
            json.append(",\"database\":")
            json.append(json: Text(entry.database))
            json.append(",\"path\":")
            json.append(json: Text(entry.pattern))
            if let location = entry.location {
                json.append(",\"location\":")
                json.append(json: Text(location))
            }
            if let order = entry.order {
                if let name = order.name {
                    json.append(",\"order\":")
                    json.append(json: Text(name))
                }
                json.append(",\"indexed\":")
                json.append(json: Node.boolean(order.isIndexed))
                if let declaration = order.missingDeclaration {
                    json.append(",\"add\":")
                    json.append(json: Text(declaration))
                }
            }
            json.append(",\"worker\":")
            json.append(json: Node.boolean(entry.isElsewhere))
            json.append(",\"total_seconds\":")
            json.append(json: Double(entry.totalNanoseconds) / 1e9)
            json.append(",\"time\":")
            json.append(decimal: entry.milliseconds)
            json.append(",\"count\":")
            json.append(decimal: Int64(entry.count))
            json.append(",\"requests_measured\":")
            json.append(decimal: Int64(entry.requestCount))
            json.append("}")
        }
        json.append("]}")
        return json
    }
}

extension [UInt8] {
    fileprivate mutating func append(_ usage: PathUsage) {
        append("{\"database\":")
        append(json: Text(usage.database))
        append(",\"path\":")
        append(json: Text(usage.pattern))
        append(",\"reads_per_second\":")
        append(json: usage.reads)
        append(",\"writes_per_second\":")
        append(json: usage.writes)
        append(",\"listens_per_second\":")
        append(json: usage.listens)
        append(",\"unindexed_queries_per_second\":")
        append(json: usage.unindexedQueries)
        append(",\"listeners\":")
        append(decimal: Int64(usage.listeners))
        append(",\"received_bytes_per_second\":")
        append(json: usage.receivedBytes)
        append(",\"sent_bytes_per_second\":")
        append(json: usage.sentBytes)
        append(",\"busy_share\":")
        append(json: usage.busySeconds)
        append(",\"busy_share_error\":")
        append(json: usage.busySecondsError)
        append("}")
    }

    /// Appends `{"labels":{…},"value":…}`; a histogram's value is
    /// `{"count":…,"sum":…,"buckets":{"0.001":…}}`.
    fileprivate mutating func append(_ sample: MetricFamily.Sample) {
        append("{\"labels\":{")
        for (index, label) in sample.labels.enumerated() {
            if index > 0 { append(",") }
            append(json: Text(label.name))
            append(":")
            append(json: Text(label.value))
        }
        append("},\"value\":")
        switch sample.value {
        case .integer(let value): append(decimal: value)
        case .unsigned(let value): append(decimal: value)
        case .number(let value): append(json: value)
        case .histogram(let histogram):
            append("{\"count\":")
            append(decimal: histogram.cumulativeCounts.last ?? 0)
            append(",\"sum\":")
            append(json: histogram.sum)
            append(",\"buckets\":{")
            for (index, bound) in histogram.bounds.enumerated() {
                if index > 0 { append(",") }
                append(json: Text("\(bound)"))
                append(":")
                append(decimal: histogram.cumulativeCounts[index])
            }
            append("}}")
        }
        append("}")
    }
}

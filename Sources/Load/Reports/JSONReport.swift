import PandoTraffic

/// Results as one JSON object, for programs. Times are microseconds unless the name says otherwise.
enum JSONReport {
    static func text(_ outcomes: [Outcome]) -> String {
        guard let first = outcomes.first else { return "{}\n" }
        let ratios = outcomes.dropFirst().map { peer in
            (peer.plan.target.name, Figures.decimal(first.mainRate / max(peer.mainRate, 1e-9), places: 4))
        }
        return Figures.object([
            ("scenario", Figures.quoted(first.plan.work.name)),
            ("connections", String(first.plan.connectionCount)),
            ("size", String(first.plan.size)),
            ("threads", String(first.plan.threads)),
            ("openLoop", first.plan.pattern == nil ? "false" : "true"),
            ("runs", array(outcomes.map(object))),
            ("ratios", Figures.object(ratios)),
        ]) + "\n"
    }

    private static func object(_ outcome: Outcome) -> String {
        var members = [
            ("target", Figures.quoted(outcome.plan.target.name)),
            ("seconds", Figures.decimal(outcome.seconds, places: 6)),
            ("operations", String(outcome.operations)),
            ("deliveries", String(outcome.deliveries)),
            ("operationsPerSecond", Figures.decimal(outcome.operationsPerSecond, places: 1)),
            ("deliveriesPerSecond", Figures.decimal(outcome.deliveriesPerSecond, places: 1)),
            ("totalOperations", String(outcome.totalOperations)),
            ("totalDeliveries", String(outcome.totalDeliveries)),
            ("retries", String(outcome.retries)),
            ("unsent", String(outcome.unsent)),
            ("interrupted", outcome.wasInterrupted ? "true" : "false"),
            ("clientCPU", Figures.decimal(outcome.ownLoad, places: 4)),
        ]
        if let each = outcome.httpRequestsPerMessage {
            members.append(("httpRequests", String(outcome.httpRequests)))
            members.append(("httpRequestsPerMessage", Figures.decimal(each, places: 4)))
        }
        if let load = outcome.serverLoad { members.append(("serverCPU", Figures.decimal(load, places: 4))) }
        if let each = outcome.serverBytesPerConnection {
            members.append(("serverBytesPerConnection", Figures.decimal(each, places: 1)))
        }
        members.append(
            ("latencies", Figures.object(outcome.series.map { ($0.name, latencies($0.latencies)) })))
        members.append(("sentLate", latencies(outcome.lag)))
        members.append(
            ("errors", Figures.object(outcome.findings.counts.map { ($0.name, String($0.count)) })))
        members.append(("examples", array(outcome.findings.examples.map(Figures.quoted))))
        members.append(("timeline", array(outcome.timeline.map(second))))
        if let path = outcome.leftBehind { members.append(("leftBehind", Figures.quoted(path))) }
        return Figures.object(members)
    }

    private static func latencies(_ latencies: Latencies) -> String {
        Figures.object(
            [("count", String(latencies.totalCount))]
                + latencies.shown.map { ($0.name, Figures.decimal($0.microseconds, places: 1)) })
    }

    private static func second(_ second: Second) -> String {
        Figures.object([
            ("second", String(second.second)),
            ("operations", String(second.operations)),
            ("deliveries", String(second.deliveries)),
            ("errors", String(second.errors)),
            ("p50", second.p50.map { Figures.decimal($0, places: 1) } ?? "null"),
            ("p99", second.p99.map { Figures.decimal($0, places: 1) } ?? "null"),
        ])
    }

    private static func array(_ items: [String]) -> String { "[" + items.joined(separator: ",") + "]" }
}

import PandoTraffic

/// Results as tables for people.
enum TextReport {
    static func text(_ outcomes: [Outcome]) -> String {
        guard let first = outcomes.first else { return "" }
        var parts = [
            heading(first.plan), Figures.table(rateRows(outcomes)), Figures.table(latencyRows(outcomes)),
        ]
        let ratios = ratioRows(outcomes)
        if ratios.count > 1 { parts.append(Figures.table(ratios)) }
        parts += outcomes.map(notes).filter { !$0.isEmpty }
        return parts.joined(separator: "\n\n") + "\n"
    }

    private static func heading(_ plan: Plan) -> String {
        let loop =
            switch plan.pattern {
            case nil: "closed loop, \(plan.inFlight) in flight"
            case .even(let rate): "\(Figures.grouped(rate)) a second, evenly"
            case .poisson(let rate): "\(Figures.grouped(rate)) a second, as a Poisson process"
            case .bursts(_, let every):
                "all at once, every \(Figures.decimal(Double(every) / 1e9, places: 1)) s"
            }
        return "\(plan.work.name): \(plan.connectionCount) connections, \(loop), \(plan.size) bytes, "
            + "\(Figures.decimal(Double(plan.duration) / 1e9, places: 1)) s, \(plan.threads) threads"
    }

    private static func rateRows(_ outcomes: [Outcome]) -> [[String]] {
        [
            [
                "", "operations/s", "deliveries/s", "server CPU", "server µs/message", "own CPU",
                "own µs/message", "errors",
            ]
        ]
            + outcomes.map { outcome in
                [
                    outcome.plan.target.name,
                    Figures.grouped(outcome.operationsPerSecond),
                    Figures.grouped(outcome.deliveriesPerSecond),
                    outcome.serverLoad.map(percent) ?? "-",
                    outcome.serverMicrosecondsPerMessage.map { Figures.decimal($0, places: 2) } ?? "-",
                    percent(outcome.ownLoad),
                    outcome.ownMicrosecondsPerMessage.map { Figures.decimal($0, places: 2) } ?? "-",
                    String(outcome.findings.total),
                ]
            }
    }

    private static func latencyRows(_ outcomes: [Outcome]) -> [[String]] {
        let heading = ["µs", "count", "p50", "p90", "p99", "p99.9", "p99.99", "max"]
        var rows = [heading]
        for outcome in outcomes {
            for (name, latencies) in outcome.series + [("sent late by", outcome.lag)]
            where latencies.totalCount > 0 {
                var row = [
                    "\(outcome.plan.target.name): \(name)", Figures.grouped(Double(latencies.totalCount)),
                ]
                row += latencies.shown.map { Figures.grouped($0.microseconds) }
                rows.append(row)
            }
        }
        return rows
    }

    private static func ratioRows(_ outcomes: [Outcome]) -> [[String]] {
        guard let first = outcomes.first else { return [] }
        return [["ratio", "by rate", "by server time", "p50", "p99"]]
            + outcomes.dropFirst().map { peer in
                let series = first.series.indices.last { first.series[$0].latencies.totalCount > 0 } ?? 0
                let (ours, theirs) = (first.series[series].latencies, peer.series[series].latencies)
                let times = first.serverMicrosecondsPerMessage.flatMap { own in
                    peer.serverMicrosecondsPerMessage.map { $0 / max(own, 1e-9) }
                }
                return [
                    "\(first.plan.target.name) / \(peer.plan.target.name)",
                    Figures.decimal(first.mainRate / max(peer.mainRate, 1e-9), places: 2),
                    times.map { Figures.decimal($0, places: 2) } ?? "-",
                    quotient(ours.microseconds(at: 50), theirs.microseconds(at: 50)),
                    quotient(ours.microseconds(at: 99), theirs.microseconds(at: 99)),
                ]
            }
    }

    private static func quotient(_ above: Double, _ below: Double) -> String {
        below > 0 ? Figures.decimal(above / below, places: 2) : "-"
    }

    private static func percent(_ share: Double) -> String { Figures.decimal(share * 100, places: 0) + " %" }

    /// What does not fit a table, a line each.
    private static func notes(_ outcome: Outcome) -> String {
        var lines: [String] = []
        let name = outcome.plan.target.name
        if outcome.wasInterrupted { lines.append("\(name): interrupted; these are the results so far") }
        if outcome.unsent > 0 {
            lines.append(
                "\(name): \(outcome.unsent) operations were due and not sent: the server could not keep up")
        }
        if let each = outcome.httpRequestsPerMessage {
            lines.append(
                "\(name): \(Figures.grouped(Double(outcome.httpRequests))) HTTP requests, "
                    + "\(Figures.decimal(each, places: 2)) for each operation and delivery")
        }
        if outcome.retries > 0 {
            lines.append("\(name): \(outcome.retries) transactions conflicted and were repeated")
        }
        if case .idle = outcome.plan.work, let memory = outcome.serverMemory,
            let each = outcome.serverBytesPerConnection
        {
            lines.append(
                "\(name): resident \(Figures.grouped(Double(memory.before / 1024))) KiB before, "
                    + "\(Figures.grouped(Double(memory.after / 1024))) KiB with all connections: "
                    + "\(Figures.grouped(each)) bytes a connection")
        }
        lines.append(
            "\(name): in all \(outcome.totalOperations) operations, \(outcome.totalDeliveries) deliveries, all checked: "
                + (outcome.findings.isClean
                    ? "none missing, none twice, none wrong"
                    : "WRONG: "
                        + outcome.findings.counts.filter { $0.count > 0 }
                        .map { "\($0.count) \($0.name)" }.joined(separator: ", ")))
        lines += outcome.findings.examples.map { "  WRONG: \($0)" }
        if let path = outcome.leftBehind {
            lines.append("\(name): the data of this run may still be at \(path)")
        }
        return lines.joined(separator: "\n")
    }
}

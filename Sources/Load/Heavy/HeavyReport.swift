import PandoTraffic

/// The results of a run beside heavy operations, as a table for people and as JSON for programs.
enum HeavyReport {
    static func text(_ outcome: HeavyOutcome, _ plan: HeavyPlan) -> String {
        let heading = ["operation", "takes", "operations", "p50", "p99", "longest", "best", "× quiet"]
        let quiet = outcome.rounds.first { $0.operation == .quiet }.map {
            HeavyOutcome.longestWait($0.rounds)
        }
        let rows = outcome.rounds.map { operation, rounds in
            var all = makeLatencies()
            for round in rounds { all.add(round.measure.all) }
            let best = HeavyOutcome.longestWait(rounds)
            return [
                operation.rawValue, BrokenPromise.milliseconds(rounds.map(\.duration).min() ?? 0),
                Figures.grouped(Double(all.totalCount)),
                BrokenPromise.milliseconds(Int(all.valueAtPercentile(50))),
                BrokenPromise.milliseconds(Int(all.valueAtPercentile(99))),
                BrokenPromise.milliseconds(rounds.map(\.longestWait).max() ?? 0),
                BrokenPromise.milliseconds(best),
                quiet.flatMap { $0 > 0 ? Figures.decimal(Double(best) / Double($0), places: 1) : nil } ?? "-",
            ]
        }
        let head =
            "bystander: \(plan.childCount) children, \(plan.rounds) rounds; milliseconds. longest: the bystander's longest "
            + "wait in any round; best: in the round in which it was shortest"
        let broken = outcome.broken(plan)
        let verdict =
            broken.isEmpty
            ? "no wait of the bystander was longer than \(BrokenPromise.milliseconds(plan.longestWait)) ms in the best round"
            : broken.map { "BROKEN: \($0)" }.joined(separator: "\n")
        return [head, Figures.table([heading] + rows), verdict].joined(separator: "\n\n") + "\n"
    }

    /// Times are microseconds.
    static func json(_ outcome: HeavyOutcome, _ plan: HeavyPlan) -> String {
        func microseconds(_ nanoseconds: Int) -> String {
            Figures.decimal(Double(nanoseconds) / 1000, places: 1)
        }
        let operations = outcome.rounds.map { operation, rounds in
            Figures.object([
                ("operation", Figures.quoted(operation.rawValue)),
                ("takes", "[" + rounds.map { microseconds($0.duration) }.joined(separator: ",") + "]"),
                (
                    "longestWaits",
                    "[" + rounds.map { microseconds($0.longestWait) }.joined(separator: ",") + "]"
                ),
            ])
        }
        let broken = outcome.broken(plan).map(Figures.quoted)
        return Figures.object([
            ("scenario", Figures.quoted("bystander")), ("children", String(plan.childCount)),
            ("limit", microseconds(plan.longestWait)),
            ("operations", "[" + operations.joined(separator: ",") + "]"),
            ("interrupted", String(outcome.wasInterrupted)),
            ("broken", "[" + broken.joined(separator: ",") + "]"),
        ]) + "\n"
    }
}

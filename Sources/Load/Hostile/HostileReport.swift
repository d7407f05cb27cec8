import PandoTraffic

/// A hostile run's results, as a table for people and as JSON for programs.
enum HostileReport {
    static func text(_ outcome: HostileOutcome, _ plan: HostilePlan) -> String {
        let seconds = Figures.decimal(Double(plan.phaseDuration) / 1e9, places: 1)
        var parts = [
            "hostile: \(seconds) s a phase, the bystander does \(Figures.grouped(plan.rate)) operations a second; "
                + "milliseconds, and MB of the server's resident memory",
            Figures.table([heading] + outcome.phases.map { row($0, outcome) }),
        ]
        let work =
            outcome.phases.filter { !$0.work.isEmpty }.map { "\($0.name): \($0.work)" } + outcome.honestWork
        if !work.isEmpty { parts.append(work.joined(separator: "\n")) }
        parts.append(
            outcome.phases.map { "\($0.name): longest waits: \(slowest($0))" }.joined(separator: "\n"))
        parts.append(verdict(outcome))
        return parts.joined(separator: "\n\n") + "\n"
    }

    private static let heading = [
        "phase", "operations", "p50", "p99", "× quiet", "longest", "sent late", "own CPU", "peak", "after",
        "cut",
        "broken",
    ]

    private static func row(_ phase: HostilePhase, _ outcome: HostileOutcome) -> [String] {
        let waits = phase.measure.all
        let hasAny = waits.totalCount > 0
        let p99 = hasAny ? Int(waits.valueAtPercentile(99)) : 0
        return [
            phase.name, Figures.grouped(Double(waits.totalCount)),
            hasAny ? BrokenPromise.milliseconds(Int(waits.valueAtPercentile(50))) : "-",
            hasAny ? BrokenPromise.milliseconds(p99) : "-",
            outcome.quietP99.flatMap { ratio(p99, $0, hasAny) } ?? "-",
            hasAny ? BrokenPromise.milliseconds(Int(waits.max)) : "-",
            phase.measure.lag.totalCount > 0
                ? BrokenPromise.milliseconds(Int(phase.measure.lag.valueAtPercentile(99))) : "-",
            Figures.decimal(phase.attackerLoad * 100, places: 0) + " %",
            phase.memoryPeak.map(BrokenPromise.megabytes) ?? "-",
            phase.memoryAfter.map(BrokenPromise.megabytes) ?? "-", String(phase.cuts.count),
            String(outcome.broken(phase).count),
        ]
    }

    private static func ratio(_ p99: Int, _ quiet: Int, _ hasAny: Bool) -> String? {
        hasAny && quiet > 0 ? Figures.decimal(Double(p99) / Double(quiet), places: 1) : nil
    }

    /// Such as `echo 12.5 ms at 1.04 s`, longest first.
    private static func slowest(_ phase: HostilePhase) -> String {
        phase.measure.slowest.waits.map { wait in
            let moment = Figures.decimal(Double(wait.endedNanoseconds) / 1e9, places: 2)
            return "\(wait.operation.name) \(BrokenPromise.milliseconds(wait.nanoseconds)) ms at \(moment) s"
        }.joined(separator: ", ")
    }

    private static func verdict(_ outcome: HostileOutcome) -> String {
        var lines: [String] = []
        if outcome.wasInterrupted { lines.append("interrupted; these are the results so far") }
        lines.append(
            outcome.checkedWrites > 0
                ? "\(outcome.checkedWrites) acknowledged writes read back, \(outcome.lostWrites) lost"
                : "acknowledged writes were not read back")
        let broken = outcome.broken
        if broken.isEmpty {
            lines.append(
                outcome.wasInterrupted ? "no promise was broken until then" : "every promise was kept")
        } else {
            lines.append("BROKEN: \(broken.count)")
            lines += broken.map { "  BROKEN: \($0)" }
        }
        if let path = outcome.leftBehind { lines.append("the data of this run may still be at \(path)") }
        return lines.joined(separator: "\n")
    }

    // MARK: JSON

    /// Times are microseconds.
    static func json(_ outcome: HostileOutcome, _ plan: HostilePlan) -> String {
        let limits = outcome.limits
        var members = [
            ("scenario", Figures.quoted("hostile")),
            ("secondsPerPhase", Figures.decimal(Double(plan.phaseDuration) / 1e9, places: 3)),
            ("rate", Figures.decimal(plan.rate, places: 1)),
            (
                "limits",
                Figures.object([
                    ("p99Factor", Figures.decimal(limits.p99Factor, places: 2)),
                    ("p99Floor", microseconds(limits.p99Floor)),
                    ("longestWait", microseconds(limits.longestWait)),
                    ("memoryLimit", String(limits.memoryLimit)),
                    ("memoryAfterFactor", Figures.decimal(limits.memoryAfterFactor, places: 2)),
                ])
            ),
            ("memoryStart", outcome.memoryStart.map(String.init) ?? "null"),
            ("phases", array(outcome.phases.map { object($0, outcome) })),
            ("honest", array(outcome.honestWork.map(Figures.quoted))),
            ("checkedWrites", String(outcome.checkedWrites)),
            ("lostWrites", String(outcome.lostWrites)),
            ("interrupted", String(outcome.wasInterrupted)),
            ("broken", array(outcome.broken.map { Figures.quoted($0.description) })),
        ]
        if let path = outcome.leftBehind { members.append(("leftBehind", Figures.quoted(path))) }
        return Figures.object(members) + "\n"
    }

    private static func object(_ phase: HostilePhase, _ outcome: HostileOutcome) -> String {
        let measure = phase.measure
        let latencies = BystanderOperation.allCases.map { ($0.name, waits(measure.latencies[$0.rawValue])) }
        return Figures.object([
            ("phase", Figures.quoted(phase.name)),
            ("work", Figures.quoted(phase.work)),
            ("attackerCPU", Figures.decimal(phase.attackerLoad, places: 4)),
            ("bystander", waits(measure.all)),
            ("latencies", Figures.object(latencies)),
            ("sentLate", waits(measure.lag)),
            ("slowest", array(measure.slowest.waits.map(object))),
            ("unanswered", String(measure.unanswered)),
            ("refused", String(measure.refused)),
            ("memoryPeak", phase.memoryPeak.map(String.init) ?? "null"),
            ("memoryAfter", phase.memoryAfter.map(String.init) ?? "null"),
            ("cuts", array(phase.cuts.map(Figures.quoted))),
            ("serverLives", String(phase.serverLives)),
            ("broken", array(outcome.broken(phase).map { Figures.quoted($0.description) })),
        ])
    }

    private static func object(_ wait: SlowestOperations.Wait) -> String {
        Figures.object([
            ("operation", Figures.quoted(wait.operation.name)),
            ("ended", microseconds(wait.endedNanoseconds)), ("wait", microseconds(wait.nanoseconds)),
        ])
    }

    private static func waits(_ latencies: Latencies) -> String {
        Figures.object(
            [("count", String(latencies.totalCount))]
                + latencies.shown.map { ($0.name, Figures.decimal($0.microseconds, places: 1)) })
    }

    private static func microseconds(_ nanoseconds: Int) -> String {
        Figures.decimal(Double(nanoseconds) / 1000, places: 1)
    }

    private static func array(_ items: [String]) -> String { "[" + items.joined(separator: ",") + "]" }
}

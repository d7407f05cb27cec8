/// A phase of a hostile run that is to come.
struct HostileStep {
    let name: String
    var kind = HostilePhase.Kind.judged
    var attackers: [any Attacker] = []
    /// Not reported: caches are cold.
    var isWarmUp = false
    var actsHonestly = false

    /// No attacker has come yet.
    var isBeforeAttacks: Bool { attackers.isEmpty && kind != .control }

    /// The phases of a plan, in their order.
    static func all(of plan: HostilePlan) -> [HostileStep] {
        var steps = [
            HostileStep(name: "warm-up", kind: .quiet, isWarmUp: true),
            HostileStep(name: "quiet", kind: .quiet),
        ]
        if !plan.honest.isEmpty { steps.append(HostileStep(name: "honest", actsHonestly: true)) }
        if plan.runsEachAttacker {
            steps += plan.attackers.map { HostileStep(name: $0.name, attackers: [$0]) }
        }
        if plan.attackers.count > 1 {
            steps.append(HostileStep(name: "together", attackers: plan.attackers, actsHonestly: true))
        }
        if plan.hasControl { steps.append(HostileStep(name: "control", kind: .control)) }
        return steps
    }
}

/// The phase under way: what is still missing before it is over.
///
///     its time ends ──▶ reports of all attack threads ─┐
///     the bystander has measured it ───────────────────┴─▶ the memory is waited for ──▶ recorded
struct HostilePhaseInProgress {
    var phase: HostilePhase
    let isWarmUp: Bool
    let isBeforeAttacks: Bool
    /// The threads that attack, or use the processor, in this phase.
    var attackThreads: [AttackThread] = []
    private(set) var reports: [AttackThread.Report] = []
    private(set) var hasEnded = false
    private var isMeasured = false
    private var isSettling = false

    init(_ step: HostileStep, serverLives: Bool) {
        phase = HostilePhase(name: step.name, kind: step.kind)
        phase.serverLives = serverLives
        isWarmUp = step.isWarmUp
        isBeforeAttacks = step.isBeforeAttacks
    }

    mutating func measured(_ measure: BystanderMeasure) {
        phase.measure = measure
        isMeasured = true
    }

    mutating func reported(_ report: AttackThread.Report) { reports.append(report) }

    /// Its time is over.
    /// - Returns: The threads to be asked for their report; nil when that was done before.
    mutating func end() -> [AttackThread]? {
        guard !hasEnded else { return nil }
        hasEnded = true
        return attackThreads
    }

    /// - Returns: true once, as soon as nothing is missing any more.
    mutating func beginSettling() -> Bool {
        guard isMeasured, hasEnded, reports.count == attackThreads.count, !isSettling else { return false }
        isSettling = true
        return true
    }

    /// The result.
    /// - Parameter duration: Of the phase, in nanoseconds.
    func finished(duration: Int) -> HostilePhase {
        var phase = phase
        phase.work = reports.flatMap(\.counts).map(\.words).joined(separator: "; ")
        let used = reports.reduce(0) { $0 + $1.nanoseconds }
        phase.attackerLoad = Double(used) / Double(max(1, duration))
        return phase
    }
}

/// One phase of a hostile run.
struct HostilePhase: Sendable {
    enum Kind: Sendable {
        /// The bystander alone.
        case quiet
        /// Beside the honest clients, or beside attackers too: all promises hold.
        case judged
        /// Beside threads that use as much of the processors as the attackers did, and do nothing else: shows
        /// the machine's share; waits are not judged.
        case control
    }

    let name: String
    let kind: Kind
    var measure = BystanderMeasure()
    /// What the attackers did, in words.
    var work = ""
    /// Processors that the attackers' threads used: 1 is one of them all the time.
    var attackerLoad = 0.0
    /// nil when the process is not on this machine.
    var memoryPeak: Int?
    var memoryAfter: Int?
    /// Before the first attack; nil for the phases before it.
    var memoryStart: Int?
    /// Honest clients that lost their connection, each with the reason.
    var cuts: [String] = []
    var serverLives = true
}

/// The results of a hostile run.
struct HostileOutcome: Sendable {
    var phases: [HostilePhase] = []
    var limits: HostileLimits
    /// Resident bytes with all clients that stay, and no attacker: after the honest phase, or the quiet one
    /// where there are no honest clients.
    var memoryStart: Int?
    /// Paths with an acknowledged write of the bystander, and those among them that have lost it.
    var checkedWrites = 0
    var lostWrites = 0
    /// What else was wrong: final states that differ, checks that could not be made.
    var problems: [String] = []
    /// What the honest clients did, a line each.
    var honestWork: [String] = []
    var wasInterrupted = false
    var leftBehind: String?

    var quietP99: Int? {
        guard let quiet = phases.first(where: { $0.kind == .quiet })?.measure.all, quiet.totalCount > 0 else {
            return nil
        }
        return Int(quiet.valueAtPercentile(99))
    }
}

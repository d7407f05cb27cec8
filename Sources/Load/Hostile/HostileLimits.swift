import PandoTraffic

/// The limits that a server must keep for honest clients beside hostile ones. Times are nanoseconds, memory is
/// bytes.
struct HostileLimits: Sendable {
    /// A baseline is taken as at least this much memory: below it, what an allocator keeps is most of it.
    static let leastMemoryStart = 64 << 20

    /// The bystander's 99th percentile is at most this factor times its quiet one.
    var p99Factor = 2.0
    /// The quiet 99th percentile is taken as at least this: what a machine of two cores adds by itself.
    var p99Floor = 5_000_000
    var longestWait = 50_000_000
    var memoryLimit = 1 << 30
    /// After a phase the memory is at most this factor times what it was after the quiet one.
    var memoryAfterFactor = 1.5

    /// Resident bytes that a phase may leave behind.
    func memoryAllowedAfter(start: Int) -> Int {
        Int(Double(max(start, Self.leastMemoryStart)) * memoryAfterFactor)
    }

    /// - Parameter quiet: The bystander's 99th percentile in the quiet phase.
    func p99Allowed(quiet: Int) -> Int { Int(Double(max(quiet, p99Floor)) * p99Factor) }
}

/// What the bystander saw in one phase. Latency counts from the moment at which an operation was due.
struct BystanderMeasure: Sendable {
    /// By ``Bystander/Operation``; what was never answered is in with the time it has waited.
    var latencies = Bystander.Operation.allCases.map { _ in makeLatencies() }
    /// How late operations were sent: the harness's own share.
    var lag = makeLatencies()
    var unanswered = 0
    var refused = 0
    /// Its connections stood at the end of the phase.
    var isConnected = true

    var all: Latencies {
        var sum = makeLatencies()
        for one in latencies { sum.add(one) }
        return sum
    }
}

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
    /// Honest clients that lost their connection, each with the reason.
    var cuts: [String] = []
    var serverLives = true
}

/// The results of a hostile run.
struct HostileOutcome: Sendable {
    var phases: [HostilePhase] = []
    var limits: HostileLimits
    /// Resident bytes after the quiet phase.
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

/// A promise that a phase, or the run, has shown to be broken.
enum BrokenPromise: Equatable, CustomStringConvertible {
    case serverDied(phase: String)
    case nothingMeasured(phase: String)
    case p99(phase: String, nanoseconds: Int, allowed: Int)
    case longestWait(phase: String, nanoseconds: Int, allowed: Int)
    case memoryPeak(phase: String, bytes: Int, allowed: Int)
    case memoryAfter(phase: String, bytes: Int, allowed: Int)
    case cut(phase: String, client: String)
    case unanswered(phase: String, count: Int)
    case refused(phase: String, count: Int)
    case lostWrites(count: Int)
    case other(String)

    var description: String {
        switch self {
        case .serverDied(let phase): "\(phase): the server is gone"
        case .nothingMeasured(let phase): "\(phase): nothing was measured"
        case .p99(let phase, let nanoseconds, let allowed):
            "\(phase): p99 \(Self.milliseconds(nanoseconds)) ms, allowed \(Self.milliseconds(allowed))"
        case .longestWait(let phase, let nanoseconds, let allowed):
            "\(phase): longest wait \(Self.milliseconds(nanoseconds)) ms, allowed \(Self.milliseconds(allowed))"
        case .memoryPeak(let phase, let bytes, let allowed):
            "\(phase): the server's memory reached \(Self.megabytes(bytes)) MB, allowed \(Self.megabytes(allowed))"
        case .memoryAfter(let phase, let bytes, let allowed):
            "\(phase): the server's memory stayed at \(Self.megabytes(bytes)) MB, allowed \(Self.megabytes(allowed))"
        case .cut(let phase, let client): "\(phase): an honest client was cut: \(client)"
        case .unanswered(let phase, let count):
            "\(phase): \(count) of the bystander's operations were not answered"
        case .refused(let phase, let count): "\(phase): \(count) of the bystander's operations were refused"
        case .lostWrites(let count): "\(count) acknowledged writes are lost"
        case .other(let words): words
        }
    }

    static func milliseconds(_ nanoseconds: Int) -> String {
        Figures.decimal(Double(nanoseconds) / 1e6, places: 1)
    }

    static func megabytes(_ bytes: Int) -> String { Figures.decimal(Double(bytes) / 1e6, places: 0) }
}

extension HostileOutcome {
    /// Every broken promise, phase by phase, then those of the whole run; empty when the server kept all of
    /// them.
    var broken: [BrokenPromise] {
        var found = phases.flatMap(broken)
        if lostWrites > 0 { found.append(.lostWrites(count: lostWrites)) }
        return found + problems.map(BrokenPromise.other)
    }

    func broken(_ phase: HostilePhase) -> [BrokenPromise] {
        var found: [BrokenPromise] = []
        if !phase.serverLives { found.append(.serverDied(phase: phase.name)) }
        let waits = phase.measure.all
        if waits.totalCount == 0 {
            found.append(.nothingMeasured(phase: phase.name))
        } else if phase.kind == .judged {
            let p99 = Int(waits.valueAtPercentile(99))
            let (longest, allowed) = (Int(waits.max), limits.p99Allowed(quiet: quietP99 ?? 0))
            if p99 > allowed { found.append(.p99(phase: phase.name, nanoseconds: p99, allowed: allowed)) }
            if longest >= limits.longestWait {
                found.append(
                    .longestWait(phase: phase.name, nanoseconds: longest, allowed: limits.longestWait))
            }
        }
        if let peak = phase.memoryPeak, peak > limits.memoryLimit {
            found.append(.memoryPeak(phase: phase.name, bytes: peak, allowed: limits.memoryLimit))
        }
        if let after = phase.memoryAfter, let memoryStart, phase.kind != .quiet {
            let allowed = limits.memoryAllowedAfter(start: memoryStart)
            if after > allowed {
                found.append(.memoryAfter(phase: phase.name, bytes: after, allowed: allowed))
            }
        }
        found += phase.cuts.map { .cut(phase: phase.name, client: $0) }
        let measure = phase.measure
        if measure.unanswered > 0 { found.append(.unanswered(phase: phase.name, count: measure.unanswered)) }
        if measure.refused > 0 { found.append(.refused(phase: phase.name, count: measure.refused)) }
        return found
    }
}

import PandoTraffic

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
        if let after = phase.memoryAfter, let start = phase.memoryStart {
            let allowed = limits.memoryAllowedAfter(start: start)
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

import ArgumentParser
import Foundation
import PandoReactor
import PandoTraffic

/// Exit codes beside ArgumentParser's 64 for usage.
extension ExitCode {
    /// A report could not be written.
    static let diskFailure = ExitCode(74)
}

/// What all commands have in common: from the options to the reports.
enum Runner {
    /// Runs `work` against the server and its peers one after the other, prints, and writes the reports.
    /// - Parameters:
    ///   - defaultInFlight: When neither `--in-flight` nor `--rate` says otherwise.
    ///   - burst: How senders act together where there is no rate.
    /// - Throws: Exit code 1 if anything was wrong; usage errors before anything is sent.
    static func run(
        _ work: Work, connections: Int, defaultInFlight: Int = 1, _ targetOptions: TargetOptions,
        _ effort: EffortOptions, peers: [LoadTarget] = [], wireProtocol: WireProtocol = .realtime,
        burst: Arrivals.Pattern? = nil,
        oneAtATime: Bool = false
    ) throws {
        // At a rate, operations must wait for the server, not for a limit of the generator.
        let inFlight = oneAtATime ? 1 : effort.inFlight ?? (effort.rate == nil ? defaultInFlight : 1024)
        let targets = try targetOptions.targets(wireProtocol)
        // The one with the most connections: its descriptors must suffice.
        let widest = targets.max { $0.transport.connectionLimit < $1.transport.connectionLimit }
        var plan = Plan(work, at: try widest ?? targetOptions.target(wireProtocol), root: makeRoot())
        plan.namespace = targetOptions.namespace
        plan.connections = connections
        plan.threads = effort.threads
        plan.pattern = effort.pattern ?? burst
        plan.inFlight = inFlight
        plan.size = effort.size
        plan.warmUp = nanoseconds(effort.warmUp)
        plan.duration = nanoseconds(effort.duration)
        plan.patience = nanoseconds(effort.patience)
        plan.token = try targetOptions.token()
        plan.serverProcess = effort.serverPid
        plan.seed = effort.seed
        raiseDescriptorLimit()
        guard plan.descriptorCount <= descriptorLimit() else {
            throw ValidationError(
                "\(plan.connectionCount) connections and their threads need \(plan.descriptorCount) descriptors, and "
                    + "this process may have \(descriptorLimit()): raise the hard limit (ulimit -Hn), or run several "
                    + "instances")
        }
        Signals.block()
        var outcomes: [Outcome] = []
        for target in targets + peers {
            var one = plan
            one.target = target
            if target.wireProtocol != wireProtocol || effort.serverPid == nil {
                one.serverProcess = listeningProcess(at: target.address)
            }
            let outcome = try one.run(showsProgress: true)
            outcomes.append(outcome)
            if outcome.wasInterrupted { break }
        }
        try report(outcomes, effort)
    }

    private static func report(_ outcomes: [Outcome], _ effort: EffortOptions) throws {
        if effort.json != "-" { print(TextReport.text(outcomes), terminator: "") }
        if let path = effort.json { try write(JSONReport.text(outcomes), to: path) }
        if let path = effort.html { try write(HTMLReport.text(outcomes), to: path) }
        guard outcomes.allSatisfy(\.findings.isClean) else { throw ExitCode.failure }
    }

    static func write(_ text: String, to path: String) throws {
        if path == "-" { return print(text, terminator: "") }
        guard writeWholeFile(path, text) else {
            writeAll("error: \(path) cannot be written\n", to: STDERR_FILENO)
            throw ExitCode.diskFailure
        }
    }

    private static func nanoseconds(_ seconds: Double) -> Int { Int(seconds * 1e9) }

    /// The path of a run's data, different from every other run's.
    static func makeRoot() -> String {
        let random = UInt64.random(in: 0..<(1 << 40))
        return "pando-load/" + String(UInt64(Date().timeIntervalSince1970), radix: 36) + "-"
            + String(random, radix: 36)
    }
}

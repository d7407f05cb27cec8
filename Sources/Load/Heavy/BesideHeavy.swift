import ArgumentParser
import PandoReactor
import PandoTraffic

struct BesideHeavy: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "bystander",
        abstract: "Small operations beside heavy ones: how long do they wait?",
        discussion: """
            A bystander does small operations at a fixed rate, first alone, then while another client asks for one heavy \
            operation over many children. Exit code 1 where its longest wait was over the limit in every round of an \
            operation, or something was not answered. The rules of the database are replaced during the run, and put back: \
            the server must be one for development, or the token an administrator's.

              pando-load bystander                                  a million children, some minutes
              pando-load bystander --children 100000 --rounds 2
              pando-load bystander --only put-10-mb,remove

            Operations: \(HeavyOperation.allCases.dropFirst().map(\.rawValue).joined(separator: ", ")).

            Server, bystander and the heavy client share the machine: with few processors the best of several rounds tells \
            more than one.
            """)

    @OptionGroup var target: TargetOptions

    @Option(help: "Children of the location that operations are about.")
    var children = 1_000_000

    @Option(help: "Rounds of each operation.")
    var rounds = 3

    @Option(help: ArgumentHelp("Operations to run, without the others.", valueName: "operation,…"))
    var only: String?

    @Option(help: "The bystander's operations a second, at fixed moments.")
    var rate = 500.0

    @Option(help: ArgumentHelp("The bystander's longest wait.", valueName: "ms"))
    var longestWait = Double(HeavyLimits.longestWait) / 1e6

    @Option(
        help: ArgumentHelp(
            "Writes everything there as JSON; - is stdout, in place of the table.", valueName: "file"))
    var json: String?

    func validate() throws {
        try checkCount(children, "--children", upTo: 10_000_000)
        try checkCount(rounds, "--rounds", upTo: 1000)
        guard (10...10_000).contains(rate) else { throw ValidationError("--rate must be 10 to 10000") }
        guard (0.1...10_000_000).contains(longestWait) else {
            throw ValidationError("--longest-wait must be 0.1 to 10000000")
        }
        _ = try operations()
    }

    private func operations() throws -> [HeavyOperation] {
        guard let only else { return HeavyOperation.allCases }
        let chosen = try only.split(separator: ",").map { name in
            guard let operation = HeavyOperation(rawValue: String(name)) else {
                let known = HeavyOperation.allCases.map(\.rawValue).joined(separator: ", ")
                throw ValidationError("--only: there is no operation \(name); there are \(known)")
            }
            return operation
        }
        return HeavyOperation.allCases.filter { $0 == .quiet || chosen.contains($0) }
    }

    func run() throws {
        guard target.transport.isEmpty else {
            throw ValidationError("--transport: not beside heavy operations")
        }
        let server = try target.target(.realtime)
        // A server for development takes this token as an administrator's.
        let site = HostileSite(
            target: server, namespace: target.namespace, token: try target.token() ?? "owner",
            root: Runner.makeRoot())
        let plan = HeavyPlan(
            hostile: HostilePlan(
                site: site, attackers: [], honest: [], phaseDuration: 0, rate: rate,
                patience: HeavyLimits.patience, settling: 0, slowReaders: 0, slowReaderPace: 0, writerRate: 0,
                attackThreads: 0, attackerNiceness: 0, hasControl: false, limits: HostileLimits(),
                serverProcess: nil),
            operations: try operations(), childCount: children, rounds: rounds,
            longestWait: Int(longestWait * 1e6))
        Signals.block()
        let outcome = try HeavyRun.run(plan)
        if json != "-" { print(HeavyReport.text(outcome, plan), terminator: "") }
        if let json { try Runner.write(HeavyReport.json(outcome, plan), to: json) }
        guard outcome.broken(plan).isEmpty else { throw ExitCode.failure }
    }
}

/// Limits of a run beside heavy operations. Nanoseconds.
enum HeavyLimits {
    /// The bystander's longest wait: twice what one step of the databases may take.
    static let longestWait = 10_000_000
    /// After an operation, replies that have not come in this time count as missing.
    static let patience = 30_000_000_000
}

import ArgumentParser
import PandoReactor
import PandoTraffic

struct Hostile: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "hostile",
        abstract:
            "A well-behaved client beside hostile ones: is it served as before, and does the server survive?",
        discussion: """
            A bystander does small operations at a fixed rate: first alone (the quiet phase), then beside slow but honest \
            clients, then beside each attacker in turn, then beside all of them together. Exit code 1 when a promise is \
            broken: the bystander's p99 or its longest wait, the server's memory in a phase or after it, an honest client \
            disconnected, an acknowledged write lost, the server gone.

              pando-load hostile                               about two minutes
              pando-load hostile --only pings,unread-output    two attackers
              pando-load hostile --seconds-per-phase 90        three quarters of an hour

            Attackers: \(attackerWords).

            Honest clients: \(HonestKind.allCases.map(\.rawValue).joined(separator: ", ")).

            Server, bystander and attackers share the machine. The attackers' threads are niced, so that they get what \
            the others leave; where that is not enough (two processors), --control shows how long the bystander waits \
            when the same processor time is used and nothing is sent.
            """)

    private static let attackerWords = allAttackers(connections: 1, halfMessages: 1)
        .map { "\($0.name) (\($0.summary))" }.joined(separator: "; ")

    @OptionGroup var target: TargetOptions

    @Option(help: "Seconds of each phase.")
    var secondsPerPhase = 3.0

    @Option(help: ArgumentHelp("Attackers to run, without the others.", valueName: "attacker,…"))
    var only: String?

    @Option(help: ArgumentHelp("Honest clients to run: all, none, or some of them.", valueName: "client,…"))
    var honest = "all"

    @Flag(
        help: "A last phase in which the attackers' threads use as much of the processors and send nothing.")
    var control = false

    @Flag(help: "Only all attackers together: none of them by itself.")
    var together = false

    @Option(help: "The bystander's operations a second, at fixed moments.")
    var rate = 200.0

    @Option(
        help: ArgumentHelp("Connections of a flood; no more than this process may open.", valueName: "count"))
    var connections = 10_000

    @Option(help: ArgumentHelp("Connections with half a message or half a body.", valueName: "count"))
    var halfMessages = 5000

    @Option(help: ArgumentHelp("Slow readers of what one client writes.", valueName: "count"))
    var slowReaders = 10

    @Option(help: ArgumentHelp("What each of them reads.", valueName: "bytes per second"))
    var slowReaderPace = 10_000

    @Option(help: ArgumentHelp("Values of 4 KB that their writer sets.", valueName: "per second"))
    var writerRate = 200.0

    @Option(help: "Threads of the attackers.")
    var attackThreads = 1

    @Option(help: "Niceness added to theirs: 0 to 19.")
    var attackerNiceness = 10

    @Option(help: "The bystander's p99 may be so many times its quiet one.")
    var p99Factor = 2.0

    @Option(
        help: ArgumentHelp(
            "The quiet p99 is taken as at least this: a machine with two processors adds some milliseconds by itself.",
            valueName: "ms"))
    var p99Floor = 5.0

    @Option(help: ArgumentHelp("The bystander's longest wait.", valueName: "ms"))
    var longestWait = 50.0

    @Option(help: ArgumentHelp("The server's resident memory may reach this.", valueName: "bytes"))
    var memoryLimit = 1 << 30

    @Option(
        help: ArgumentHelp(
            "After a phase it may be so many times what it was before the first attack (taken as at least 64 MiB).",
            valueName: "factor"))
    var memoryAfterFactor = 1.5

    @Option(help: ArgumentHelp("How long the memory may take to fall after a phase.", valueName: "seconds"))
    var settle = 3.0

    @Option(
        help: ArgumentHelp(
            "After a phase, what is not answered in this time is missing.", valueName: "seconds"))
    var patience = 30.0

    @Option(
        help: ArgumentHelp("The server's process (default: the one that listens there).", valueName: "pid"))
    var serverPid: Int32?

    @Option(
        help: ArgumentHelp(
            "Writes everything there as JSON; - is stdout, in place of the table.", valueName: "file"))
    var json: String?

    func validate() throws {
        var problems: [String] = []
        func check(_ isRight: Bool, _ words: String) {
            if !isRight { problems.append(words) }
        }
        check((0.1...3600).contains(secondsPerPhase), "--seconds-per-phase must be 0.1 to 3600")
        check((10...10_000).contains(rate), "--rate must be 10 to 10000")
        check((1...1_000_000).contains(connections), "--connections must be 1 to 1000000")
        check((1...1_000_000).contains(halfMessages), "--half-messages must be 1 to 1000000")
        check((0...10_000).contains(slowReaders), "--slow-readers must be 0 to 10000")
        check((100...100_000_000).contains(slowReaderPace), "--slow-reader-pace must be 100 to 100000000")
        check((1...100_000).contains(writerRate), "--writer-rate must be 1 to 100000")
        check((1...64).contains(attackThreads), "--attack-threads must be 1 to 64")
        check((0...19).contains(attackerNiceness), "--attacker-niceness must be 0 to 19")
        check((1...1_000_000).contains(p99Factor), "--p99-factor must be 1 to 1000000")
        check((0...1_000_000).contains(p99Floor), "--p99-floor must be 0 to 1000000")
        check((0.1...10_000_000).contains(longestWait), "--longest-wait must be 0.1 to 10000000")
        check(memoryLimit >= 1 << 20, "--memory-limit must be 1048576 or more")
        check((1...1_000_000).contains(memoryAfterFactor), "--memory-after-factor must be 1 to 1000000")
        check((0...600).contains(settle), "--settle must be 0 to 600")
        check((0.1...600).contains(patience), "--patience must be 0.1 to 600")
        guard problems.isEmpty else { throw ValidationError(problems.joined(separator: "\n")) }
        guard try attackers().count > 1 || !together else {
            throw ValidationError("--together: needs two attackers or more")
        }
        _ = try honestKinds()
    }

    private func attackers() throws -> [any Attacker] {
        let all = allAttackers(connections: connections, halfMessages: halfMessages)
        guard let only else { return all }
        let names = only.split(separator: ",").map(String.init)
        for name in names where !all.contains(where: { $0.name == name }) {
            let known = all.map(\.name).joined(separator: ", ")
            throw ValidationError("--only: there is no attacker \(name); there are \(known)")
        }
        guard !names.isEmpty else { throw ValidationError("--only: names no attacker") }
        return all.filter { names.contains($0.name) }
    }

    private func honestKinds() throws -> Set<HonestKind> {
        switch honest {
        case "all": return Set(HonestKind.allCases)
        case "none": return []
        default:
            return Set(
                try honest.split(separator: ",").map { name in
                    guard let kind = HonestKind(rawValue: String(name)) else {
                        let names = HonestKind.allCases.map(\.rawValue).joined(separator: ", ")
                        throw ValidationError("--honest: there is no client \(name); there are \(names)")
                    }
                    return kind
                })
        }
    }

    func run() throws {
        raiseDescriptorLimit()
        guard target.transport.isEmpty else { throw ValidationError("--transport: not beside attackers") }
        let server = try target.target(.realtime)
        let site = HostileSite(
            target: server, namespace: target.namespace, token: try target.token(),
            root: Runner.makeRoot())
        let limits = HostileLimits(
            p99Factor: p99Factor, p99Floor: nanoseconds(p99Floor / 1000),
            longestWait: nanoseconds(longestWait / 1000),
            memoryLimit: memoryLimit, memoryAfterFactor: memoryAfterFactor)
        let plan = HostilePlan(
            site: site, attackers: try attackers(), runsEachAttacker: !together, honest: try honestKinds(),
            phaseDuration: nanoseconds(secondsPerPhase), rate: rate, patience: nanoseconds(patience),
            settling: nanoseconds(settle), slowReaders: slowReaders, slowReaderPace: slowReaderPace,
            writerRate: writerRate, attackThreads: attackThreads, attackerNiceness: attackerNiceness,
            hasControl: control, limits: limits,
            serverProcess: serverPid ?? listeningProcess(at: server.address))
        Signals.block()
        let outcome = try HostileRun.run(plan)
        if json != "-" { print(HostileReport.text(outcome, plan), terminator: "") }
        if let json { try Runner.write(HostileReport.json(outcome, plan), to: json) }
        guard outcome.broken.isEmpty else { throw ExitCode.failure }
    }

    private func nanoseconds(_ seconds: Double) -> Int { Int(seconds * 1e9) }
}

import ArgumentParser
import Foundation
import PandoReactor
import PandoTraffic

struct Run: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Starts pando-echo and pando, measures everything, and compares.",
        discussion: """
            Client and servers share this machine's processors: compare rates of one run only. Server time per \
            delivery is the steadier measure: it does not contain what other processes use.

            By default the scheduler often wakes a client on the processor of its server: then both share one, and \
            use 100 % together. To have them work at the same time on two:
                taskset -c 1 pando-bench run --server-cpus 0
            """
    )

    @Option(
        help: ArgumentHelp("Folder with pando and pando-echo; default: this program's.", valueName: "dir"))
    var bin: String?

    @Option(help: ArgumentHelp("Where databases keep their data meanwhile.", valueName: "dir"))
    var work = FileManager.default.temporaryDirectory.path

    @Flag(help: "Tiny sizes: whether everything works, in seconds.")
    var smoke = false

    @Option(help: "How often to measure everything; medians are shown.")
    var rounds: Int?

    @Option(help: "Seconds to measure each case for.")
    var seconds: Double?

    @Option(help: ArgumentHelp("Only cases whose name contains this.", valueName: "text"))
    var only: String?

    @Option(
        help: ArgumentHelp(
            "Processors for servers, as `taskset -c` takes them; put this program on others the same way.",
            valueName: "list"))
    var serverCpus: String?

    @Flag(help: "Also count system calls per message, under strace.")
    var syscalls = false

    @Flag(help: "Print one line of JSON per case, ratio and count.")
    var json = false

    func validate() throws {
        guard (1...100).contains(rounds ?? 1) else { throw ValidationError("--rounds must be 1 to 100") }
        guard (0.01...3600).contains(seconds ?? 1) else {
            throw ValidationError("--seconds must be 0.01 to 3600")
        }
    }

    func run() throws {
        raiseDescriptorLimit()
        Signals.block()
        var size = smoke ? SuiteSize.smoke : SuiteSize()
        if let seconds { size.seconds = seconds }
        let cases = Suite.cases.filter { only == nil || $0.name.contains(only ?? "") }
        guard !cases.isEmpty else { throw ValidationError("--only: no case has that in its name") }

        var results: [[Report]] = cases.map { _ in [] }
        for round in 1...(rounds ?? (smoke ? 1 : 3)) {
            for (index, suiteCase) in cases.enumerated() {
                if !json { progress("round \(round): \(suiteCase.name)") }
                let report = try measure(suiteCase, size)
                for problem in report.problems { progress("WRONG: \(report.name): \(problem)") }
                // Numbers of a run with errors, or one that was interrupted, mean nothing.
                guard report.problems.isEmpty else { throw ExitCode.failure }
                results[index].append(report)
            }
        }
        json ? printJSON(results) : printTables(results, size)
        if syscalls { try countSystemCalls(cases, size) }
    }

    // MARK: Measuring

    private func measure(_ suiteCase: SuiteCase, _ size: SuiteSize) throws -> Report {
        try withServer(for: suiteCase) { server, address in
            let plan = suiteCase.plan(size, at: address).measuring(
                .time(warmUp: size.warmUpSeconds, measured: size.seconds), serverProcess: server.process)
            return Report(name: suiteCase.name, outcome: try plan.run(showsProgress: false))
        }
    }

    /// Starts the case's server, calls `body`, and stops the server; its data is removed.
    /// - Parameter traceFile: Where strace writes the counts of the server's system calls; nil for no strace.
    private func withServer<Result>(
        for suiteCase: SuiteCase, traceFile: String? = nil,
        _ body: (ServerProcess, SocketAddress) throws -> Result
    ) throws -> Result {
        let directory = "\(work)/pando-bench-\(ProcessInfo.processInfo.processIdentifier)"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        // What cannot be removed stays in the folder for temporary files.
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let tracer = traceFile.map { ["strace", "-f", "-c", "-o", $0] } ?? []
        let pinned = serverCpus.map { ["taskset", "-c", $0] } ?? []
        let command = pinned + tracer + suiteCase.command(binaries: binaries, directory: directory)
        let server = try ServerProcess(command, isTraced: traceFile != nil)
        guard let address = SocketAddress("127.0.0.1", port: server.port) else {
            preconditionFailure("a numeric address")
        }
        let result = try body(server, address)
        try server.stop()
        return result
    }

    private var binaries: String {
        if let bin { return bin }
        let own = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? "./x"
        return own.split(separator: "/", omittingEmptySubsequences: false).dropLast().joined(separator: "/")
    }

    // MARK: Printing

    /// The median round, by deliveries.
    private func middle(_ reports: [Report]) -> Report {
        let sorted = reports.sorted { $0.deliveriesPerSecond < $1.deliveriesPerSecond }
        return sorted[sorted.count / 2]
    }

    /// The medians over all rounds of a ratio: of rates, and of the server's time per delivery the other way
    /// round, so that more is better in both. nil if a case was not measured.
    private func medians(_ ratio: SuiteRatio, _ results: [[Report]]) -> (rate: Double, time: Double)? {
        guard let above = results.first(where: { $0.first?.name == ratio.numerator }),
            let below = results.first(where: { $0.first?.name == ratio.denominator })
        else { return nil }
        let pairs = zip(above, below)
        let rates = pairs.map { $0.deliveriesPerSecond / $1.deliveriesPerSecond }.sorted()
        let times = pairs.map {
            ($1.serverMicrosecondsPerDelivery ?? 0) / ($0.serverMicrosecondsPerDelivery ?? 1)
        }.sorted()
        return (rates[rates.count / 2], times[times.count / 2])
    }

    private func printTables(_ results: [[Report]], _ size: SuiteSize) {
        print(
            "\(size.connections) connections or 1 writer and \(size.listeners) listeners; median of "
                + "\(results[0].count) rounds of \(size.seconds) s\n")
        print(Figures.table([Report.heading] + results.map { middle($0).row }))
        let rows = Suite.ratios.compactMap { ratio in
            medians(ratio, results).map { median in
                [
                    ratio.name, Figures.decimal(median.rate, places: 2),
                    Figures.decimal(median.time, places: 2),
                    ratio.target.map { "≥ " + Figures.decimal($0, places: 2) } ?? "",
                ]
            }
        }
        if !rows.isEmpty {
            print("\n" + Figures.table([["ratio", "by rate", "by server time", "target (rate)"]] + rows))
        }
    }

    private func printJSON(_ results: [[Report]]) {
        for reports in results { print(middle(reports).json) }
        for ratio in Suite.ratios {
            guard let median = medians(ratio, results) else { continue }
            print(
                Figures.object([
                    ("ratio", Figures.quoted(ratio.name)),
                    ("byRate", Figures.decimal(median.rate, places: 4)),
                    ("byServerTime", Figures.decimal(median.time, places: 4)),
                ]))
        }
    }

    private func progress(_ line: String) {
        FileHandle.standardError.write(Data((line + "\n").utf8))
    }

    // MARK: System calls

    /// Runs each case twice, with more and with fewer messages: the difference is the cost of the messages.
    private func countSystemCalls(_ cases: [SuiteCase], _ size: SuiteSize) throws {
        if !json { print("\nsystem calls per message, under strace (which is slow, so batches differ)\n") }
        for suiteCase in cases {
            if !json { progress("strace: \(suiteCase.name)") }
            let (more, fewer) = suiteCase.tracedMessages(size)
            let longer = try trace(suiteCase, size, messages: more)
            let shorter = try trace(suiteCase, size, messages: fewer)
            let calls = SystemCalls.perMessage(longer: longer, shorter: shorter, messages: more - fewer)
            let members = calls.map { ($0.name, Figures.decimal($0.calls, places: 3)) }
            if json {
                print(
                    Figures.object([
                        ("case", Figures.quoted(suiteCase.name)),
                        ("systemCallsPerMessage", Figures.object(members)),
                    ]))
            } else {
                let list = members.map { "\($0.0) \($0.1)" }.joined(separator: "  ")
                print("\(suiteCase.name): \(list)")
            }
        }
    }

    private func trace(_ suiteCase: SuiteCase, _ size: SuiteSize, messages: Int) throws -> SystemCalls {
        let file = "\(work)/pando-bench-\(ProcessInfo.processInfo.processIdentifier).strace"
        defer { try? FileManager.default.removeItem(atPath: file) }
        try withServer(for: suiteCase, traceFile: file) { _, address in
            let plan = suiteCase.plan(size, at: address).measuring(.messages(messages))
            let report = Report(name: suiteCase.name, outcome: try plan.run(showsProgress: false))
            if let problem = report.problems.first {
                throw ServerProcessError(description: "\(suiteCase.name), traced: \(problem)")
            }
        }
        let calls = SystemCalls(table: readWholeFile(file) ?? "")
        guard !calls.isEmpty else { throw ServerProcessError(description: "strace counted nothing") }
        return calls
    }
}

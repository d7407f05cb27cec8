import ArgumentParser
import PandoReactor
import PandoTraffic

struct EffortOptions: ParsableArguments {
    @Option(help: "Send exactly so many messages, without a warm-up. Default: measure for a time.")
    var messages: Int?

    @Option(help: "Seconds to measure for.")
    var seconds = 5.0

    @Option(help: "Seconds that pass before measuring.")
    var warmUp = 1.0

    @Option(help: ArgumentHelp("Process whose processor time is shown.", valueName: "pid"))
    var serverPid: Int32?

    @Flag(help: "Print one line of JSON.")
    var json = false

    func validate() throws {
        guard (messages ?? 0) >= 0 else { throw ValidationError("--messages must not be negative") }
        guard (0.01...86_400).contains(seconds) else {
            throw ValidationError("--seconds must be 0.01 to 86400")
        }
        guard (0...3600).contains(warmUp) else { throw ValidationError("--warm-up must be 0 to 3600") }
    }

    /// Measures and prints.
    /// - Throws: Exit code 1 if anything was wrong.
    func measure(_ name: String, _ plan: Plan) throws {
        raiseDescriptorLimit()
        Signals.block()
        let extent = messages.map { Plan.Extent.messages($0) } ?? .time(warmUp: warmUp, measured: seconds)
        let outcome = try plan.measuring(extent, serverProcess: serverPid).run(showsProgress: false)
        let report = Report(name: name, outcome: outcome)
        print(json ? report.json : report.text)
        guard report.problems.isEmpty else { throw ExitCode.failure }
    }
}

import ArgumentParser
import PandoBytes

/// The cost of one call of functions of pure modules, without sockets.
struct Micro: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "micro",
        abstract: "Single calls of the hot paths: nanoseconds, allocations, retains and releases.",
        discussion: """
            Times are processor time, which does not depend on what else the machine does; counts are the calls of Swift's \
            runtime that make an object or count a reference, and are the same in every run.
            """)

    enum Subject: String, ExpressibleByArgument, CaseIterable {
        case json, tree, hash, engine, growth, fanOut = "fan-out", indexes, windows, rules, frames, wire,
            http, journal, metrics
    }

    @Argument(
        help: "What to measure: \(Subject.allCases.map(\.rawValue).joined(separator: ", ")); all, without.")
    var subjects: [Subject] = []

    @Option(help: "Calls that are measured, after a tenth as many.")
    var rounds = 200_000

    func validate() throws {
        guard (1...1_000_000_000).contains(rounds) else {
            throw ValidationError("--rounds must be 1 to 1000000000")
        }
    }

    func run() throws {
        print(Timing.head)
        for subject in subjects.isEmpty ? Subject.allCases : subjects {
            for timing in try subject.timings(MicroEffort(rounds: rounds, counts: true)) {
                print(timing.text)
            }
        }
    }
}

extension Micro.Subject {
    /// - Throws: When a document of the benchmark does not parse.
    func timings(_ effort: MicroEffort) throws -> [Timing] {
        switch self {
        case .json: try jsonTimings(effort)
        case .tree: treeTimings(effort)
        case .hash: try hashTimings(effort)
        case .engine: try engineTimings(effort)
        case .growth: growthTimings(effort)
        case .fanOut: fanOutTimings(effort)
        case .indexes: indexTimings(effort)
        case .windows: windowTimings(effort)
        case .rules: try RulesCase(effort).timings()
        case .frames: frameTimings(effort)
        case .wire: try wireTimings(effort)
        case .http: try headTimings(effort)
        case .journal: try journalTimings(effort)
        case .metrics: metricTimings(effort)
        }
    }
}

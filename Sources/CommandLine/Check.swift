import ArgumentParser
import Foundation
import PandoBytes
import PandoEngine
import PandoJournal
import PandoServer

/// `pando check`: says every problem at once, and exits 1 when there is any.
struct Check: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Looks for problems without changing anything.",
        subcommands: [CheckConfiguration.self, CheckData.self]
    )
}

/// `pando check config FILE`
struct CheckConfiguration: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config", abstract: "Checks a configuration file of `pando serve`.")

    @Argument(help: "The file.")
    var file: String

    func run() throws {
        var problems: [String] = []
        var layers = SettingsLayers()
        if let data = FileManager.default.contents(atPath: file) {
            layers.readFile(Array(data), &problems)
            _ = layers.configuration(&problems)
        } else {
            problems.append("\(file): can't be read")
        }
        try conclude(problems, orSay: "\(file): no problems")
    }
}

/// `pando check data DIR`
struct CheckData: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "data", abstract: "Checks every record of a data directory.")

    @Argument(help: "The directory.")
    var directory: String

    func run() throws {
        var state = RecoveredState(access: .locked)
        var problems: [String] = []
        let report: InspectionReport
        do throws(StartError) {
            report = try DataDirectory.inspectRecords(directory) { record, payload in
                do throws(UnreadableRecord) {
                    try state.replay(
                        record.kind, namespace: record.namespace, time: record.timestamp, payload: payload)
                } catch {
                    problems.append("\(record.file), byte \(record.byteOffset): \(error.reason)")
                }
            }
        } catch {
            printError(error.description)
            throw ExitCode(error.exitCode)
        }
        for problem in report.problems where !problem.isDamage {
            try writeOutput(Array("\(problem): what a crash leaves; the next start cuts it off\n".utf8))
        }
        problems += report.problems.filter(\.isDamage).map(\.description)
        try conclude(
            problems,
            orSay: "\(directory): no problems in \(report.recordCount) records of \(report.segmentCount) segments")
    }
}

private func conclude(_ problems: [String], orSay praise: String) throws {
    let lines = problems.isEmpty ? [praise] : problems
    try writeOutput(Array((lines.joined(separator: "\n") + "\n").utf8))
    guard problems.isEmpty else { throw Exit.checkFailed }
}

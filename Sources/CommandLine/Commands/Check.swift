import ArgumentParser
import Foundation
import PandoBytes
import PandoEngine
import PandoIdentity
import PandoJournal
import PandoServer
import PandoStorage

/// `pando check`: reports all problems at once, and exits with 1 when there is one.
struct Check: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Looks for problems without changing anything.",
        subcommands: [
            CheckRules.self, CheckConfiguration.self, CheckData.self, CheckBackup.self, CheckHealth.self,
        ]
    )
}

/// `pando check rules FILE`
struct CheckRules: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rules", abstract: "Checks a file of security rules, or a directory of NAMESPACE.json.")

    @Argument(help: "The file or directory.")
    var file: String

    func run() throws {
        let files = RulesFiles(at: file)
        try conclude(
            files.problems,
            otherwise: files.rulesets.isEmpty ? "\(file): no NAMESPACE.json in here" : "\(file): no problems")
    }
}

/// `pando check config FILE`
struct CheckConfiguration: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config",
        abstract: "Checks a configuration file of `pando serve`, and the files that it names.")

    @Argument(help: "The file.")
    var file: String

    func run() throws {
        var problems: [String] = []
        var warnings: [String] = []
        var sources = OptionSources()
        if let data = FileManager.default.contents(atPath: file) {
            sources.readFile(Array(data), &problems)
            let configuration = sources.configuration(&problems)
            warnings = configuration.identity.warnings + configuration.fileWarnings
            problems += waitFor { await Authenticator.fileProblems(of: configuration.identity) }
            problems += configuration.fileProblems
        } else {
            problems.append("\(file): can't be read")
        }
        for warning in warnings { printError("warning: \(warning)") }
        try conclude(problems, otherwise: "\(file): no problems")
    }
}

/// `pando check data DIR`
struct CheckData: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "data", abstract: "Checks every record of a data directory.")

    @Argument(help: "The directory.")
    var directory: String

    func run() throws {
        var replay = CheckReplay(of: directory)
        let report: InspectionReport
        do throws(StorageError) {
            report = try DataDirectory.inspectRecords(directory) { record, payload in
                replay.add(record, payload)
            }
        } catch {
            printError(error.description)
            throw ExitCode(error.exitCode)
        }
        for problem in report.problems where !problem.isDamage {
            try writeLine("\(problem): left by a crash; the next start removes it")
        }
        let problems = replay.problems + report.problems.filter(\.isDamage).map(\.description)
        try conclude(
            problems,
            otherwise:
                "\(directory): no problems in \(report.recordCount) records of \(report.segmentCount) segments"
                + " and in \(report.checkpoints.count) checkpoints")
    }
}

/// `pando check backup FILE|DIR`
struct CheckBackup: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: "Checks every byte and every record of a backup, as a restore would.")

    @Argument(help: "A file, or a directory with its journal.")
    var backup: String

    func run() throws {
        var isDirectory: ObjCBool = false
        guard unsafe FileManager.default.fileExists(atPath: backup, isDirectory: &isDirectory) else {
            return try conclude(["\(backup): no such file or directory"], otherwise: "")
        }
        var state = RecoveredState(access: .locked)
        do throws(StorageError) {
            let url = URL(fileURLWithPath: backup)
            let summary =
                try isDirectory.boolValue
                ? DirectoryBackup.read(backup, until: nil, into: &state)
                : BackupFile.read(
                    url.lastPathComponent, in: url.deletingLastPathComponent().path, into: &state)
            let names = state.namespaceNames.joined(separator: ", ")
            try? conclude(
                [],
                otherwise: "\(backup): whole: everything up to "
                    + "\(Moment.text(summary.sequence, at: summary.timestamp)), of \(names)")
        } catch {
            guard case .badData(let problem) = error else { throw Exit.reporting(error) }
            try conclude([problem], otherwise: "")
        }
        forget(state)
    }
}

/// Replays the records: each checkpoint into an empty state, and the journal into the oldest checkpoint, or
/// into an empty state; and from the next checkpoint on that begins the journal anew, into that one.
private struct CheckReplay {
    private let directory: String
    private(set) var problems: [String] = []
    /// The state that the journal is replayed into.
    private var state = RecoveredState(access: .locked)
    private var covered = SequenceNumber.zero
    /// Whether the records behind `covered` can be replayed: not where some before them are missing, which is
    /// reported as damage, or which a running server has removed.
    private var isComplete = true
    /// The last record of the journal that was read.
    private var last: SequenceNumber?
    /// The checkpoint being read.
    private var checkpoint = RecoveredState(access: .locked)
    private var file = ""
    private var isOldest = true
    /// The checkpoints behind the oldest one, the oldest first.
    private var later: [(file: String, sequence: SequenceNumber, beginsJournal: Bool)] = []

    init(of directory: String) {
        self.directory = directory
    }

    mutating func add(_ record: InspectedRecord, _ payload: RawSpan) {
        if record.isOfCheckpoint {
            if record.file != file {
                if !file.isEmpty { isOldest = false }
                file = record.file
                checkpoint.startOver()
                if !isOldest { later.append((file, record.sequence, record.beginsJournal)) }
            }
            problems += Self.replay(record, payload, into: &checkpoint)
            if isOldest { (state, covered) = (checkpoint, record.sequence) }
        } else {
            continueWith(record.sequence)
            if isComplete, record.sequence > covered {
                problems += Self.replay(record, payload, into: &state)
            }
        }
    }

    /// Chooses the state that a record of the journal changes.
    private mutating func continueWith(_ sequence: SequenceNumber) {
        let expected = max(last ?? .zero, covered).successor
        last = sequence
        let beginning = later.lastIndex {
            $0.beginsJournal && $0.sequence < sequence && $0.sequence > covered
        }
        if let beginning { return begin(with: beginning) }
        guard sequence > expected else { return }
        // A checkpoint that has the records that are missing.
        guard let index = later.firstIndex(where: { $0.sequence.successor >= sequence }) else {
            isComplete = false
            return
        }
        begin(with: index)
    }

    /// Reads a checkpoint once more: memory holds one state.
    private mutating func begin(with index: Int) {
        checkpoint.startOver()
        state.startOver()
        covered = later[index].sequence
        do throws(StorageError) {
            _ = try BackupFile.read(later[index].file, in: directory, into: &state)
            isComplete = true
        } catch {
            // What is damaged was reported, and what a server has removed cannot be checked.
            isComplete = false
        }
    }

    private static func replay(
        _ record: InspectedRecord, _ payload: RawSpan, into state: inout RecoveredState
    ) -> [String] {
        do throws(UnreadableRecord) {
            try state.replay(
                record.kind, namespace: record.namespace, time: record.timestamp, payload: payload)
            return []
        } catch {
            return ["\(record.file), byte \(record.byteOffset): \(error.reason)"]
        }
    }
}

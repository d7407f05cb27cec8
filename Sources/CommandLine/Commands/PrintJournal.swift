import ArgumentParser
import Foundation
import PandoBytes
import PandoEngine
import PandoJournal
import PandoLog
import PandoStorage

/// `pando log DIR`: the journal as lines for people and scripts.
struct PrintJournal: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "log",
        abstract: "Prints the journal of a data directory, one line a record.",
        discussion: """
            sequence  time  namespace  kind  what changed, and who wrote it
            A line for each checkpoint follows.
            """
    )

    @Argument(help: "The directory.")
    var directory: String

    @Flag(help: "Print what is in the checkpoints, too.")
    var checkpoints = false

    @Option(help: ArgumentHelp("Cut each value after so many bytes; 0 for never.", valueName: "bytes"))
    var width = 120

    func run() throws {
        let report: InspectionReport
        var failure: (any Error)?
        do throws(StorageError) {
            report = try DataDirectory.inspectRecords(directory) { record, payload in
                guard checkpoints || !record.isOfCheckpoint else { return }
                guard failure == nil else { return }
                do {
                    try write(
                        ["\(record.sequence)", Moment.text(record.timestamp), "\(record.namespace)"]
                            + [record.kind.nameWithoutWriter] + describe(record, payload))
                } catch { failure = error }
            }
        } catch {
            printError(error.description)
            throw ExitCode(error.exitCode)
        }
        if let failure { throw failure }
        for checkpoint in report.checkpoints {
            let header = checkpoint.header
            let size = "\(checkpoint.file): \(checkpoint.recordCount) records, \(checkpoint.byteCount) bytes"
            try write(["\(header.sequence)", Moment.text(header.timestamp), "-", "checkpoint", size])
        }
        for problem in report.problems { printError(problem.description) }
        if report.problems.contains(where: \.isDamage) { throw Exit.badData }
    }

    /// Writes a line. Clients have chosen paths, values and user ids, so control characters are escaped, as
    /// JSON escapes them: values stay JSON.
    private func write(_ columns: [String]) throws {
        let printed = columns.map { LogLine.bytes("\($0)\n", isJSON: true).dropLast() }
        try writeOutput(Array(printed.joined(separator: [UInt8(ascii: "\t")])) + [UInt8(ascii: "\n")])
    }

    /// The columns about what changed, and who wrote it.
    private func describe(_ record: InspectedRecord, _ payload: RawSpan) -> [String] {
        switch record.kind {
        case .delta:
            guard let changes = try? EngineRecord.changes(reading: payload) else { return ["unreadable"] }
            return [text(of: changes)]
        case .authoredDelta:
            guard let (authorship, changes) = try? EngineRecord.authoredChanges(reading: payload) else {
                return ["unreadable"]
            }
            return [text(of: changes), "\(authorship)"]
        case .tree:
            guard let part = try? EngineRecord.treePart(reading: payload) else { return ["unreadable"] }
            return ["\(part.path) = \(cut(part.node.description))"]
        case .publishedRules:
            guard let rules = try? RulesPublication(reading: payload) else { return ["unreadable"] }
            let uid = Authorship(.user(Text(rules.uid)), isOnDisconnect: false)
            let publisher = rules.uid.isEmpty ? "administrator" : "administrator, \(uid)"
            return ["\(rules.source.count) bytes", publisher]
        case .namespaceMade: return [withCursor(over: payload) { $0.string(0..<$0.count) }]
        default: return ["\(payload.byteCount) bytes"]
        }
    }

    private func text(of changes: [Change]) -> String {
        changes.map { "\($0.path) = \(cut($0.node.description))" }.joined(separator: ", ")
    }

    private func cut(_ text: String) -> String {
        guard width > 0, text.utf8.count > width else { return text }
        return "\(text.prefix(width))… (\(text.utf8.count) bytes)"
    }
}

extension RecordKind {
    /// The name of the kind; what is kept with and without its writer has one name.
    fileprivate var nameWithoutWriter: String {
        switch self {
        case .authoredDelta: "delta"
        case .publishedRules: "rules"
        default: "\(self)"
        }
    }
}

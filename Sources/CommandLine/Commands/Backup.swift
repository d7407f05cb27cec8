import ArgumentParser
import Foundation
import PandoBytes
import PandoJournal
import PandoStorage

/// `pando backup`: a consistent copy of all databases, whether a server runs or not.
struct Backup: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Makes a backup of all databases: data, rules, settings, pending onDisconnect writes.",
        discussion: """
            The backup is one file with the state of one moment, and checksums over all of it. With --with-log it is \
            a directory with the checkpoints and the journal of --data: `pando restore` can then restore any moment in \
            it. The output is read and checked before it gets its name, and appears whole or not at all. A server \
            may run on the directory meanwhile.
            """
    )

    @OptionGroup var source: SourceOptions

    @Option(help: ArgumentHelp("The backup. An existing file is replaced.", valueName: "file"))
    var output: String

    @Flag(name: .customLong("with-log"), help: "Copy the journal too: --output is a new directory.")
    var withJournal = false

    @Flag(help: "Print nothing on standard error but errors.")
    var quiet = false

    func validate() throws {
        if withJournal, source.url != nil {
            throw ValidationError("--with-log: only with --data")
        }
    }

    func run() throws {
        var progress = Progress("backup to \(output)", isQuiet: quiet)
        if let data = source.data, !DataOptions(data).exists {
            printError("--data: \(data): no such directory")
            throw Exit.badConfiguration
        }
        let summary: BackupSummary
        switch try source.place {
        case .directory(let path) where withJournal: summary = try copyDirectory(path, &progress)
        case .directory(let path): summary = try copyState(of: path, &progress)
        case .server(let client): summary = try download(from: client, &progress)
        }
        progress.finish(
            "\(output): everything up to sequence \(summary.sequence), \(Moment.text(summary.timestamp))")
    }

    private func copyState(of path: String, _ progress: inout Progress) throws -> BackupSummary {
        progress.step("reading")
        var state = RecoveredState(access: .locked)
        let summary: BackupSummary
        do throws(StorageError) {
            summary = try DirectoryBackup.read(path, until: nil, into: &state)
        } catch {
            throw Exit.reporting(error)
        }
        var file = try OutputFile(output)
        let header = CheckpointHeader(
            directory: summary.directory, timeline: summary.timeline, sequence: summary.sequence,
            timestamp: summary.timestamp)
        try file.write(header.bytes)
        var encoder = CheckpointEncoder(header)
        try state.forEachRecord { kind, namespace, payload in
            encoder.append(kind, namespace: namespace, payload: payload.rawSpan)
            if encoder.isFull { try file.write(encoder.endBlock()) }
            progress.update("writing", done: file.byteCount, of: nil)
        }
        try file.write(encoder.finish())
        try check(file)
        try file.finish()
        forget(state)
        return summary
    }

    /// Reads and checks the file before it gets its name.
    private func check(_ file: borrowing OutputFile) throws {
        guard let (disk, name) = file.unfinished else { return }
        do throws(StorageError) { _ = try BackupFile.check(name, on: disk) } catch {
            try? disk.remove(name)
            throw Exit.reporting(error)
        }
    }

    private func copyDirectory(_ path: String, _ progress: inout Progress) throws -> BackupSummary {
        guard !FileManager.default.fileExists(atPath: output) else {
            printError("--output: \(output) exists already")
            throw Exit.badConfiguration
        }
        let url = URL(fileURLWithPath: output)
        let name = url.lastPathComponent
        let parent = url.deletingLastPathComponent().path
        let temporaryName = "\(name).\(ProcessInfo.processInfo.processIdentifier).new"
        do throws(StorageError) {
            return try DirectoryBackup.copy(path, to: (parent, name, temporaryName)) {
                progress.update("copying", done: $0, of: nil)
            }
        } catch {
            try? FileManager.default.removeItem(atPath: "\(parent)/\(temporaryName)")
            throw Exit.reporting(error)
        }
    }

    private func download(from client: ServerClient, _ progress: inout Progress) throws -> BackupSummary {
        var file = try OutputFile(output)
        do {
            try client.get("/.inspect/backup") { piece in
                try file.write(piece)
                progress.update("receiving", done: file.byteCount, of: nil)
            }
        } catch let error as ServerClient.Failure {
            progress.abandon()
            file.abandon()
            printError(error.text)
            throw error.exitCode
        }
        // A download that was cut off has no end mark.
        guard let (disk, name) = file.unfinished else { throw Exit.ourFault }
        let header: CheckpointHeader
        do throws(StorageError) { header = try BackupFile.check(name, on: disk) } catch {
            progress.abandon()
            file.abandon()
            throw Exit.reporting(error)
        }
        try file.finish()
        return BackupSummary(header)
    }
}

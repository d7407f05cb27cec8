import ArgumentParser
import Foundation
import Glibc
import PandoJournal
import PandoServer
import PandoStorage

/// `pando restore`: creates a data directory from a backup, or from another directory as it was at some
/// moment; or tests that.
struct Restore: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Creates a data directory from a backup, or tests that.",
        discussion: """
            The backup is a file that `pando backup` or --backup-every made; a directory of such files, of which the \
            newest is taken; or a directory with its journal: one made by `pando backup --with-log`, or a data \
            directory. With --archive, the journal that --archive-to has copied is replayed behind the file, along the \
            newest timeline there, or along --timeline. Where there is a journal, --until-sequence and --until-time name \
            the last moment to restore; `pando log DIR` prints both. Everything is read and checked before anything is \
            changed, and the change is atomic. The directory begins a new timeline, so that its journal cannot be \
            confused with that of the backup or of what was there before.

            --verify is a restore test: the backup is restored into a directory of its own, which is opened as a server \
            does, compared with the backup, and removed. One line says what it holds, and the exit code is 0.
            """
    )

    @Option(help: ArgumentHelp("The server's data directory.", valueName: "dir"))
    var data: String?

    @Option(
        help: ArgumentHelp(
            "The archive of the journal, which is replayed behind the backup.", valueName: "dir"))
    var archive: String?

    @Option(
        help: ArgumentHelp(
            "With --archive: the timeline to restore (default: the newest). A restore begins a timeline, and leaves out what was behind the moment that it restored.",
            valueName: "number"))
    var timeline: UInt32?

    @Option(help: ArgumentHelp("The last record to restore.", valueName: "number"))
    var untilSequence: UInt64?

    @Option(
        help: ArgumentHelp(
            "The last moment to restore: 2026-11-21T18:30:00Z, with an offset instead of Z, or milliseconds since 1970.",
            valueName: "time"))
    var untilTime: String?

    @Flag(help: "Replace the data of the directory.")
    var replace = false

    @Flag(help: "Test the restore: compare what a server would have, and leave nothing behind.")
    var verify = false

    @Option(
        help: ArgumentHelp(
            "With --verify: the directory to restore into, which takes the space of a checkpoint; it must not exist. Beside the backup, unless given.",
            valueName: "dir"))
    var scratch: String?

    @Option(
        help: ArgumentHelp("With --verify: the digest that what is restored must have.", valueName: "hex"))
    var digest: String?

    @Flag(help: "Print nothing on standard error but errors.")
    var quiet = false

    @Argument(help: "A file, a directory of scheduled backups, or a directory with its journal.")
    var backup: String

    func validate() throws {
        if untilSequence != nil, untilTime != nil {
            throw ValidationError("--until-sequence and --until-time exclude each other")
        }
        guard (data == nil) == verify else { throw ValidationError("give either --data or --verify") }
        if verify, replace { throw ValidationError("--replace: not with --verify") }
        if !verify, scratch != nil { throw ValidationError("--scratch: only with --verify") }
        if !verify, digest != nil { throw ValidationError("--digest: only with --verify") }
        if timeline != nil, archive == nil { throw ValidationError("--timeline: only with --archive") }
        _ = try moment
    }

    private var moment: PointInTime? {
        get throws {
            if let untilSequence { return .sequence(SequenceNumber(untilSequence)) }
            guard let untilTime else { return nil }
            guard let time = Moment.milliseconds(untilTime) else {
                throw ValidationError(
                    "--until-time: \"\(untilTime)\" is not a time; write 2026-11-21T18:30:00Z, 2026-11-21T19:30:00+01:00 or milliseconds since 1970"
                )
            }
            return .time(time)
        }
    }

    func run() throws {
        // How the time was understood, before anything is written.
        if !quiet, case .time(let milliseconds)? = try moment {
            printError("--until-time: \(Moment.text(milliseconds)), \(milliseconds) ms since 1970")
        }
        guard let data else { return try test() }
        var progress = Progress("restoring \(backup)", isQuiet: quiet)
        progress.step("reading")
        var state = RecoveredState(access: .locked)
        do throws(StorageError) {
            let source = try read(into: &state, until: try? moment)
            let header = try DirectoryRestore.restore(
                state, from: source.summary, to: data, mayReplace: replace, directoryID: randomID
            ) { progress.update("writing", done: $0, of: nil) }
            progress.finish(
                "\(data): everything up to \(Moment.text(header.sequence, at: header.timestamp)); "
                    + "timeline \(header.timeline)"
            )
        } catch {
            progress.abandon()
            throw Exit.reporting(error)
        }
        forget(state)
    }

    private var randomID: DirectoryID {
        var generator = SystemRandomNumberGenerator()
        return DirectoryID(generator.next(), generator.next())
    }

    // MARK: Reading

    /// Reads what is to be restored.
    /// - Returns: What it is, and the file or directory that was chosen.
    private func read(
        into state: inout RecoveredState, until moment: PointInTime?
    ) throws(StorageError) -> (summary: BackupSummary, path: String) {
        let path = try chosenBackup(until: moment)
        if isDirectory(path) {
            guard archive == nil else {
                throw .badData("\(path): has a journal of its own; --archive goes with a file")
            }
            if let data,
                URL(fileURLWithPath: path).resolvingSymlinksInPath().path
                    == URL(fileURLWithPath: data).resolvingSymlinksInPath().path
            {
                throw .locked("\(path): restore it into another directory")
            }
            // The disk may be failing: then what can be read is wanted all the more.
            return (
                try DirectoryBackup.read(
                    path, until: moment, into: &state, warn: { printError("warning: \($0)") }), path
            )
        }
        let url = URL(fileURLWithPath: path)
        let (name, directory) = (url.lastPathComponent, url.deletingLastPathComponent().path)
        if let archive {
            return (
                try withTimelines(
                    of: ScheduledBackups.read(
                        name, in: directory, archive: archive, timeline: timeline, until: moment,
                        into: &state,
                        warn: { printError("warning: \($0)") })), path
            )
        }
        guard moment == nil || path != backup else {
            throw .badData(
                "\(path): a file is one moment; other moments need --archive, or a directory with its journal"
            )
        }
        return (try withTimelines(of: BackupFile.read(name, in: directory, into: &state)), path)
    }

    /// A restore begins a timeline that none of the scheduled backups has, where there are some.
    private func withTimelines(of summary: BackupSummary) throws(StorageError) -> BackupSummary {
        guard isDirectory(backup) else { return summary }
        var summary = summary
        summary.newestTimeline = max(
            summary.newestTimeline, try ScheduledBackups.newestTimeline(in: backup))
        return summary
    }

    /// The backup, or the newest one of a directory of scheduled backups.
    private func chosenBackup(until moment: PointInTime?) throws(StorageError) -> String {
        guard FileManager.default.fileExists(atPath: backup) else {
            throw .badData("\(backup): no such file or directory")
        }
        guard isDirectory(backup), try !DataDirectory.isDataDirectory(backup),
            let file = try ScheduledBackups.newest(
                in: backup, archive: archive, timeline: timeline, until: moment,
                warn: { printError("warning: \($0)") })
        else { return backup }
        return backup.hasSuffix("/") ? backup + file : backup + "/" + file
    }

    private func isDirectory(_ path: String) -> Bool {
        var isDirectory: ObjCBool = false
        return unsafe FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory)
            && isDirectory.boolValue
    }

    // MARK: The restore test

    private func test() throws {
        let began = Date()
        preferToBeKilled()
        var state = RecoveredState(access: .locked)
        do throws(StorageError) {
            let source = try read(into: &state, until: try? moment)
            let place = URL(fileURLWithPath: source.path).standardizedFileURL
                .deletingLastPathComponent().path
            RestoreScratch.clean(place)
            let directory =
                if let scratch { try RestoreScratch(at: scratch) } else { try RestoreScratch.make(in: place) }
            defer { directory.remove() }
            let report = try RestoreTestReport(
                restoring: &state, from: source.summary, in: directory.dataPath, directoryID: randomID,
                logger: quietLogger)
            if let digest, report.digest != digest.lowercased() {
                throw .badData("\(source.path): the digest is \(report.digest), not \(digest)")
            }
            let databases = report.databases.map { "\($0.name) with \($0.leafCount) leaves" }
            let seconds = String(format: "%.1f", Date().timeIntervalSince(began))
            try? writeLine(
                "\(source.path): the restore test has passed: everything up to "
                    + "\(Moment.text(report.summary.sequence, at: report.summary.timestamp)); "
                    + "\(databases.joined(separator: ", ")); digest \(report.digest); \(seconds) s")
            if source.path != backup { note(source.path) }
        } catch {
            throw Exit.reporting(error)
        }
    }

    /// Has the server that makes the backups count the test: its metric says when the last one passed.
    private func note(_ path: String) {
        let file = URL(fileURLWithPath: path)
        let owner = try? FileManager.default.attributesOfItem(atPath: backup)[.ownerAccountID] as? NSNumber
        guard owner?.uint32Value == geteuid() else {
            // The server could not read a file of another user.
            return printError(
                "warning: \(backup): this test is not noted there: only the directory's owner can do that")
        }
        do throws(StorageError) {
            _ = try RestoreTestRecord.note(file.lastPathComponent, in: backup)
        } catch {
            printError("warning: this test is not noted: \(error)")
        }
    }

    /// Where memory is short, the system ends this process first, and not a server beside it
    /// (proc_pid_oom_score_adj(5)).
    private func preferToBeKilled() {
        try? Data("1000".utf8).write(to: URL(fileURLWithPath: "/proc/self/oom_score_adj"))
    }
}

import ArgumentParser
import Foundation
import PandoJournal
import PandoServer
import PandoStorage

/// `pando restore`: creates a data directory from a backup, or from another directory as it was at some moment.
struct Restore: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Creates a data directory from a backup.",
        discussion: """
            The backup is a file that `pando backup` made, or a directory with its log: one made by `pando backup \
            --with-log`, or a data directory. For a directory, --until-sequence and --until-time name the last moment \
            to restore; `pando log DIR` prints both. Everything is read and checked before anything is changed, and \
            the change is atomic. The directory begins a new timeline, so that its log cannot be confused with the \
            log of the backup or of what was there before.
            """
    )

    @OptionGroup var dataOptions: DataOptions

    @Option(help: ArgumentHelp("The last record to restore.", valueName: "number"))
    var untilSequence: UInt64?

    @Option(
        help: ArgumentHelp(
            "The last moment to restore: 2026-11-21T18:30:00Z, or milliseconds since 1970.",
            valueName: "time"))
    var untilTime: String?

    @Flag(help: "Replace the data of the directory.")
    var replace = false

    @Flag(help: "Print nothing on standard error but errors.")
    var quiet = false

    @Argument(help: "A file, or a directory with its log.")
    var backup: String

    func validate() throws {
        if untilSequence != nil, untilTime != nil {
            throw ValidationError("--until-sequence and --until-time: one of them")
        }
        _ = try moment
    }

    private var moment: PointInTime? {
        get throws {
            if let untilSequence { return .sequence(SequenceNumber(untilSequence)) }
            guard let untilTime else { return nil }
            guard let time = Moment.milliseconds(untilTime) else {
                throw ValidationError(
                    "--until-time: \"\(untilTime)\" is not a time; write 2026-11-21T18:30:00Z or milliseconds since 1970"
                )
            }
            return .time(time)
        }
    }

    func run() throws {
        var progress = Progress("restoring \(backup)", isQuiet: quiet)
        progress.step("reading")
        var state = RecoveredState(access: .locked)
        do throws(StorageError) {
            let source = try read(into: &state, until: try? moment)
            var generator = SystemRandomNumberGenerator()
            let header = try DataDirectory.restore(
                state, from: source, to: dataOptions.data, mayReplace: replace,
                directoryID: DirectoryID(generator.next(), generator.next())
            ) { progress.update("writing", done: $0, of: nil) }
            progress.finish(
                "\(dataOptions.data): everything up to sequence \(header.sequence), "
                    + "\(Moment.text(header.timestamp)); timeline \(header.timeline)"
            )
        } catch {
            progress.abandon()
            throw Exit.reporting(error)
        }
        forget(state)
    }

    private func read(into state: inout RecoveredState, until moment: PointInTime?) throws(StorageError)
        -> BackupSummary
    {
        var isDirectory: ObjCBool = false
        guard unsafe FileManager.default.fileExists(atPath: backup, isDirectory: &isDirectory) else {
            throw .badData("\(backup): no such file or directory")
        }
        if isDirectory.boolValue {
            let (source, target) = (
                URL(fileURLWithPath: backup).resolvingSymlinksInPath().path,
                URL(fileURLWithPath: dataOptions.data).resolvingSymlinksInPath().path
            )
            guard source != target else { throw .locked("\(backup): restore it into another directory") }
            return try DataDirectory.read(backup, until: moment, into: &state)
        }
        guard moment == nil else {
            throw .badData("\(backup): a file is one moment; other moments need a directory with its log")
        }
        let url = URL(fileURLWithPath: backup)
        return try DataDirectory.readBackup(
            url.lastPathComponent, in: url.deletingLastPathComponent().path, into: &state)
    }
}

import Foundation
import PandoJournal
import PandoReactor
import PandoStorage

/// Tests the restore of backups (`--backup-verify`): `pando restore --verify` in a process of its own. So the
/// memory that it takes is given back, the system ends it before the server where memory is short, and its
/// threads have the low priority of the thread that starts it.
enum RestoreTester {
    /// The running program, also where its file was replaced by a newer version.
    private static let program = "/proc/self/exe"

    /// - Parameters:
    ///   - cancelled: Set when the server stops.
    ///   - archive: Of the archive thread: a test that reads the archive is given up where its disk does not
    ///     answer, since no backup is made meanwhile.
    static func test(cancelled: CancellationFlag, archive: DiskActivity) -> RestoreTest {
        RestoreTest(run: { run($0, cancelled, archive) }, clean: { RestoreScratch.clean($0) })
    }

    private static func run(
        _ job: RestoreTest.Job, _ cancelled: CancellationFlag, _ archive: DiskActivity
    ) -> RestoreTest.Outcome {
        // A name of its own: the process of a server that was killed may go on for a while, and then removes
        // its own.
        let scratch = RestoreScratch.path(in: job.directory)
        defer { try? FileManager.default.removeItem(atPath: scratch) }
        var arguments = [
            "restore", "--verify", "--digest", job.digest, "--scratch", scratch,
        ]
        if let archive = job.archive {
            arguments += ["--archive", archive.directory, "--until-sequence", "\(archive.sequence)"]
        }
        arguments.append(job.directory + "/" + job.file)
        do throws(SocketError) {
            let outcome = try ChildProcess.run(
                program, arguments,
                isCancelled: { cancelled.isSet || job.archive != nil && archive.isInLongStep })
            switch outcome {
            case .cancelled where cancelled.isSet: return .cancelled
            case .cancelled: return .failed("the disk of the archive does not answer")
            case .ended(let code, let output):
                let line = output.split(whereSeparator: \.isNewline).joined(separator: "; ")
                return code == 0 ? .passed(line) : .failed("exit code \(code): \(line)")
            }
        } catch {
            return .failed("\(error)")
        }
    }
}

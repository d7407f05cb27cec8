import Foundation
import PandoJournal
import PandoReactor
import PandoStorage

/// Restores a scheduled backup on trial (`--backup-verify`): `pando restore --verify` in a process of its own. So the
/// memory that it takes is given back, the system ends it before the server where memory is short, and its threads have
/// the low priority of the thread that starts it.
enum BackupDrill {
    /// The running program, also where its file was replaced by a newer version.
    private static let program = "/proc/self/exe"
    /// Where the backup is restored, in the directory of the backups. Only drills make it.
    private static let scratchName = "pando-drill.scratch"

    /// - Parameters:
    ///   - digest: What the restored directory must have.
    ///   - cancelled: Set when the server stops.
    static func run(
        _ directory: String, _ file: String, _ digest: String, _ cancelled: CancellationFlag
    ) -> BackupWriter<SystemDisk>.DrillOutcome {
        let scratch = directory + "/" + scratchName
        // Of a process that was killed.
        try? FileManager.default.removeItem(atPath: scratch)
        defer { try? FileManager.default.removeItem(atPath: scratch) }
        do throws(SocketError) {
            let outcome = try ChildProcess.run(
                program,
                [
                    "restore", "--verify", "--digest", digest, "--scratch", scratch, directory + "/" + file,
                ], isCancelled: { cancelled.isSet })
            switch outcome {
            case .cancelled: return .cancelled
            case .ended(let code, let output):
                let line = output.split(whereSeparator: \.isNewline).joined(separator: "; ")
                return code == 0 ? .passed(line) : .failed("exit code \(code): \(line)")
            }
        } catch {
            return .failed("\(error)")
        }
    }
}

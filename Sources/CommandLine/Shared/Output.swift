import Foundation
import PandoFiles
import PandoLog

/// Writes a line to stderr, with control characters escaped (``PandoLog/LogLine``). An error of the write is
/// ignored: there is no other place to report it.
func printError(_ line: String) { StandardError().write("pando: \(line)\n") }

/// Writes a line to standard output, with control characters escaped (``PandoLog/LogLine``): it holds names
/// of files, or data.
/// - Throws: Exit code 74, after a message, when it cannot be written.
func writeLine(_ line: String) throws { try writeOutput(LogLine.bytes(line + "\n")) }

/// Standard error: lines, with control characters escaped.
struct StandardError: TextOutputStream, Sendable {
    func write(_ line: String) {
        try? FileHandle.standardError.write(contentsOf: Data(LogLine.bytes(line)))
    }
}

/// Writes to standard output.
/// - Throws: Exit code 74, after a message, when it cannot be written.
func writeOutput(_ bytes: [UInt8]) throws {
    do {
        try FileHandle.standardOutput.write(contentsOf: Data(bytes))
    } catch {
        printError("standard output can't be written: \(error.fileReason)")
        throw Exit.diskFailure
    }
}

import Foundation

/// Writes a line to stderr. An error of the write is ignored: there is no other place to report it.
func printError(_ line: String) {
    try? FileHandle.standardError.write(contentsOf: Data("pando: \(line)\n".utf8))
}

/// Writes to standard output.
/// - Throws: Exit code 74, after a message, when it cannot be written.
func writeOutput(_ bytes: [UInt8]) throws {
    do {
        try FileHandle.standardOutput.write(contentsOf: Data(bytes))
    } catch {
        printError("standard output can't be written: \(error.localizedDescription)")
        throw Exit.diskFailure
    }
}

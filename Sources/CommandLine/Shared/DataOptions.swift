import ArgumentParser
import Foundation
import Logging
import PandoEngine
import PandoJournal
import PandoStorage
import PandoTree

/// The data directory that an offline command works on.
struct DataOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The server's data directory.", valueName: "dir"))
    var data: String

    init() {}

    init(_ directory: String) {
        data = directory
    }

    /// The directory is there, whatever it holds.
    var exists: Bool { FileManager.default.fileExists(atPath: data) }

    /// Takes the directory under its lock, so that no server runs on it.
    func open(_ state: inout RecoveredState) throws -> Journal<SystemDisk> {
        do throws(StorageError) {
            return try DataDirectory.open(data, into: &state, endsSessions: false, logger: quietLogger)
        } catch {
            printError(error.description)
            throw ExitCode(error.exitCode)
        }
    }

    /// Reads the directory as it is, whether a server runs on it or not.
    func read() throws -> RecoveredState {
        guard exists else {
            printError("--data: \(data): no such directory")
            throw Exit.badConfiguration
        }
        var state = RecoveredState(access: .locked)
        do throws(StorageError) {
            try DataDirectory.read(data, into: &state)
        } catch {
            printError(error.description)
            throw ExitCode(error.exitCode)
        }
        return state
    }

}

/// A logger for warnings and errors, with control characters escaped.
var quietLogger: Logger {
    var logger = Logger(label: "pando") {
        StreamLogHandler(label: $0, stream: StandardError(), metadataProvider: nil)
    }
    logger.logLevel = .warning
    return logger
}

/// The namespace that an offline command works on.
struct NamespaceOptions: ParsableArguments {
    @Option(help: "The database in the directory.")
    var namespace = "default"

    /// Finds the namespace, or says that there is none.
    func find(in state: RecoveredState) throws -> (id: UInt32, root: Node) {
        guard let found = state.database(named: namespace.lowercased()) else {
            printError(
                "--namespace: there is no \"\(namespace)\"; there are \(state.namespaceNames.joined(separator: ", "))"
            )
            throw Exit.badConfiguration
        }
        return found
    }
}

/// What commands do to a directory that no server runs on.
enum Offline {
    /// Milliseconds since 1970.
    static var milliseconds: Int64 { Int64(Date().timeIntervalSince1970 * 1000) }

    /// Makes one entry durable: after a crash all of its records are there, or none.
    static func append(_ records: [JournalRecord], to journal: inout Journal<SystemDisk>) throws {
        do throws(JournalError) {
            let byteCount = records.reduce(0) {
                $0 + JournalFormat.recordByteCount(payloadByteCount: $1.payload.count)
            }
            guard try journal.reserve(byteCount) else { throw .diskFull(byteCount: byteCount) }
            try journal.append(entry: records)
            try journal.write()
            try journal.sync()
        } catch {
            printError(error.description)
            throw Exit.diskFailure
        }
    }
}

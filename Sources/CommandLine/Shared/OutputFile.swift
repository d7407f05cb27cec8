import Foundation
import PandoBytes
import PandoJournal

/// A file that appears whole or not at all: it is written under a temporary name in the same directory,
/// synced and renamed. Without a name, standard output.
struct OutputFile: ~Copyable {
    private let disk: SystemDisk?
    private let file: SystemDisk.File?
    private let name: String
    private let temporaryName: String
    private(set) var byteCount = 0
    private var unsyncedByteCount = 0

    /// Bytes between two syncs. With only one at the end, that would take long, and a full disk be found
    /// late.
    private static let syncByteCount = 32 << 20

    /// - Parameter path: Nil for standard output.
    /// - Throws: An exit code, after a message.
    init(_ path: String?) throws {
        let made = try path.map { try Self.make($0) }
        disk = made?.disk
        file = made?.file
        name = made?.name ?? ""
        temporaryName = made?.temporaryName ?? ""
    }

    private static func make(
        _ path: String
    ) throws -> (disk: SystemDisk, file: SystemDisk.File, name: String, temporaryName: String) {
        let kind = (try? FileManager.default.attributesOfItem(atPath: path))?[.type] as? FileAttributeType
        guard kind == nil || kind == .typeRegular else {
            printError("--output: \(path) is not a file; leave --output out to write to standard output")
            throw Exit.badConfiguration
        }
        let url = URL(fileURLWithPath: path)
        let name = url.lastPathComponent
        let temporaryName = "\(name).\(ProcessInfo.processInfo.processIdentifier).new"
        do throws(DiskFailure) {
            let disk = try SystemDisk(directory: url.deletingLastPathComponent().path, create: false)
            return (disk, try disk.open(temporaryName, .create), name, temporaryName)
        } catch {
            printError("--output: \(error)")
            throw Exit.diskFailure
        }
    }

    mutating func write(_ bytes: [UInt8]) throws {
        guard let disk, let file else {
            byteCount += bytes.count
            return try writeOutput(bytes)
        }
        do throws(DiskFailure) {
            let offset = byteCount
            try disk.write(bytes.rawSpan, to: file, at: offset)
            byteCount += bytes.count
            unsyncedByteCount += bytes.count
            if unsyncedByteCount >= Self.syncByteCount {
                try disk.sync(file)
                unsyncedByteCount = 0
            }
        } catch {
            throw fail(error)
        }
    }

    /// Where the bytes are until ``finish()``; nil for standard output.
    var unfinished: (disk: SystemDisk, name: String)? { disk.map { ($0, temporaryName) } }

    /// Makes the bytes durable, and gives the file its name.
    consuming func finish() throws {
        guard let disk, let file else { return }
        do throws(DiskFailure) {
            try disk.sync(file)
            try disk.rename(temporaryName, to: name)
            try disk.syncDirectory()
        } catch {
            throw fail(error)
        }
    }

    /// Removes the unfinished file.
    consuming func abandon() {
        try? disk?.remove(temporaryName)
    }

    private func fail(_ failure: DiskFailure) -> any Error {
        try? disk?.remove(temporaryName)
        printError("--output: \(failure)")
        return Exit.diskFailure
    }
}

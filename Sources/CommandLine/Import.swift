import ArgumentParser
import Foundation
import PandoBytes
import PandoEngine
import PandoJournal
import PandoServer
import PandoTree

/// `pando import`: one JSON file becomes the data of a location, while no server runs on the directory.
struct Import: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Puts a JSON file into a data directory.",
        discussion: """
            The file takes the place of what is at the path; a namespace that does not exist is made. It is written as one entry of the journal: after a \
            crash all of it is there, or none. The server must not be running; a running one takes data through \
            its clients.
            """
    )

    @OptionGroup var dataOptions: DataOptions
    @OptionGroup var namespaceOptions: NamespaceOptions

    @Option(help: "Where the data goes.")
    var path = "/"

    @Argument(help: "A JSON file, or - for standard input.")
    var file: String

    func run() throws {
        let target: Path
        do throws(InvalidData) {
            target = try Path(wire: Text(path))
        } catch {
            throw ValidationError("--path: \(error.message)")
        }
        var progress = Progress("importing \(file)")
        let node = try parse(try readInput(&progress), below: target)
        var state = RecoveredState(access: .locked)
        var journal = try dataOptions.open(&state)
        progress.step("writing")
        let time = Offline.milliseconds
        var records: [JournalRecord] = []
        let id = try findOrMakeNamespace(in: state, at: time, &records)
        for changes in Self.split(node, at: target) {
            records.append(
                JournalRecord(.delta, namespace: id, timestamp: time, payload: LogRecord.delta(changes).payload))
        }
        try Offline.append(records, to: &journal)
        progress.finish("imported \(file) to \(target) of \(namespaceOptions.namespace)")
    }

    /// A namespace that is not there yet is made by the same entry that fills it.
    private func findOrMakeNamespace(
        in state: RecoveredState, at time: Int64, _ records: inout [JournalRecord]
    ) throws -> UInt32 {
        let name = namespaceOptions.namespace
        if let found = state.database(named: name.lowercased()) { return found.id }
        guard let record = state.creationRecord(ofNamespace: name, at: time) else {
            throw ValidationError("--namespace: \"\(name)\" is no name: letters, digits, - and _; at most 63")
        }
        records.append(record)
        return record.namespace
    }

    private func readInput(_ progress: inout Progress) throws -> [UInt8] {
        guard let handle = file == "-" ? .standardInput : FileHandle(forReadingAtPath: file) else {
            printError("\(file): can't be read")
            throw Exit.badData
        }
        let size = (try? FileManager.default.attributesOfItem(atPath: file))?[.size] as? Int
        var bytes: [UInt8] = []
        bytes.reserveCapacity(size ?? 0)
        while let piece = try handle.read(upToCount: 1 << 20), !piece.isEmpty {
            bytes += piece
            progress.update("reading", done: bytes.count, of: size)
        }
        return bytes
    }

    private func parse(_ bytes: [UInt8], below target: Path) throws -> Node {
        do {
            return try Node(json: bytes.rawSpan, at: target.count)
        } catch let error as MalformedJSON {
            printError("\(file), byte \(error.byteOffset): not JSON, or nested too deeply")
        } catch let error as InvalidData {
            printError("\(file): \(error.message)")
        }
        throw Exit.badData
    }

    /// Leaves in one record: some megabytes of JSON, far below what a record may hold.
    private static let leavesPerRecord = 50_000

    /// The changes that make a tree, in pieces: first nothing at all, then parts of at most so many leaves.
    static func split(_ node: Node, at path: Path) -> [[Change]] {
        var pieces: [[Change]] = [[Change(path: path, node: .empty)]]
        var leafCount = 0
        func add(_ node: Node, _ path: Path) {
            let count = node.leafCount
            if count > leavesPerRecord, case .object(let children) = node.withoutPriority {
                children.forEach { key, child in
                    add(child, path.appending(key))
                    return true
                }
                if let priority = node.priority {
                    pieces[pieces.count - 1].append(
                        Change(path: path.appending(Path.priorityKey), node: priority.node))
                }
                return
            }
            if leafCount + count > leavesPerRecord {
                pieces.append([])
                leafCount = 0
            }
            pieces[pieces.count - 1].append(Change(path: path, node: node))
            leafCount += count
        }
        if !node.isEmpty { add(node, path) }
        return pieces
    }
}

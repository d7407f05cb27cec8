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
        // One entry, so that a crash leaves all of it or nothing. More than an entry holds needs a checkpoint.
        let byteCount = records.reduce(0) { $0 + $1.payload.count }
        guard byteCount <= Self.entryByteLimit else {
            printError("\(file): \(byteCount) bytes; at most \(Self.entryByteLimit) can be imported at once")
            throw Exit.badData
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
        do {
            while let piece = try handle.read(upToCount: 1 << 20), !piece.isEmpty {
                bytes += piece
                progress.update("reading", done: bytes.count, of: size)
            }
        } catch {
            printError("\(file): can't be read: \(error.localizedDescription)")
            throw Exit.badData
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

    /// Bytes of one import in the journal: an entry, less what its records' headers take.
    private static let entryByteLimit = JournalFormat.entryByteLimit - (1 << 20)
    /// Bytes of JSON in one record: far below what a record may hold, and enough to make headers nothing.
    private static let recordByteCount = 8 << 20

    /// The changes that make a tree, in pieces: first nothing at all, then parts of so many bytes; a string may be more.
    static func split(_ node: Node, at path: Path) -> [[Change]] {
        var pieces: [[Change]] = [[Change(path: path, node: .empty)]]
        var byteCount = 0
        func add(_ node: Node, _ path: Path) {
            let weight = node.weight(upTo: recordByteCount + 1)
            if weight > recordByteCount, case .object(let children) = node.withoutPriority {
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
            if byteCount + weight > recordByteCount {
                pieces.append([])
                byteCount = 0
            }
            pieces[pieces.count - 1].append(Change(path: path, node: node))
            byteCount += weight
        }
        if !node.isEmpty { add(node, path) }
        return pieces
    }
}

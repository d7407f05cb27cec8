import ArgumentParser
import Foundation
import PandoBytes
import PandoEngine
import PandoJournal
import PandoReactor
import PandoStorage
import PandoTree

/// `pando import`: writes one JSON file of any size to a path.
struct Import: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Writes a JSON file into a data directory, or into a running server.",
        discussion: """
            The file may have any size: it is read as a stream, and memory holds the tree. A gzip file is inflated.

            With --data, no server may run on the directory. A namespace that does not exist is created. The import \
            is atomic: data that cannot be stored, a full disk or a crash leave the directory as it was.

            With --url, the whole file is read first. Up to 4 MiB are one atomic write; more is written in several, \
            each of them atomic: readers see some before others, and an interrupted import leaves what was written. \
            So it is where the server (--max-write-bytes) or a proxy accepts less at once. Nothing is removed before \
            everything was accepted.

            If the path has data already, choose: --replace removes it, --merge replaces only the children that the \
            file has and keeps the others. In contrast to update(), a child that is null in the file is one that the \
            file does not have: it removes nothing.
            """
    )

    @OptionGroup var place: SourceOptions
    @OptionGroup var namespaceOptions: NamespaceOptions

    @Option(help: "The path to write to.")
    var path = "/"

    @Flag(help: "Replace the data at the path.")
    var replace = false

    @Flag(help: "Keep the children at the path that the file does not have.")
    var merge = false

    @Flag(help: "Print nothing on standard error but errors.")
    var quiet = false

    @Argument(help: "A JSON file, or - for standard input.")
    var file: String

    func validate() throws {
        guard !(replace && merge) else { throw ValidationError("--replace and --merge exclude each other") }
    }

    func run() throws {
        let target: Path
        do throws(InvalidData) {
            target = try Path(wire: Text(path))
        } catch {
            throw ValidationError("--path: \(error.message)")
        }
        guard RecoveredState.isName(namespaceOptions.namespace) else {
            throw ValidationError(
                "--namespace: \"\(namespaceOptions.namespace)\" is not a valid name: letters, digits, - and _; at most 63"
            )
        }
        switch try place.place {
        case .directory(let path): try run(DataOptions(path), target)
        case .server(let client): try run(client, target)
        }
    }

    private func run(_ dataOptions: DataOptions, _ target: Path) throws {
        var progress = Progress("importing \(file)", isQuiet: quiet)
        // A directory that is not there yet is made only for data that is good.
        var directory = dataOptions.exists ? try openDirectory(dataOptions, target) : nil
        let node = try parse(below: target, &progress)
        if directory == nil { directory = try openDirectory(dataOptions, target) }
        guard var directory = consume directory else { return }
        if merge, !node.isEmpty, node.isLeaf { throw notMergeable }
        directory.put(node, at: target, merging: merge)
        let isArchived = BackupUse.archive.isRemembered(in: dataOptions.data)
        let header: CheckpointHeader
        do throws(StorageError) {
            header = try OfflineCommit.commit(
                directory.state, to: dataOptions.data, behind: directory.journal, at: Offline.milliseconds,
                isArchived: isArchived,
                progress: { progress.update("writing", done: $0, of: nil) })
        } catch {
            progress.abandon()
            printError(error.description)
            throw ExitCode(error.exitCode)
        }
        progress.finish(
            "imported \(file) to \(target) of \(namespaceOptions.namespace), which is sequence \(header.sequence)"
        )
        if !quiet, isArchived {
            printError(
                "an import is in no journal, so the archive of this directory has a gap before it: a restore from the archive needs a backup that is made from now on (with --backup-to, the next start makes one)"
            )
        }
        forget(directory.state)
    }

    private func run(_ client: ServerClient, _ target: Path) throws {
        var progress = Progress("importing \(file)", isQuiet: quiet)
        let node = try parse(below: target, &progress)
        var writtenByteCount: Int?
        do {
            var shown = progress
            var isWarned = quiet
            let online = OnlineImport(
                client: client, namespace: namespaceOptions.namespace, path: target, merges: merge,
                replaces: replace,
                noteParts: {
                    guard !isWarned else { return }
                    isWarned = true
                    printError(
                        "\(file) is written in chunks: this is not one atomic write, and readers may see a part of it"
                    )
                },
                progress: {
                    let byteCount = (writtenByteCount ?? 0) + $0
                    writtenByteCount = byteCount
                    shown.update("writing", done: byteCount, of: nil)
                })
            guard try replace || merge || !online.findsData() else { throw refusal(of: target) }
            if merge, !node.isEmpty, node.isLeaf { throw notMergeable }
            if OnlineImport.isParted(node) { online.noteParts() }
            let count = try online.run(node)
            progress.finish(
                "imported \(file) to \(target) of \(namespaceOptions.namespace), "
                    + (count <= 1 ? "in one atomic write" : "in \(count) writes, of which each was atomic"))
        } catch let error as ServerClient.Failure {
            progress.abandon()
            printError(error.text)
            if let writtenByteCount {
                printError(
                    "\(writtenByteCount) bytes of \(file) were written"
                        + "\(replace ? ", and previous data at other paths may still be there" : ""); import it again with --\(merge ? "merge" : "replace")"
                )
            }
            throw error.exitCode
        }
        forget(node)
    }

    private func refusal(of target: Path) -> ExitCode {
        printError(
            "\(target) of \(namespaceOptions.namespace) holds data: --replace it, or --merge the file with it"
        )
        return Exit.badData
    }

    private var notMergeable: ExitCode {
        printError("\(file): no object, so there is nothing to merge")
        return Exit.badData
    }

    /// A directory under its lock, and the namespace of it that is changed.
    private struct OpenDirectory: ~Copyable {
        var state: RecoveredState
        let journal: Journal<SystemDisk>
        let namespace: UInt32

        /// Puts what was read into its place.
        mutating func put(_ node: Node, at target: Path, merging: Bool) {
            guard merging else { return state.set(node, at: target, of: namespace) }
            node.children.forEach { key, child in
                state.set(child, at: target.appending(key), of: namespace)
                return true
            }
            if let priority = node.priority {
                state.set(priority.node, at: target.appending(Path.priorityKey), of: namespace)
            }
        }
    }

    /// Takes the directory, and looks whether anything may come of the import before the file is read.
    private func openDirectory(_ dataOptions: DataOptions, _ target: Path) throws -> OpenDirectory {
        var state = RecoveredState(access: .locked)
        let journal = try dataOptions.open(&state)
        guard let namespace = state.makeNamespace(namespaceOptions.namespace) else { throw Exit.ourFault }
        let isEmpty = try namespaceOptions.find(in: state).root[target].isEmpty
        guard isEmpty || replace || merge else { throw refusal(of: target) }
        // What is replaced need not be in memory beside what replaces it; on the disk it stays until all is
        // there.
        if replace { state.set(.empty, at: target, of: namespace) }
        return OpenDirectory(state: state, journal: journal, namespace: namespace)
    }

    /// Reads the file as it comes.
    private func parse(below target: Path, _ progress: inout Progress) throws -> Node {
        var memory = HeapPrefaulter()
        defer { memory.take()?.stop() }
        do {
            var input = try InputFile.open(file)
            var node = NodeStreamParser(at: target.count)
            var isLast = false
            while !isLast {
                isLast = try !input.fill()
                input.drop(try node.read(input.bytes, isLast: isLast))
                memory?.advance()
                guard input.bytes.byteCount <= 2 * NodeStreamParser.tokenByteLimit else {
                    throw InputFile.Failure(text: "\(file): \(InvalidData.stringTooLong.message)")
                }
                progress.update("reading", done: input.readByteCount, of: input.byteCount)
            }
            return node.finish()
        } catch let error as InputFile.Failure {
            progress.abandon()
            printError(error.text)
        } catch let error as NodeStreamParser.Problem {
            progress.abandon()
            printError(
                "\(file), byte \(error.byteOffset), below \(target.appending(error.path.keys)): \(error.text)"
            )
        }
        throw Exit.badData
    }
}

extension NodeStreamParser.Problem {
    var text: String {
        switch reason {
        case .malformed: "not JSON"
        case .nestedTooDeeply: "nested too deeply"
        case .invalid(let data): data.message
        }
    }
}

import ArgumentParser
import Foundation
import PandoBytes
import PandoREST
import PandoServer
import PandoTree

/// `pando export`: the data of a location as JSON, whether a server runs on the directory or not.
struct Export: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Prints the data of a location of a data directory, or of a running server, as JSON.",
        discussion: """
            Of a directory it is what the log holds at this moment, whether a server runs on it or not; of a server \
            what one read gives, at most its --max-read-bytes. With --output the file appears whole or not at all. \
            Priorities are kept: `pando import` makes the same data of it.
            """
    )

    @OptionGroup var place: SourceOptions
    @OptionGroup var namespaceOptions: NamespaceOptions

    @Option(help: ArgumentHelp("Write to a file instead of standard output.", valueName: "file"))
    var output: String?

    @Flag(help: "Indent it for people.")
    var pretty = false

    @Flag(help: "Say nothing on standard error.")
    var quiet = false

    @Argument(help: "The location.")
    var path = "/"

    func run() throws {
        let location: Path
        do throws(InvalidData) {
            location = try Path(wire: Text(path))
        } catch {
            throw ValidationError("\(path): \(error.message)")
        }
        var progress = Progress("exporting \(path)", isQuiet: quiet || output == nil)
        var file = try OutputFile(output)
        do {
            switch try place.place {
            case .directory(let directory):
                try print(location, of: DataOptions(directory), to: &file, &progress)
            case .server(let client): try get(location, from: client, to: &file, &progress)
            }
        } catch {
            progress.abandon()
            file.abandon()
            throw error
        }
        let byteCount = file.byteCount
        try file.finish()
        progress.finish("exported \(path) of \(namespaceOptions.namespace): \(byteCount) bytes")
    }

    private func get(
        _ location: Path, from client: ServerClient, to file: inout OutputFile, _ progress: inout Progress
    ) throws {
        let target = RESTTarget(location, of: namespaceOptions.namespace)
        do {
            try client.get(target.text("format=export" + (pretty ? "&print=pretty" : ""))) { piece in
                try file.write(piece)
                progress.update("receiving", done: file.byteCount, of: nil)
            }
        } catch let error as ServerClient.Failure {
            progress.abandon()
            printError(error.text)
            throw error.exitCode
        }
        if !pretty { try file.write([UInt8(ascii: "\n")]) }
    }

    private func print(
        _ location: Path, of dataOptions: DataOptions, to file: inout OutputFile, _ progress: inout Progress
    ) throws {
        progress.step("reading")
        let state = try dataOptions.read()
        let node = try namespaceOptions.find(in: state).root[location]
        // About what it prints in: one walk over the tree, for whoever watches.
        let total = progress.isShown ? node.weight(upTo: .max) : 0
        var form = JSONForm()
        form.isPretty = pretty
        form.hasPriorities = true
        form.hasArrays = false
        var printer = ValuePrinter(.node(node), form, suffix: pretty ? [] : [UInt8(ascii: "\n")])
        while let piece = printer.next(atMost: Self.pieceByteCount) {
            try file.write(piece)
            progress.update("writing", done: file.byteCount, of: max(total, file.byteCount))
        }
        forget(state)
    }

    /// Text that is in memory at once.
    private static let pieceByteCount = 256 << 10
}

/// Leaves a large value where it is: the process ends, and freeing it piece by piece would take longer than
/// all else.
func forget(_ value: some Sendable) {
    // Never released: that is what it is for.
    _ = unsafe Unmanaged.passRetained(Forgotten(value))
}

private final class Forgotten<Value: Sendable>: Sendable {
    private let value: Value

    init(_ value: Value) { self.value = value }
}

import ArgumentParser
import Foundation
import PandoBytes
import PandoREST
import PandoTree

/// `pando export`: the data of a location as JSON, whether a server runs on the directory or not.
struct Export: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Prints the data at a path, of a data directory or of a running server, as JSON.",
        discussion: """
            Of a directory it is the state in the journal at this moment, whether a server runs on it or not; of a \
            server it is the response to one read, at most its --max-read-bytes. With --output the file appears \
            whole or not at all. Priorities are included: `pando import` restores the same data.
            """
    )

    @OptionGroup var place: SourceOptions
    @OptionGroup var namespaceOptions: NamespaceOptions

    @Option(help: ArgumentHelp("Write to a file instead of standard output.", valueName: "file"))
    var output: String?

    @Flag(help: "Indent the JSON.")
    var pretty = false

    @Flag(help: "Print nothing on standard error but errors.")
    var quiet = false

    @Argument(help: "The path.")
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
        // A response that ends with its connection may be cut off, and a proxy may answer with a page.
        var ends = JSONEnds()
        do {
            try client.get(target.text("format=export" + (pretty ? "&print=pretty" : ""))) { piece in
                try file.write(piece)
                ends.read(piece)
                progress.update("receiving", done: file.byteCount, of: nil)
            }
        } catch let error as ServerClient.Failure {
            progress.abandon()
            printError(error.text)
            throw error.exitCode
        }
        guard ends.isComplete else {
            progress.abandon()
            printError(
                "the response is not one whole JSON value: it was cut off, or it came from a proxy and not from the server"
            )
            throw Exit.badData
        }
        if !pretty { try file.write([UInt8(ascii: "\n")]) }
    }

    private func print(
        _ location: Path, of dataOptions: DataOptions, to file: inout OutputFile, _ progress: inout Progress
    ) throws {
        progress.step("reading")
        let state = try dataOptions.read()
        let node = try namespaceOptions.find(in: state).root[location]
        // The approximate size of the text, for the progress bar: one walk over the tree.
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

    /// The size of the text that is in memory at a time.
    private static let pieceByteCount = 256 << 10
}

/// Leaks a large value on purpose: the process ends soon, and freeing the value node by node would take
/// longer than everything else.
func forget(_ value: some Sendable) {
    // Never released, on purpose.
    _ = unsafe Unmanaged.passRetained(Forgotten(value))
}

private final class Forgotten<Value: Sendable>: Sendable {
    private let value: Value

    init(_ value: Value) { self.value = value }
}

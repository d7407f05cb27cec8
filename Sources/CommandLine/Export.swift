import ArgumentParser
import Foundation
import PandoBytes
import PandoServer
import PandoTree

/// `pando export`: the data of a location as JSON, whether a server runs on the directory or not.
struct Export: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Prints the data of a location as JSON.",
        discussion: """
            Reads what the log holds at this moment. With --output the file appears whole or not at all.
            """
    )

    @OptionGroup var dataOptions: DataOptions
    @OptionGroup var namespaceOptions: NamespaceOptions

    @Option(help: ArgumentHelp("Write to a file instead of standard output.", valueName: "file"))
    var output: String?

    @Argument(help: "The location.")
    var path = "/"

    func run() throws {
        let location: Path
        do throws(InvalidData) {
            location = try Path(wire: Text(path))
        } catch {
            throw ValidationError("\(path): \(error.message)")
        }
        let state = try dataOptions.read()
        let node = try namespaceOptions.find(in: state).engine.root[location]
        var json: [UInt8] = []
        json.append(json: node)
        json.append(UInt8(ascii: "\n"))
        guard let output else {
            FileHandle.standardOutput.write(Data(json))
            return
        }
        do {
            // Written beside it, synced by the rename that puts it in place.
            try Data(json).write(to: URL(fileURLWithPath: output), options: .atomic)
        } catch {
            printError("--output: \(output): \(error.localizedDescription)")
            throw Exit.diskFailure
        }
    }
}

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
        let node = try namespaceOptions.find(in: state).root[location]
        var json: [UInt8] = []
        json.append(json: node)
        json.append(UInt8(ascii: "\n"))
        guard let output else { return try writeOutput(json) }
        try write(json, to: output)
    }

    /// The file appears whole or not at all: it is written beside its place, synced, and moved there.
    private func write(_ json: [UInt8], to output: String) throws {
        let manager = FileManager.default
        let kind = (try? manager.attributesOfItem(atPath: output))?[.type] as? FileAttributeType
        guard kind == nil || kind == .typeRegular else {
            printError("--output: \(output) is no file; leave --output out to write to standard output")
            throw Exit.badConfiguration
        }
        let temporary = "\(output).\(ProcessInfo.processInfo.processIdentifier).new"
        do {
            guard manager.createFile(atPath: temporary, contents: nil),
                let handle = FileHandle(forWritingAtPath: temporary)
            else { throw CocoaError(.fileWriteUnknown) }
            try handle.write(contentsOf: Data(json))
            try handle.synchronize()
            try handle.close()
            if unsafe rename(temporary, output) != 0 { throw CocoaError(.fileWriteUnknown) }
        } catch {
            try? manager.removeItem(atPath: temporary)
            printError("--output: \(output): \(error.localizedDescription)")
            throw Exit.diskFailure
        }
    }
}

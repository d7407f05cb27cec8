import ArgumentParser
import Foundation
import Logging
import PandoBytes
import PandoServer

/// `pando serve`
struct Serve: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Serves databases to clients.",
        discussion: """
            Every option may also be given as an environment variable (--in-flight-limit as PANDO_IN_FLIGHT_LIMIT) \
            or in the configuration file ("in-flight-limit"); a flag is stronger than the environment, and that is \
            stronger than the file.
            """
    )

    @Option(help: "Address to listen on. (default: 127.0.0.1)")
    var host: String?

    @Option(help: "Port to listen on; 0 picks a free one. (default: 9000)")
    var port: UInt16?

    @Option(help: ArgumentHelp("Directory to keep everything in; made when it is missing.", valueName: "dir"))
    var data: String?

    @Flag(help: "Keep nothing: everything is gone when the server stops.")
    var memory = false

    @Flag(
        help: """
            For development: everybody may read and write, namespaces are made on first use, unsigned tokens are \
            accepted. Only on a loopback address.
            """)
    var dev = false

    @Option(
        help: """
            When an acknowledged write is on disk. always: before its acknowledgement (survives power loss). \
            interval: within 100 ms. none: when the kernel likes. All survive kill -9. (default: always)
            """)
    var durability: Durability?

    @Option(help: "Threads for connections; 0 stands for one less than the processors. (default: 0)")
    var loops: Int?

    @Option(
        help: ArgumentHelp(
            "Bytes a client may leave unread before it is disconnected. (default: 67108864)", valueName: "bytes"))
    var outboundLimit: Int?

    @Option(
        help: ArgumentHelp(
            "Bytes of requests that may wait for the disk before reading pauses. (default: 67108864)",
            valueName: "bytes"))
    var inFlightLimit: Int?

    @Option(
        help: ArgumentHelp(
            "Silence after which a client is asked whether it lives. (default: 75)", valueName: "seconds"))
    var idleTimeout: Int?

    @Option(
        help: ArgumentHelp(
            "Chunks of 16 KiB a client's message may have. (default: 1100)", valueName: "count"))
    var chunkLimit: Int?

    @Option(help: ArgumentHelp("Bytes of one REST answer. (default: 268435456)", valueName: "bytes"))
    var maxReadBytes: Int?

    @Option(help: ArgumentHelp("Bytes of one REST write. (default: 268435456)", valueName: "bytes"))
    var maxWriteBytes: Int?

    @Option(help: ArgumentHelp("Configuration file: one JSON object of these options.", valueName: "file"))
    var config: String?

    func run() throws {
        var problems: [String] = []
        let configuration = layers(&problems).configuration(&problems)
        guard problems.isEmpty else {
            for problem in problems { printError(problem) }
            throw Exit.badConfiguration
        }
        try ServerProcess.serve(configuration)
    }

    private func layers(_ problems: inout [String]) -> SettingsLayers {
        var layers = SettingsLayers(environment: ProcessInfo.processInfo.environment)
        let flags: [String: String?] = [
            "host": host, "port": port?.description, "data": data, "memory": memory ? "true" : nil,
            "dev": dev ? "true" : nil, "durability": durability?.rawValue, "loops": loops?.description,
            "outbound-limit": outboundLimit?.description, "in-flight-limit": inFlightLimit?.description,
            "idle-timeout": idleTimeout?.description, "chunk-limit": chunkLimit?.description,
            "max-read-bytes": maxReadBytes?.description, "max-write-bytes": maxWriteBytes?.description,
        ]
        layers.flags = flags.compactMapValues { $0 }
        if let config = config ?? layers.environment["PANDO_CONFIG"] {
            do {
                layers.readFile(try Array(Data(contentsOf: URL(fileURLWithPath: config))), &problems)
            } catch {
                problems.append("--config: \(config) can't be read: \(error.localizedDescription)")
            }
        }
        return layers
    }
}

extension Durability: ExpressibleByArgument {}

/// Writes a line to stderr; where nobody can read it, it is lost.
func printError(_ line: String) {
    try? FileHandle.standardError.write(contentsOf: Data("pando: \(line)\n".utf8))
}

/// Writes to standard output; ends the command with 74 when that cannot be written.
func writeOutput(_ bytes: [UInt8]) throws {
    do {
        try FileHandle.standardOutput.write(contentsOf: Data(bytes))
    } catch {
        printError("standard output can't be written: \(error.localizedDescription)")
        throw Exit.diskFailure
    }
}

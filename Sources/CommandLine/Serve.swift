import ArgumentParser
import Foundation
import Logging
import PandoBytes
import PandoIdentity
import PandoReactor
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

    @Option(
        help: ArgumentHelp(
            """
            Security rules: a file for the database "default", or a directory with a NAMESPACE.json for each. They rule \
            over stored ones; SIGHUP reads them again.
            """, valueName: "file or dir"))
    var rules: String?

    @Flag(help: "Keep nothing: everything is gone when the server stops.")
    var memory = false

    @Flag(
        help: """
            For development: everybody may read and write, namespaces are made on first use, unsigned tokens are \
            accepted. Only on a loopback address, and only for programs and pages of this machine (--allow-origin).
            """)
    var dev = false

    @Option(
        help: ArgumentHelp(
            """
            A web page from elsewhere that may use a --dev server, as scheme://host[:port]; the server may be addressed by \
            that name too. Repeatable.
            """, valueName: "origin"))
    var allowOrigin: [String] = []

    @Option(
        help: """
            When an acknowledged write is on disk. always: before its acknowledgement (survives power loss). \
            interval: within 100 ms. none: when the kernel likes. All survive kill -9. (default: always)
            """)
    var durability: Durability?

    @Option(help: ArgumentHelp("Bytes of one file of the log. (default: 67108864)", valueName: "bytes"))
    var segmentBytes: Int?

    @Option(
        help: ArgumentHelp(
            "Bytes of log after which a checkpoint is written: about as much is read at a start. (default: 268435456)",
            valueName: "bytes"))
    var checkpointBytes: Int?

    @Option(
        help: ArgumentHelp(
            "Time after which one is written if there was any write; 0 for never. (default: 0)",
            valueName: "seconds"))
    var checkpointInterval: Int?

    @Option(
        help: ArgumentHelp(
            "Checkpoints to keep, with the log since the oldest; at least 2. (default: 2)", valueName: "count"
        ))
    var keepCheckpoints: Int?

    @Option(help: "Threads for connections; 0 stands for one less than the processors. (default: 0)")
    var loops: Int?

    @Option(
        help: ArgumentHelp(
            "Bytes a client may leave unread before it is disconnected. (default: 67108864)",
            valueName: "bytes"))
    var outboundLimit: Int?

    @Option(
        help: ArgumentHelp(
            "Bytes of requests that may wait for the disk before reading pauses. (default: 67108864)",
            valueName: "bytes"))
    var inFlightLimit: Int?

    @Option(
        help: ArgumentHelp(
            """
            Bytes that clients together may make the server hold beside the data: output they do not read, requests that wait. \
            Above 3/4 of it those that hold most are not read, and above it disconnected. (default: an eighth of the machine's or container's memory)
            """,
            valueName: "bytes"))
    var memoryLimit: Int?

    @Option(
        help: ArgumentHelp(
            "Silence after which a client is asked whether it lives. (default: 75)", valueName: "seconds"))
    var idleTimeout: Int?

    @Option(
        help: ArgumentHelp(
            """
            Time after which a client that vanished without closing its connection counts as gone, and its onDisconnect writes \
            are done, 10 to 3600. (default: about two minutes, from --idle-timeout)
            """,
            valueName: "seconds"))
    var presenceTimeout: Int?

    @Option(
        help: ArgumentHelp(
            "Time for an HTTP request to come in; a body may take longer while it comes. (default: 30)",
            valueName: "seconds"))
    var requestTimeout: Int?

    @Option(
        help: ArgumentHelp(
            "Chunks of 16 KiB a client's message may have. (default: 1100)", valueName: "count"))
    var chunkLimit: Int?

    @Option(help: ArgumentHelp("Bytes of one REST answer. (default: 268435456)", valueName: "bytes"))
    var maxReadBytes: Int?

    @Option(help: ArgumentHelp("Bytes of one REST write. (default: 268435456)", valueName: "bytes"))
    var maxWriteBytes: Int?

    @Option(
        help: ArgumentHelp(
            "File with a secret of 32 random bytes or more, as hex, Base64 or raw, that signs tokens (HS256). Repeatable.",
            valueName: "file"))
    var authSecretFile: [String] = []

    @Flag(help: "Take a secret itself for an administrator's credential, as database secrets are.")
    var allowSecretAsAdmin = false

    @Option(help: ArgumentHelp("Public keys that sign tokens, a JWK set or PEM.", valueName: "file"))
    var jwksFile: String?

    @Option(help: ArgumentHelp("iss of the tokens that the keys of --jwks-file sign.", valueName: "text"))
    var jwksIssuer: String?

    @Option(help: ArgumentHelp("aud of those tokens.", valueName: "text"))
    var jwksAudience: String?

    @Option(
        help: ArgumentHelp(
            "OpenID Connect issuer whose tokens are taken; its keys are fetched.", valueName: "url"))
    var oidcIssuer: String?

    @Option(help: ArgumentHelp("aud of the tokens of --oidc-issuer.", valueName: "text"))
    var oidcAudience: String?

    @Option(help: ArgumentHelp("Firebase project whose ID tokens are taken.", valueName: "id"))
    var firebaseProject: String?

    @Option(
        help: ArgumentHelp("By how much a clock may be wrong, 0 to 60. (default: 60)", valueName: "seconds"))
    var authClockSkew: Int?

    @Option(
        help:
            "The least of what is logged: trace, debug, info, notice, warning, error or critical. (default: info)"
    )
    var logLevel: String?

    @Option(help: ArgumentHelp("Configuration file: one JSON object of these options.", valueName: "file"))
    var config: String?

    func run() throws {
        // Before any other thread: they inherit it.
        Signals.block()
        var problems: [String] = []
        var layered = layers(&problems).configuration(&problems)
        layered.identity.revocationFile = config ?? ProcessInfo.processInfo.environment["PANDO_CONFIG"]
        let configuration = layered
        problems += waitFor { await Authenticator.fileProblems(of: configuration.identity) }
        guard problems.isEmpty else {
            for problem in problems { printError(problem) }
            throw Exit.badConfiguration
        }
        try ServerProcess.serve(configuration)
    }

    private func layers(_ problems: inout [String]) -> SettingsLayers {
        var layers = SettingsLayers(environment: ProcessInfo.processInfo.environment)
        let flags: [String: String?] = [
            "host": host, "port": port?.description, "data": data, "rules": rules,
            "memory": memory ? "true" : nil,
            "dev": dev ? "true" : nil,
            "allow-origin": allowOrigin.isEmpty ? nil : allowOrigin.joined(separator: "\n"),
            "durability": durability?.rawValue, "loops": loops?.description,
            "outbound-limit": outboundLimit?.description, "in-flight-limit": inFlightLimit?.description,
            "memory-limit": memoryLimit?.description,
            "segment-bytes": segmentBytes?.description, "checkpoint-bytes": checkpointBytes?.description,
            "checkpoint-interval": checkpointInterval?.description,
            "keep-checkpoints": keepCheckpoints?.description,
            "idle-timeout": idleTimeout?.description, "chunk-limit": chunkLimit?.description,
            "request-timeout": requestTimeout?.description, "presence-timeout": presenceTimeout?.description,
            "auth-secret-file": authSecretFile.isEmpty ? nil : authSecretFile.joined(separator: "\n"),
            "allow-secret-as-admin": allowSecretAsAdmin ? "true" : nil, "jwks-file": jwksFile,
            "jwks-issuer": jwksIssuer, "jwks-audience": jwksAudience, "oidc-issuer": oidcIssuer,
            "oidc-audience": oidcAudience, "firebase-project": firebaseProject,
            "auth-clock-skew": authClockSkew?.description, "log-level": logLevel,
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

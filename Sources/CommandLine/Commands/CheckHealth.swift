import ArgumentParser
import Foundation
import PandoSettings

/// `pando check health [URL]`
struct CheckHealth: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "health",
        abstract: "Asks a running server's admin port whether clients are served.",
        discussion: """
            Exits with 0 if so, and with 1 otherwise, with the reason: for health checks of containers, which have no \
            other program to ask with. Needs no token.
            """)

    /// The admin port's variable, as `pando serve` in the same container reads it.
    private static let listenVariable = "PANDO_ADMIN_LISTEN"
    private static let standardURL = "http://127.0.0.1:9001"
    /// The most bytes of a response; those of the admin port have fewer.
    private static let answerByteLimit = 64 << 10

    @Argument(
        help:
            "Address of the admin port (--admin-listen). (default: what PANDO_ADMIN_LISTEN says, or http://127.0.0.1:9001)"
    )
    var url: String?

    @Flag(help: "Ask only whether the process works (/livez), also during recovery.")
    var live = false

    @Option(help: ArgumentHelp("How long the whole answer may take.", valueName: "seconds"))
    var timeout = 5

    func validate() throws {
        guard (1...3600).contains(timeout) else {
            throw ValidationError("--timeout: must be 1 to 3600 seconds")
        }
    }

    func run() throws {
        let address = url ?? Self.url(listening: ProcessInfo.processInfo.environment[Self.listenVariable])
        let client = try ServerClient(
            address, token: nil, silenceSeconds: timeout, totalSeconds: timeout, name: "the address")
        var answer: [UInt8] = []
        do {
            try client.get(live ? "/livez" : "/readyz") {
                answer += $0
                guard answer.count <= Self.answerByteLimit else {
                    throw ServerClient.Failure(
                        text: "\(address): the answer is longer than that of an admin port",
                        exitCode: Exit.checkFailed)
                }
            }
        } catch let failure as ServerClient.Failure {
            return try conclude([failure.text], otherwise: "")
        }
        let words = String(decoding: answer, as: UTF8.self).trimmingCharacters(in: .newlines)
        try conclude([], otherwise: "\(address): \(words)")
    }

    /// Where a server listens with that value of `--admin-listen`; beyond loopback it speaks TLS.
    static func url(listening text: String?) -> String {
        guard let text, let address = AdminAddress(text) else { return standardURL }
        let host = address.host.contains(":") ? "[\(address.host)]" : address.host
        return "\(address.isLoopback ? "http" : "https")://\(host):\(address.port)"
    }
}

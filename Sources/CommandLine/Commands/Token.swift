import ArgumentParser
import Foundation
import PandoBytes
import PandoIdentity

/// `pando token`: prints a token that a local secret signs.
struct Token: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Prints a token signed with a local secret.",
        discussion: """
            The secret comes from --secret-file, or from the file that PANDO_AUTH_SECRET_FILE names, or from \
            PANDO_AUTH_SECRET; the first of them is used. A server with the same secret accepts the token.
            """
    )

    @Option(help: "The user: auth.uid. Not needed with --admin.")
    var uid: String?

    @Option(help: ArgumentHelp("How long the token is valid: 45s, 30m, 1h, 7d.", valueName: "time"))
    var ttl = "1h"

    @Option(
        help: ArgumentHelp(
            "A further claim, as name=value. A value that is JSON is used as JSON, any other as text. Repeatable.",
            valueName: "name=value"))
    var claim: [String] = []

    @Flag(help: "An administrator: rules do not apply.")
    var admin = false

    @Option(help: ArgumentHelp("File with the secret.", valueName: "file"))
    var secretFile: String?

    @Option(
        help: ArgumentHelp(
            "The secret's id, where the server's configuration gives it one: kid.", valueName: "id"))
    var secretID: String?

    func run() throws {
        var problems: [String] = []
        let mint = TokenMint(
            uid: uid.map { Text($0) }, lifetime: lifetime(&problems), claims: claims(&problems),
            isAdmin: admin)
        problems += mint.problems
        let secret = secret(&problems)
        guard problems.isEmpty, let secret else {
            for problem in problems { printError(problem) }
            throw ExitCode.validationFailure
        }
        let now = Int64(Date().timeIntervalSince1970)
        guard let token = waitFor({ try? await mint.token(signedWith: secret, at: now) }) else {
            throw Exit.ourFault
        }
        try writeOutput(Array("\(token)\n".utf8))
    }

    private func lifetime(_ problems: inout [String]) -> Int64 {
        let units: [Character: Int64] = ["s": 1, "m": 60, "h": 3600, "d": 86_400]
        guard let unit = ttl.last.flatMap({ units[$0] }), let count = Int64(ttl.dropLast()), count > 0,
            count < 1 << 32
        else {
            problems.append("--ttl: \"\(ttl)\" is not a time; write 45s, 30m, 1h or 7d")
            return 1
        }
        return count * unit
    }

    private func claims(_ problems: inout [String]) -> [(name: Text, json: [UInt8])] {
        var found: [(name: Text, json: [UInt8])] = []
        for text in claim {
            guard let equals = text.firstIndex(of: "="), equals != text.startIndex else {
                problems.append("--claim: \"\(text)\" is not name=value")
                continue
            }
            let value = Array(text[text.index(after: equals)...].utf8)
            found.append((Text(String(text[..<equals])), TokenMint.json(value)))
        }
        return found
    }

    private func secret(_ problems: inout [String]) -> Secret? {
        let environment = ProcessInfo.processInfo.environment
        let written: [UInt8]
        let name: String
        if let path = secretFile ?? environment["PANDO_AUTH_SECRET_FILE"] {
            guard let data = FileManager.default.contents(atPath: path) else {
                problems.append("\(path): can't be read")
                return nil
            }
            (written, name) = (Array(data), path)
        } else if let value = environment[OptionSources.secretVariable] {
            (written, name) = (Array(value.utf8), OptionSources.secretVariable)
        } else {
            problems.append("--secret-file: missing; or set PANDO_AUTH_SECRET_FILE or PANDO_AUTH_SECRET")
            return nil
        }
        do throws(UnreadableKeys) {
            return try Secret(written: written, encoding: nil, id: secretID.map { Text($0) })
        } catch {
            problems.append("secret \(name): \(error)")
            return nil
        }
    }
}

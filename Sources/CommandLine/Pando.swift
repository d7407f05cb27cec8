import ArgumentParser
import Foundation
import PandoLog
import PandoSettings

/// The `pando` binary: every command of it, and nothing else.
@main
struct Pando: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pando",
        abstract: "A self-hosted realtime database that Firebase Realtime Database clients connect to.",
        discussion: """
            Exit codes: 0 clean, 1 a check found problems, 64 wrong usage, 65 bad data, 70 our fault, \
            74 disk failure, 78 bad configuration.
            """,
        version: programVersion,
        subcommands: [
            Serve.self, Import.self, Export.self, Backup.self, Restore.self, Check.self, Test.self,
            PrintJournal.self, NamespaceCommand.self, Token.self, Top.self,
        ]
    )

    /// Runs the command of the arguments. Errors are printed with control characters escaped
    /// (``PandoLog/LogLine``).
    static func main() {
        do {
            var command = try parseAsRoot()
            try command.run()
        } catch {
            exit(reporting: error)
        }
    }

    private static func exit(reporting error: any Error) -> Never {
        let message = fullMessage(for: error)
        guard !exitCode(for: error).isSuccess, !message.isEmpty else { exit(withError: error) }
        let arguments = CommandLine.arguments.dropFirst()
        for line in QuotedArguments.escaped(in: message, of: arguments).split(
            separator: "\n", omittingEmptySubsequences: false)
        {
            StandardError().write("\(line)\n")
        }
        Foundation.exit(exitCode(for: error).rawValue)
    }
}

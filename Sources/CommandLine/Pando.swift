import ArgumentParser
import PandoServer

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
        version: "0.1.0",
        subcommands: [
            Serve.self, Import.self, Export.self, Backup.self, Restore.self, Check.self, Test.self, Log.self,
            NamespaceCommand.self, Token.self,
        ]
    )
}

/// Why the process ends (after BSD's sysexits).
enum Exit {
    static let checkFailed = ExitCode(1)
    static let badData = ExitCode(65)
    static let ourFault = ExitCode(70)
    static let diskFailure = ExitCode(74)
    static let badConfiguration = ExitCode(78)
}

extension Exit {
    /// Says what is wrong, and gives the code to end with.
    static func saying(_ error: StartError) -> ExitCode {
        printError(error.description)
        return ExitCode(error.exitCode)
    }
}

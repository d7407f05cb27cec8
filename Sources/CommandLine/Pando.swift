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
        var command: any ParsableCommand
        do { command = try parseAsRoot() } catch { exit(reporting: errorWithEscapedArguments ?? error) }
        do { try command.run() } catch { exit(reporting: error) }
    }

    /// What is wrong with the arguments after control characters in them were escaped: its message may quote
    /// any part of them. nil where nothing is wrong then.
    private static var errorWithEscapedArguments: (any Error)? {
        let escaped = CommandLine.arguments.dropFirst().map {
            String(decoding: LogLine.bytes("\($0)\n").dropLast(), as: UTF8.self)
        }
        do { _ = try parseAsRoot(escaped) } catch { return error }
        return nil
    }

    private static func exit(reporting error: any Error) -> Never {
        var message = fullMessage(for: error)
        guard !exitCode(for: error).isSuccess, !message.isEmpty else { exit(withError: error) }
        // A command may quote an argument, or what is behind its `=`. Only these may hold line feeds that are
        // not the message's own.
        let quoted = CommandLine.arguments.flatMap { argument in
            [argument] + (argument.firstIndex(of: "=").map { [String(argument[$0...].dropFirst())] } ?? [])
        }
        for text in quoted.sorted(by: { $0.utf8.count > $1.utf8.count })
        where text.contains("\n") && text.contains(where: { !$0.isWhitespace }) {
            let shown = String(decoding: LogLine.bytes("\(text)\n").dropLast(), as: UTF8.self)
            message = message.replacingOccurrences(of: text, with: shown)
        }
        for line in message.split(separator: "\n", omittingEmptySubsequences: false) {
            StandardError().write("\(line)\n")
        }
        Foundation.exit(exitCode(for: error).rawValue)
    }
}

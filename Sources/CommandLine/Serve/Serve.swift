import ArgumentParser
import Foundation
import PandoBytes
import PandoIdentity
import PandoReactor
import PandoServer
import PandoSettings

/// `pando serve`
struct Serve: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Serves databases to clients.",
        discussion: """
            Every option is also an environment variable (--in-flight-limit: PANDO_IN_FLIGHT_LIMIT) and a key of the \
            configuration file ("in-flight-limit"). A flag takes precedence over the environment, and the \
            environment over the file. A key that is not an option is an error, a PANDO_ variable is a warning.
            """
    )

    @OptionGroup var flags: ServeFlags

    @Option(
        help: ArgumentHelp(
            "Configuration file: one JSON object of these options. (PANDO_CONFIG)", valueName: "file"))
    var config: String?

    @Flag(
        help:
            "Print the options that flags, environment and file make together, as a configuration file, and start nothing."
    )
    var printConfig = false

    func run() throws {
        // Before any other thread starts: threads inherit the signal mask.
        Signals.block()
        let environment = ProcessInfo.processInfo.environment
        var sources = OptionSources(flags: flags.given, environment: environment)
        var problems: [String] = []
        let file = config ?? environment[OptionSources.fileVariable]
        if let file {
            do throws(InputFile.Failure) {
                sources.readFile(try InputFile.content(of: file), &problems)
            } catch {
                // Nothing else is said: what is in the file would only seem to be missing.
                let logFormat = sources.configuration(&problems).logFormat
                try ServerProcess.refuse(["--config: \(error.text)"], logFormat: logFormat)
            }
        }
        var merged = sources.configuration(&problems)
        merged.identity.revocationFile = file
        merged.serviceManager = ServiceManager(environment)
        if let passed = PassedSockets.descriptors(
            environment, processID: ProcessInfo.processInfo.processIdentifier)
        {
            merged.passedSockets = passed
        } else {
            problems.append("LISTEN_FDS: is not a number of sockets that this process can use")
        }
        let configuration = merged
        problems += waitFor { await Authenticator.fileProblems(of: configuration.identity) }
        guard problems.isEmpty else {
            try ServerProcess.refuse(problems, logFormat: configuration.logFormat)
        }
        if printConfig { return try writeOutput(sources.printed) }
        let options = file.map { OptionReload(of: $0, sources) }
        try ServerProcess.serve(configuration, warnings: sources.warnings) { options?.read() }
    }
}

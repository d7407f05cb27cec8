import ArgumentParser
import Foundation
import Logging
import PandoIdentity
import PandoReactor
import PandoServer

/// Runs a server, from its configuration to the exit code of the process.
enum ServerProcess {
    /// - Parameter warnings: What the log begins with.
    /// - Precondition: ``Signals/block()`` was called before any thread began.
    static func serve(_ configuration: Configuration, warnings: [String]) throws {
        raiseDescriptorLimit()
        reserveDescriptorTable()
        raiseFastbinLimit()
        mapLargeAllocations()
        let isJSON = configuration.logFormat == .json
        var logger = Logger(label: "pando") { label -> any LogHandler in
            LimitedLogHandler(isJSON ? JSONLogHandler() : StreamLogHandler.standardError(label: label))
        }
        logger.logLevel = configuration.logLevel
        for warning in warnings { logger.warning("\(warning)") }
        let authenticator: Authenticator
        do throws(UnusableIdentity) {
            authenticator = try makeAuthenticator(configuration.identity, logger).get()
        } catch {
            for problem in error.problems { report(problem, isJSON, logger) }
            throw Exit.badConfiguration
        }
        let server: Server
        do throws(StartError) {
            server = try Server(starting: configuration, authenticator: authenticator, logger: logger)
        } catch {
            report(error.description, isJSON, logger)
            throw ExitCode(error.exitCode)
        }
        do throws(SocketError) {
            try server.run {
                // Scripts wait for these lines, so they are written without a buffer.
                for url in server.urls { try? writeOutput(Array("listening on \(url)\n".utf8)) }
            }
        } catch {
            report("\(error)", isJSON, logger)
            throw Exit.ourFault
        }
    }

    /// Says why the process ends: as a message of the log where that is read by a program.
    private static func report(_ problem: String, _ isJSON: Bool, _ logger: Logger) {
        if isJSON { logger.critical("\(problem)") } else { printError(problem) }
    }

    private static func makeAuthenticator(
        _ configuration: IdentityConfiguration, _ logger: Logger
    ) -> Result<Authenticator, UnusableIdentity> {
        waitFor {
            do throws(UnusableIdentity) {
                return .success(try await Authenticator(configuration) { logger.warning("\($0)") })
            } catch {
                return .failure(error)
            }
        }
    }
}

import ArgumentParser
import Foundation
import Glibc
import Logging
import PandoIdentity
import PandoLog
import PandoReactor
import PandoServer
import PandoSettings

/// Runs a server, from its configuration to the exit code of the process.
enum ServerProcess {
    /// - Parameters:
    ///   - warnings: What the log begins with.
    ///   - readOptions: Reads the options again, on SIGHUP; nil where none can have changed.
    /// - Precondition: ``Signals/block()`` was called before any thread began.
    static func serve(
        _ configuration: Configuration, warnings: [String],
        readOptions: @escaping @Sendable () -> ReloadedOptions?
    ) throws {
        raiseDescriptorLimit()
        reserveDescriptorTable()
        raiseFastbinLimit()
        mapLargeAllocations()
        let isJSON = configuration.logFormat == .json
        let log: ServerLog
        do throws(SocketError) {
            log = try openLog(configuration.logFormat, from: configuration.logLevel)
            try log.startWriter()
        } catch {
            printError("\(error)")
            throw Exit.ourFault
        }
        // Whatever ends it: what was said is written.
        defer { log.writer.stop() }
        let logger = log.messages
        for warning in warnings { logger.warning("\(warning)") }
        let authenticator: Authenticator
        do throws(UnusableIdentity) {
            authenticator = try makeAuthenticator(configuration.identity, logger).get()
        } catch {
            for problem in error.problems { report(problem, isJSON, log) }
            throw Exit.badConfiguration
        }
        let server: Server
        do throws(StartError) {
            server = try Server(
                starting: configuration, authenticator: authenticator, log: log, readOptions: readOptions)
        } catch {
            for problem in error.problems { report(problem, isJSON, log) }
            end(error.exitCode, log)
        }
        do throws(SocketError) {
            try server.run {
                // Scripts wait for these lines, so they are written without a buffer; who reads them finds in
                // the log what was said of the recovery.
                log.writer.flush()
                for url in server.urls { try? writeOutput(Array("listening on \(url)\n".utf8)) }
            }
        } catch {
            report("\(error)", isJSON, log)
            end(Exit.ourFault.rawValue, log)
        }
        if server.hasLeftThreads { end(0, log) }
    }

    /// Ends the process while threads of the server may still run, once what was said is written. They must
    /// not go on while exit(3) cleans up: one may wait for a disk that answers at any moment.
    private static func end(_ exitCode: Int32, _ log: ServerLog) -> Never {
        log.writer.stop()
        _exit(exitCode)
    }

    /// Standard error. Its writer is not started.
    private static func openLog(_ format: Configuration.LogFormat, from level: Logger.Level)
        throws(SocketError) -> ServerLog
    {
        let writer = try LogWriter()
        let level = LogLevel(level)
        func logger(isOfRequests: Bool) -> Logger {
            Logger(label: "pando") { label -> any LogHandler in
                let handler: any LogHandler =
                    format == .json
                    ? JSONLogHandler(to: writer, isOfRequests: isOfRequests, from: level)
                    : TextLogHandler(label: label, to: writer, isOfRequests: isOfRequests, from: level)
                return isOfRequests ? handler : LimitedLogHandler(handler)
            }
        }
        return ServerLog(
            messages: logger(isOfRequests: false), requests: logger(isOfRequests: true), writer: writer,
            level: level)
    }

    /// Says why no server is started, in the form that the log would have, and ends the process.
    /// - Throws: Always, ``Exit/badConfiguration``.
    static func refuse(_ problems: [String], logFormat: Configuration.LogFormat) throws -> Never {
        let log = try? openLog(logFormat, from: .info)
        for problem in problems {
            if let log { report(problem, logFormat == .json, log) } else { printError(problem) }
        }
        throw Exit.badConfiguration
    }

    /// Says why the process ends, behind what was logged before: as a message of the log where that is read
    /// by a program.
    private static func report(_ problem: String, _ isJSON: Bool, _ log: ServerLog) {
        if isJSON { return log.messages.critical("\(problem)") }
        log.writer.flush()
        printError(problem)
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

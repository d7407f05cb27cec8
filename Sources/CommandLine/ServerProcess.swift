import ArgumentParser
import Foundation
import Logging
import PandoReactor
import PandoServer

/// The life of a serving process: from its configuration to its exit code.
enum ServerProcess {
    static func serve(_ configuration: Configuration) throws {
        // Before any other thread: they inherit it.
        Signals.block()
        raiseDescriptorLimit()
        let logger = Logger(label: "pando") { StreamLogHandler.standardError(label: $0) }
        let server: Server
        do throws(StartError) {
            server = try Server(starting: configuration, logger: logger)
        } catch {
            printError(error.description)
            throw ExitCode(error.exitCode)
        }
        do throws(SocketError) {
            try server.run {
                // Scripts wait for the line: it must not stay in a buffer.
                try? writeOutput(Array("listening on \(server.url)\n".utf8))
            }
        } catch {
            printError("\(error)")
            throw Exit.ourFault
        }
    }
}

import ArgumentParser
import Glibc
import PandoReactor

/// `pando-echo`: an echo server on the modules WebSocket and Reactor, without a database. The database's
/// throughput is measured against it, and conformance suites connect to it.
@main
struct EchoServer: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pando-echo",
        abstract: "Sends every WebSocket message back; on /broadcast, to everyone connected there."
    )

    @Option(help: "Address to listen on.")
    var host = "127.0.0.1"

    @Option(help: "Port to listen on; 0 picks a free one.")
    var port: UInt16 = 9001

    @Option(help: "Threads for connections.")
    var loops = 1

    @Option(help: ArgumentHelp("Longest message accepted.", valueName: "bytes"))
    var messageLimit = 64 << 20

    func validate() throws {
        guard (1...64).contains(loops) else { throw ValidationError("--loops must be 1 to 64") }
        guard messageLimit > 0 else { throw ValidationError("--message-limit must be positive") }
    }

    func run() throws {
        Signals.block()
        raiseDescriptorLimit()
        guard let address = try SocketAddress.resolve(host: host, port: port).first else {
            throw ValidationError("--host: \(host) has no address")
        }
        let eventLoops = try (0..<loops).map { _ in try EventLoop() }
        let echoLoops = EchoLoop.make(on: eventLoops, messageByteLimit: messageLimit)
        let acceptor = try Acceptor(at: address, on: eventLoops[0], targets: eventLoops) { socket, loop in
            echoLoops.first { $0.loop === loop }?.adopt(socket)
        }
        let signals = try Signals(on: eventLoops[0]) { signal in
            if signal != .hangUp { eventLoops.forEach { $0.stop() } }
        }
        let threads = try eventLoops.dropFirst().map { loop in
            try NamedThread.start("pando-echo") { loop.run() }
        }
        print("listening on http://\(acceptor.address)")
        fflush(nil)  // Scripts wait for the line; stdout may be a pipe.
        withExtendedLifetime(signals) { eventLoops[0].run() }
        for thread in threads { thread.join() }
    }
}

import ArgumentParser
import Glibc
import PandoCompression
import PandoReactor
import PandoTLS
import PandoWebSocket

/// `pando-echo`: an echo server on the modules WebSocket and Reactor, without a database. The database's
/// throughput is measured against it, and conformance suites connect to it.
@main
struct EchoServer: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pando-echo",
        abstract: "Sends every WebSocket message back; on /broadcast, to all clients connected there."
    )

    @Option(help: "Address to listen on.")
    var host = "127.0.0.1"

    @Option(help: "Port to listen on; 0 picks a free one.")
    var port: UInt16 = 9001

    @Option(help: "Threads for connections.")
    var loops = 1

    @Option(help: ArgumentHelp("Longest message accepted.", valueName: "bytes"))
    var messageLimit = 64 << 20

    @Flag(inversion: .prefixedNo, help: "Negotiate permessage-deflate with clients that offer it.")
    var deflate = true

    @Flag(
        inversion: .prefixedNo,
        help: "Let messages refer to earlier ones, which takes up to 310 KB for each connection.")
    var deflateTakeover = true

    @Option(help: ArgumentHelp("Shortest message that is compressed.", valueName: "bytes"))
    var deflateThreshold = MessageDeflater.Options().thresholdByteCount

    @Option(
        help: ArgumentHelp(
            "Most memory of messages that refer to earlier ones; connections beyond it are not compressed.",
            valueName: "bytes"))
    var deflateMemory = 256 << 20

    @Option(help: ArgumentHelp("Certificate chain (PEM): the port speaks TLS.", valueName: "file"))
    var tlsCert: String?

    @Option(help: ArgumentHelp("Private key of --tls-cert (PEM).", valueName: "file"))
    var tlsKey: String?

    @Option(
        help: ArgumentHelp(
            "Directory with NAME/fullchain.pem and NAME/privkey.pem for each host name.", valueName: "dir"))
    var tlsDir: String?

    func validate() throws {
        if let problem = certificateLocations.problems.first { throw ValidationError(problem) }
        guard (1...64).contains(loops) else { throw ValidationError("--loops must be 1 to 64") }
        guard messageLimit > 0 else { throw ValidationError("--message-limit must be positive") }
        guard deflateThreshold >= 0 else { throw ValidationError("--deflate-threshold must not be negative") }
        guard deflateMemory >= 0 else { throw ValidationError("--deflate-memory must not be negative") }
    }

    func run() throws {
        Signals.block()
        let certificates = try openCertificates()
        raiseDescriptorLimit()
        guard let address = try SocketAddress.resolve(host: host, port: port).first else {
            throw ValidationError("--host: \(host) has no address")
        }
        let eventLoops = try (0..<loops).map { _ in try EventLoop() }
        let echoLoops = EchoLoop.make(on: eventLoops, options: options(certificates))
        let acceptor = try Acceptor(at: address, on: eventLoops[0], targets: eventLoops) { socket, loop in
            echoLoops.first { $0.loop === loop }.map { EchoConnection.adopt(socket, on: $0) }
        }
        let signals = try Signals(on: eventLoops[0]) { signal in
            if signal != .hangUp { return eventLoops.forEach { $0.stop() } }
            if let certificates { Self.log(certificates.reload(at: Self.now)) }
        }
        if let certificates { watch(certificates, on: eventLoops[0]) }
        let threads = try eventLoops.dropFirst().map { loop in
            try NamedThread.start("pando-echo") { loop.run() }
        }
        print("listening on \(certificates == nil ? "http" : "https")://\(acceptor.address)")
        fflush(nil)  // Scripts wait for the line; stdout may be a pipe.
        withExtendedLifetime(signals) { eventLoops[0].run() }
        for thread in threads { thread.join() }
    }

    // MARK: Certificates

    private var certificateLocations: CertificateLocations {
        var locations = CertificateLocations()
        locations.certificate = tlsCert
        locations.key = tlsKey
        locations.directory = tlsDir
        return locations
    }

    /// - Returns: nil without TLS. Ends the process with 78 (EX_CONFIG) where a file is bad.
    private func openCertificates() throws -> CertificateStore? {
        guard certificateLocations.isUsed else { return nil }
        do throws(CertificateStore.Problems) {
            let certificates = try CertificateStore(certificateLocations)
            Self.log(certificates.warnings(at: Self.now))
            return certificates
        } catch {
            for text in error.texts { Self.printError("error: \(text)") }
            throw ExitCode(78)
        }
    }

    private func watch(_ certificates: CertificateStore, on loop: EventLoop) {
        loop.schedule(after: CertificateStore.checkInterval) {
            Self.log(certificates.reloadIfChanged(at: Self.now))
            watch(certificates, on: loop)
        }
    }

    /// Seconds since 1970.
    private static var now: Int64 { Int64(time(nil)) }

    private static func log(_ messages: [CertificateStore.Message]) {
        for message in messages { printError("\(message.level): \(message.text)") }
    }

    private static func printError(_ line: String) {
        let bytes = Array((line + "\n").utf8)
        _ = unsafe write(STDERR_FILENO, bytes, bytes.count)
    }

    private func options(_ certificates: CertificateStore?) -> EchoOptions {
        var deflateOptions = DeflateOptions()
        deflateOptions.server.takesOver = deflateTakeover
        deflateOptions.client.takesOver = deflateTakeover
        var deflaterOptions = MessageDeflater.Options()
        deflaterOptions.thresholdByteCount = deflateThreshold
        return EchoOptions(
            messageByteLimit: messageLimit, deflate: deflate ? deflateOptions : nil,
            deflater: deflaterOptions, budget: CompressionBudget(byteLimit: deflateMemory),
            certificates: certificates)
    }
}

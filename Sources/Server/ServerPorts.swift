import Logging
import PandoLoops
import PandoReactor
import PandoSettings

/// Where clients reach the server: the sockets that accept connections, and the port that redirects to them.
struct ServerPorts {
    let acceptors: [Acceptor]
    let redirectPort: RedirectPort?
    private let usesTLS: Bool

    /// Bytes that the kernel takes of a connection and has not sent yet.
    private static let unsentByteLimit: UInt32 = 128 << 10

    /// Binds the addresses. Nothing is accepted before the loops run.
    /// - Throws: ``StartError/address(_:)``.
    init(_ configuration: Configuration, _ resources: LoopResources, _ loops: [IOLoop]) throws(StartError) {
        usesTLS = resources.certificates != nil
        var options = Acceptor.Configuration()
        options.options.unsentLowWaterByteCount = Self.unsentByteLimit
        let sockets = try ListeningSockets.open(configuration, options: options.options)
        let byEventLoop = Dictionary(uniqueKeysWithValues: loops.map { (ObjectIdentifier($0.loop), $0) })
        let logger = resources.log.messages
        let accepting = resources.eventLoops[0]
        do throws(SocketError) {
            var acceptors: [Acceptor] = []
            for socket in sockets {
                acceptors.append(
                    try Acceptor(
                        socket, on: accepting, targets: resources.eventLoops, configuration: options,
                        adopt: { socket, loop in byEventLoop[ObjectIdentifier(loop)]?.adopt(socket) },
                        onExhausted: { error in logger.error("accepting connections is paused: \(error)") },
                        limiter: resources.limiter,
                        evict: { count, isReserved, loop in
                            byEventLoop[ObjectIdentifier(loop)]?.evict(count, ofReserved: isReserved)
                        },
                        onLimit: { report in logger.warning("\(report)") }))
            }
            self.acceptors = acceptors
            let targets = RedirectPort.targets(acceptors.map(\.address))
            redirectPort =
                if let port = configuration.redirectPort, !targets.isEmpty {
                    try RedirectPort(
                        to: targets, port: port, on: accepting, trustedProxies: configuration.trustedProxies)
                } else {
                    nil
                }
        } catch {
            throw .address("\(error)")
        }
        if configuration.redirectPort != nil, redirectPort == nil {
            throw .address(
                "--http-redirect-port: needs an address to listen on, and the service manager has passed Unix sockets only"
            )
        }
    }

    /// Where clients find the server: `http://127.0.0.1:9000`, or `https:` with TLS; `unix:PATH` for a Unix
    /// socket. Not empty.
    var urls: [String] {
        acceptors.map { acceptor in
            if acceptor.address.isUnix { return acceptor.path.map { "unix:\($0)" } ?? "unix" }
            return "\(usesTLS ? "https" : "http")://\(acceptor.address)"
        }
    }

    /// No new connections. On the first I/O loop only.
    func close() {
        for acceptor in acceptors { acceptor.close() }
        redirectPort?.close()
    }
}

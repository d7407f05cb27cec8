import PandoIdentity
import PandoLoops
import PandoReactor
import PandoSettings
import PandoTLS

/// What monitoring and administrators learn of the server, on a thread and a loop of their own: a slow or
/// hostile client takes no time of those that serve data. With `--admin-listen` it has a port, which is open
/// before the data directory is read:
///
///     /metrics /livez /readyz          open
///     /varz /connz /slowz /topz        an administrator's token, unless --dev
///
/// The server's own port has what is for administrators, and the log, below `/.inspect` (rest §10.3):
/// ``AdminReports``.
///
/// `@unchecked Sendable`: what is mutable is used on the loop's thread only, or before it runs.
package final class AdminServer: @unchecked Sendable {
    /// Connections at a time; for more, others are closed (``ShortConnections``). A scraper needs one.
    package static let connectionLimit = 64
    /// Bytes of responses that may be unsent to one client.
    private static let outboundByteLimit = 64 << 20

    /// What is said here, and at the server's own port.
    /// The reports that this port and `/.inspect` serve.
    package let reports: AdminReports
    private let loop: EventLoop
    private let authenticator: Authenticator
    private let configuration: Configuration
    /// nil without `--admin-listen`.
    private let acceptor: Acceptor?
    private let isSecure: Bool
    private var thread: NamedThread?
    private var connections = ShortConnections<AdminConnection>(limit: connectionLimit)

    /// Binds the address, where there is one; nothing is answered before ``start()``.
    /// - Parameters:
    ///   - loop: From ``makeLoop()``.
    ///   - resources: Those of the I/O loops.
    /// - Throws: ``SocketError`` where the address cannot be bound.
    package init(
        at address: SocketAddress?, on loop: EventLoop, _ resources: LoopResources, _ sources: AdminSources
    ) throws(SocketError) {
        self.loop = loop
        reports = AdminReports(on: loop, resources, sources)
        configuration = resources.configuration
        authenticator = resources.authenticator
        guard let address else {
            (acceptor, isSecure) = (nil, false)
            return
        }
        // Programs on this machine need no TLS: they could as well read the key.
        let certificates = address.isLoopback ? nil : resources.certificates
        isSecure = certificates != nil
        let box = Box()
        acceptor = try Acceptor(
            at: address, on: loop, targets: [loop],
            adopt: { socket, loop in box.server?.adopt(socket, certificates) })
        box.server = self
    }

    /// What the acceptor's handler, which is made first, knows the server by.
    private final class Box: @unchecked Sendable {
        weak var server: AdminServer?
    }

    /// A loop for the admin port.
    /// - Throws: ``SocketError`` where the process has no free descriptor.
    package static func makeLoop() throws(SocketError) -> EventLoop {
        var options = EventLoop.Configuration()
        options.outboundByteLimit = outboundByteLimit
        // A request's head, and nothing else, comes in.
        options.receiveBufferByteCount = 64 << 10
        return try EventLoop(options)
    }

    /// Where it listens: `http://127.0.0.1:9001`; nil without a port.
    package var url: String? { acceptor.map { "\(isSecure ? "https" : "http")://\($0.address)" } }

    /// Begins to answer.
    /// - Throws: ``SocketError`` where the system starts no thread.
    package func start() throws(SocketError) {
        thread = try NamedThread.start("pando-admin") { [loop] in loop.run() }
    }

    /// Ends the thread.
    package func stop() {
        loop.stop()
        thread.take()?.join()
    }

    private func adopt(_ socket: ConnectedSocket, _ certificates: CertificateStore?) {
        if connections.isFull {
            // All are being answered: this one is closed.
            guard let other = connections.nextToClose else { return }
            connections.remove(other)
            other.cut()
        }
        let tls = certificates.map { TLSConnection(server: $0.context) }
        let peer = socket.peer
        let readsProxyHeader = configuration.trustedProxies.contains(peer)
        _ = try? Channel.adopt(socket, on: loop, tls: tls, readsProxyHeader: readsProxyHeader) { channel in
            let connection = AdminConnection(channel, reports, authenticator, delegate: self)
            connections.add(connection, from: peer)
            return connection
        }
    }
}

extension AdminServer: AdminConnectionDelegate {
    func move(_ connection: AdminConnection, to stage: ShortConnections<AdminConnection>.Stage) {
        connections.move(connection, to: stage)
    }

    func closed(_ connection: AdminConnection) { connections.remove(connection) }
}

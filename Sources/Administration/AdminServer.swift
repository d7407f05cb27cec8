import Logging
import PandoBytes
import PandoDatabase
import PandoEngine
import PandoIdentity
import PandoLoops
import PandoMetrics
import PandoREST
import PandoReactor
import PandoSettings
import PandoTLS
import PandoTime

/// What monitoring and administrators learn of the server, on a thread and a loop of their own: a slow or
/// hostile client takes no time of those that serve data. With `--admin-listen` it has a port, which is open
/// before the data directory is read:
///
///     /metrics /livez /readyz          open
///     /varz /connz /slowz /topz        an administrator's token, unless --dev
///
/// The server's own port has what is for administrators, and the log, below `/.inspect` (rest §10.3).
///
/// `@unchecked Sendable`: what is mutable is used on the loop's thread only, or before it runs.
package final class AdminServer: @unchecked Sendable {
    /// Connections at a time; for more, others are closed (``ShortConnections``). A scraper needs one.
    package static let connectionLimit = 64
    /// A request must be there by then. Clients send it with the connection, some behind a TLS handshake.
    static let headTimeout: Duration = .seconds(5)
    /// From the request on: its response must be taken by then.
    static let exchangeTimeout: Duration = .seconds(30)
    /// How long a response waits for what other threads know; then it says what is known.
    static let databaseTimeout: Duration = .milliseconds(500)
    /// Bytes of responses that one client may leave unread.
    private static let outboundByteLimit = 64 << 20

    let loop: EventLoop
    let metrics: ServerMetrics
    let registry: MetricRegistry
    let authenticator: Authenticator
    let configuration: Configuration
    let database: DatabaseExecutor
    let ioLoops: [IOLoop]
    private let logTail: LogTail
    /// nil without `--admin-listen`.
    private let acceptor: Acceptor?
    private let isSecure: Bool
    private var thread: NamedThread?
    private var connections = ShortConnections<AdminConnection>(limit: connectionLimit)
    /// What waits for ``refresh(_:)``; at most one for each connection, here or at the server's own port.
    private var waiting: [() -> Void] = []
    private var lastRefresh: MonotonicTime?

    /// Binds the address, where there is one; nothing is answered before ``start()``.
    /// - Parameters:
    ///   - loop: From ``makeLoop()``.
    ///   - resources: Those of the I/O loops.
    /// - Throws: ``SocketError`` where the address cannot be bound.
    package init(
        at address: SocketAddress?, on loop: EventLoop, _ resources: LoopResources, _ sources: AdminSources
    ) throws(SocketError) {
        self.loop = loop
        logTail = sources.logTail
        metrics = ServerMetrics(resources, sources, adminLoop: loop)
        registry = metrics.registry
        configuration = resources.configuration
        authenticator = resources.authenticator
        database = resources.database
        ioLoops = sources.ioLoops
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
            guard let other = connections.leastUseful else { return }
            connections.remove(other)
            other.cut()
        }
        let tls = certificates.map { TLSConnection(server: $0.context) }
        let readsProxyHeader = configuration.trustedProxies.contains(socket.peer)
        _ = try? Channel.adopt(socket, on: loop, tls: tls, readsProxyHeader: readsProxyHeader) { channel in
            let connection = AdminConnection(self, channel)
            connections.add(connection)
            return connection
        }
    }

    func move(_ connection: AdminConnection, to stage: ShortConnections<AdminConnection>.Stage) {
        connections.move(connection, to: stage)
    }

    func closed(_ connection: AdminConnection) { connections.remove(connection) }

    // MARK: Questions at the server's own port

    /// Answers what an administrator asks (rest §10.3). Any thread may call it.
    /// - Parameter finish: Called on this server's thread.
    package func answer(_ question: ServerQuestion, _ finish: @escaping @Sendable (RESTReport) -> Void) {
        loop.submit { self.report(question, finish) }
    }

    private func report(_ question: ServerQuestion, _ finish: @escaping (RESTReport) -> Void) {
        switch question.page {
        case .stats: refresh { [self] in finish(RESTReport(prefix: variables)) }
        case .operations: finish(RESTReport(prefix: slowOperations))
        case .connections:
            guard let request = ConnectionListRequest(question.parameters) else {
                return finish(RESTReport(.badRequest, error: ConnectionListRequest.usage))
            }
            listConnections(request) { list in finish(RESTReport(prefix: list)) }
        case .log:
            let text = question.parameters["after"]
            guard let number = UInt64(text ?? "0") else {
                return finish(RESTReport(.badRequest, error: "after must be the number of a message"))
            }
            finish(RESTReport(prefix: logTail.json(after: number)))
        }
    }

    // MARK: What other threads know

    /// The shortest time between two looks at the databases for metrics, however many ask.
    private static let refreshInterval: Duration = .milliseconds(100)

    /// Calls `body` on the loop when the gauges of the databases and of the machine are up to date.
    func refresh(_ body: @escaping () -> Void) {
        waiting.append(body)
        guard waiting.count == 1 else { return }
        let due = lastRefresh.map { max(loop.now, $0 + Self.refreshInterval) } ?? loop.now
        loop.schedule(at: due) { [self] in
            lastRefresh = loop.now
            statistics { [self] _ in
                metrics.machine.refresh(at: loop.now)
                for body in exchange(&waiting, with: []) { body() }
            }
        }
    }

    /// Asks the databases what they hold, and calls `body` with what they say about some sessions, on the
    /// loop; with nothing where they do not answer in time: during recovery, or while the server stops.
    func statistics(
        of sessions: [SessionID] = [],
        _ body: @escaping ([SessionID: DatabaseStatistics.Session]) -> Void
    ) {
        let answer = FirstResult(on: loop, timeout: Self.databaseTimeout, otherwise: [:], body)
        guard metrics.status.phase == .ready else { return answer.give([:]) }
        database.post(
            .statistics(DatabaseStatisticsRequest(of: sessions) { found in answer.giveFromElsewhere(found) }))
    }
}

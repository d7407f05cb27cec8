import Logging
import PandoBytes
import PandoDatabase
import PandoEngine
import PandoIdentity
import PandoMetrics
import PandoREST
import PandoReactor
import PandoTLS
import PandoTime

/// The version of the program, as `pando --version` and `pando_build_info` say it.
package let programVersion = "0.1.0"

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
final class AdminServer: @unchecked Sendable {
    /// Connections at a time; for more, others are closed (``ShortConnections``). A scraper needs one.
    static let connectionLimit = 64
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
    /// - Throws: ``StartError/address(_:)``, ``StartError/machine(_:)``.
    init(
        at address: SocketAddress?, on loop: EventLoop, configuration: Configuration, metrics: ServerMetrics,
        authenticator: Authenticator, database: DatabaseExecutor, ioLoops: [IOLoop],
        certificates: CertificateStore?, logTail: LogTail
    ) throws(StartError) {
        self.loop = loop
        self.logTail = logTail
        self.metrics = metrics
        registry = metrics.registry
        self.configuration = configuration
        self.authenticator = authenticator
        self.database = database
        self.ioLoops = ioLoops
        guard let address else {
            (acceptor, isSecure) = (nil, false)
            return
        }
        // Programs on this machine need no TLS: they could as well read the key.
        let certificates = address.isLoopback ? nil : certificates
        isSecure = certificates != nil
        let box = Box()
        do throws(SocketError) {
            acceptor = try Acceptor(
                at: address, on: loop, targets: [loop],
                adopt: { socket, loop in box.server?.adopt(socket, certificates) })
        } catch {
            throw .address("--admin-listen: \(error)")
        }
        box.server = self
    }

    /// What the acceptor's handler, which is made first, knows the server by.
    private final class Box: @unchecked Sendable {
        weak var server: AdminServer?
    }

    /// A loop for the admin port.
    static func makeLoop() throws(SocketError) -> EventLoop {
        var options = EventLoop.Configuration()
        options.outboundByteLimit = outboundByteLimit
        // A request's head, and nothing else, comes in.
        options.receiveBufferByteCount = 64 << 10
        return try EventLoop(options)
    }

    /// Where it listens: `http://127.0.0.1:9001`; nil without a port.
    var url: String? { acceptor.map { "\(isSecure ? "https" : "http")://\($0.address)" } }

    /// Begins to answer.
    func start() throws(SocketError) {
        thread = try NamedThread.start("pando-admin") { [loop] in loop.run() }
    }

    /// Ends the thread.
    func stop() {
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
    func answer(_ question: ServerQuestion, _ finish: @escaping @Sendable (RESTReport) -> Void) {
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

/// Calls a function once: with the first answer, or after a timeout. Confined to a loop, but for
/// ``giveFromElsewhere(_:)``.
///
/// `@unchecked Sendable`: the function is used on the loop only.
final class FirstResult<Value: Sendable>: @unchecked Sendable {
    private let loop: EventLoop
    private var body: ((Value) -> Void)?
    private var timer: TimerToken?

    init(on loop: EventLoop, timeout: Duration, otherwise standard: Value, _ body: @escaping (Value) -> Void)
    {
        self.loop = loop
        self.body = body
        timer = loop.schedule(after: timeout) { [self] in
            timer = nil
            give(standard)
        }
    }

    /// On the loop.
    func give(_ value: Value) {
        if let timer = timer.take() { loop.cancel(timer) }
        body.take()?(value)
    }

    /// Any thread.
    func giveFromElsewhere(_ value: Value) {
        loop.submit { self.give(value) }
    }
}

import Logging
import PandoConnections
import PandoDatabase
import PandoEngine
import PandoReactor
import PandoTLS
import PandoTime
import PandoWebSocket

/// Begins the sessions of a loop, and does for them what concerns other sessions, or the table: upgrades,
/// moves to other loops and to WebSockets, polls, the end. Confined to its loop.
final class SessionHost {
    let resources: LoopResources
    let loop: EventLoop
    let index: UInt8
    let logger: Logger
    let table: SessionTable
    let services: SessionServices
    let evictor: ConnectionEvictor
    let verifier: TokenVerifier
    let polls: PollingSessions
    let shutdown: ShutdownWait
    /// nil where the connections of one address are not limited.
    private(set) var addresses: AddressAdmissions?
    var foreignRequests = ForeignRequestLog()
    var plainClientThrottle = ReportThrottle(interval: SessionHost.plainClientReportInterval)

    /// Between two warnings that a proxy passes on requests of clients without TLS: an operator reads one,
    /// and it does not stop by itself.
    private static let plainClientReportInterval: Duration = .seconds(3600)

    /// - Parameter index: The loop's number.
    init(_ resources: LoopResources, index: UInt8, _ table: SessionTable, _ services: SessionServices) {
        self.resources = resources
        self.index = index
        self.table = table
        self.services = services
        loop = resources.eventLoops[Int(index)]
        logger = resources.log.messages
        evictor = ConnectionEvictor(table, on: loop, index: index, resources.limiter)
        verifier = TokenVerifier(table, on: loop, resources.authenticator, services.metrics, logger)
        polls = PollingSessions(
            table, on: loop, resources.directory, loopCount: resources.eventLoops.count, logger)
        shutdown = ShutdownWait(table, on: loop)
        // State machines ask only where writes have a rate.
        services.context.settings.limits.clientNetwork = { [unowned services] forwardedFor in
            services.client(forwardedFor: forwardedFor).map { client in
                let network = AddressNetwork(client)
                return ClientNetwork(family: network.family, prefix: network.prefix)
            }
        }
        limitClients(resources.clientLimiters)
        services.router = self
    }

    /// Applies to connections and writes that begin from now on. Connections that a previous limiter has
    /// counted stay counted there until they close.
    func limitClients(_ limiters: ClientLimiters) {
        services.context.settings.limits.users = limiters.users
        addresses = limiters.addresses.map { addresses in
            AddressAdmissions(
                addresses, pollingSessions: limiters.pollingSessions, on: loop,
                speaksTLS: resources.certificates != nil, services.metrics, logger)
        }
        services.context.settings.limits.admitClient = addresses.map { addresses in
            { [unowned services] forwardedFor in
                addresses.admit(services.client(forwardedFor: forwardedFor)).forMachines
            }
        }
    }

    // MARK: How sessions begin

    /// Begins to speak HTTP on a new connection, through TLS where the server has certificates.
    func adopt(_ socket: ConnectedSocket) {
        let readsProxyHeader = services.trustedProxies.contains(socket.peer)
        var grant: AddressLimiter.Grant?
        // Of a proxy, the connections of its clients are counted. Programs of this machine have one address.
        if let addresses, !readsProxyHeader, !socket.peer.isUnix {
            grant = addresses.admit(socket)
            if grant == nil { return addresses.refuse(socket) }
        }
        let tls = resources.certificates.map { TLSConnection(server: $0.context) }
        // Out of memory for one more epoll entry: the socket is closed, the client tries again.
        _ = try? Channel.adopt(socket, on: loop, tls: tls, readsProxyHeader: readsProxyHeader) { channel in
            channel.grant = grant
            return makeConnection(on: channel)
        }
    }

    func makeConnection(on channel: Channel) -> HTTPSession {
        let connection = table.add { HTTPSession($0, on: channel, services, delegate: self) }
        connection.judgePeer()
        noteClient(of: connection)
        evictor.accepted(connection)
        return connection
    }

    /// Notes the client's address for the workers. Not for a trusted proxy: its connection has many clients.
    func noteClient(of session: ChannelSession) {
        guard !session.isTrustedProxy, let client = session.peerAddress else { return }
        resources.workers.clients.note(session.id, at: AddressNetwork(client))
    }

    /// Counts a connection for the client address that its proxy named (``HTTPSession/namedClient``); it is
    /// counted until the returned grant is released.
    /// - Parameter client: nil where that is not known.
    func admit(_ client: SocketAddress?) -> AddressAdmission { addresses?.admit(client) ?? .uncounted }

    /// Upgrades a connection. If it belongs to a long-polling session on another loop, it is moved to that
    /// loop first.
    /// - Parameter rest: What the client has sent after the request.
    func upgrade(_ connection: HTTPSession, _ request: UpgradeRequest, rest: [UInt8]) {
        let polling = request.polling.flatMap { resources.directory[$0] }
        if let polling, polling.loop != index, Int(polling.loop) < resources.outputs.count {
            return move(connection, connection.move(request, rest: rest), toLoop: polling.loop)
        }
        let joined = polling.flatMap { table.polling($0) }.flatMap { session in
            session.mayBeJoined && NamespaceName.areSame(request.openRequest.namespace, session.namespace)
                ? session : nil
        }
        let channel = connection.channel
        let client = connection.isTrustedProxy ? connection.peerAddress : nil
        switch admit(connection.namedClient) {
        case .uncounted: break
        case .granted(let grant): channel.grant = grant
        case .refused:
            if addresses?.sendsRefusal(on: channel) == true {
                connection.upgradeRefused(AddressAdmissions.refusalStatus)
            }
            addresses?.refuse(channel)
            return
        }
        let hasCertificate =
            connection.hasAdministratorsCertificate && request.head.mayUseCertificate(inScript: false)
        guard connection.upgrade(request, mayJoin: joined != nil) else { return }
        // Its HTTP side is over.
        evictor.forget(connection)
        connection.letGo()
        table.remove(connection)
        let network = resources.workers.clients.forget(connection.id)
        let session = begin(
            on: channel, request, joined, hasCertificate: hasCertificate, compressingFor: connection.window)
        if let client { session.remember(client: client) }
        if let network = client.map({ AddressNetwork($0) }) ?? network {
            resources.workers.clients.note(session.id, at: network)
        }
        var bytes = rest
        var span = bytes.mutableSpan
        var raw = unsafe span.mutableBytes
        session.received(&raw, on: channel)
    }

    /// Makes a WebSocket's session: a new one, or one that a session by long polling is to move to, if its
    /// client finds that the WebSocket works.
    /// - Parameters:
    ///   - hasCertificate: The client has a certificate that makes it an administrator.
    ///   - window: The deflate window for which its messages are compressed; nil where they are not.
    private func begin(
        on channel: Channel, _ request: UpgradeRequest, _ joined: PollingSession?, hasCertificate: Bool,
        compressingFor window: DeflateWindow?
    ) -> WebSocketSession {
        let former = request.joins ? joined : nil
        let session = table.add { id in
            WebSocketSession(
                id, on: channel, joining: former?.id, compressingFor: window,
                answersPings: request.answersPings, services)
        }
        channel.delegate = session
        if let former {
            former.join(session.id)
            session.offerMove()
            return session
        }
        services.context.post(.open(session.id, request.openRequest))
        if hasCertificate { session.becomeAdministrator() }
        return session
    }

    /// The session goes on over the WebSocket, by its own id.
    func replace(_ polling: PollingSession, by webSocket: WebSocketSession) {
        resources.directory.remove(polling.publicID)
        resources.workers.clients.forget(webSocket.id)
        table.replace(polling, by: webSocket)
        webSocket.takeOver(from: polling)
    }

    /// The connection is gone.
    func remove(_ id: SessionID) {
        guard let session = table[id] else { return }
        evictor.forget(session)
        table.remove(session)
        resources.workers.clients.forget(id)
        shutdown.sessionHasEnded()
    }
}

import PandoConnections
import PandoDatabase
import PandoEngine
import PandoReactor
import PandoTLS
import PandoWebSocket

// The table of a loop's sessions.

extension IOLoop {
    /// Begins to speak HTTP on a new connection, through TLS where the server has certificates.
    func adopt(_ socket: ConnectedSocket) {
        // Out of memory for one more epoll entry: the socket is closed, the client tries again.
        let tls = certificates.map { TLSConnection(server: $0.context) }
        let readsProxyHeader = services.trustedProxies.contains(socket.peer)
        let grant = readsProxyHeader ? nil : addresses?.admit(socket.peer)
        // Of a proxy, those of its clients are counted.
        if addresses != nil, !readsProxyHeader, grant == nil { return refuse(socket) }
        _ = try? Channel.adopt(socket, on: loop, tls: tls, readsProxyHeader: readsProxyHeader) { channel in
            channel.grant = grant
            return makeConnection(on: channel)
        }
    }

    func makeConnection(on channel: Channel) -> HTTPSession {
        let connection = HTTPSession(makeID(), on: channel, services)
        sessions[Int(connection.id.slot)] = connection
        connection.judgePeer()
        accepted(connection)
        return connection
    }

    private func makeID() -> SessionID {
        let slot: UInt32
        if let free = freeSlots.popLast() {
            slot = free
        } else {
            slot = UInt32(sessions.count)
            sessions.append(nil)
        }
        generation &+= 1
        return SessionID(loop: index, slot: slot, generation: generation)
    }

    /// Makes a session for a connection that has become a WebSocket, and posts its beginning to the databases.
    /// - Parameter window: For which its messages are compressed; nil where they are not.
    func open(_ channel: Channel, _ request: OpenRequest, compressingFor window: DeflateWindow?)
        -> WebSocketSession
    {
        let id = makeID()
        let session = WebSocketSession(id, on: channel, compressingFor: window, services)
        sessions[Int(id.slot)] = session
        open(id, request)
        return session
    }

    /// Makes the WebSocket that a session by long polling is to move to, if its client finds that it works.
    /// - Parameter window: For which its messages are compressed; nil where they are not.
    func join(_ channel: Channel, to polling: PollingSession, compressingFor window: DeflateWindow?)
        -> WebSocketSession
    {
        let id = makeID()
        let session = WebSocketSession(
            id, on: channel, joining: polling.id, compressingFor: window, services)
        sessions[Int(id.slot)] = session
        return session
    }

    /// Puts a session by long polling into the table; ``open(_:_:)`` with its id is next.
    func makePollingSession(_ make: (SessionID) -> PollingSession) -> PollingSession {
        let session = make(makeID())
        sessions[Int(session.id.slot)] = session
        return session
    }

    /// The session goes on over the WebSocket, by its own id; the slot of the WebSocket is free.
    func replace(_ polling: PollingSession, by webSocket: WebSocketSession) {
        directory.remove(polling.publicID)
        let slot = webSocket.id.slot
        sessions[Int(slot)] = nil
        freeSlots.append(slot)
        sessions[Int(polling.id.slot)] = webSocket
        webSocket.takeOver(from: polling)
    }

    /// Goes on with a connection that wants to be a WebSocket: on the loop of its session by long polling, if there
    /// is one that is to move there.
    /// - Parameter rest: What the client has sent behind the request.
    func upgrade(_ connection: HTTPSession, _ request: UpgradeRequest, rest: [UInt8]) {
        let polling = request.polling.flatMap { directory[$0] }
        if let polling, polling.loop != index, Int(polling.loop) < allLoops.count {
            return move(connection, connection.move(request, rest: rest), toLoop: polling.loop)
        }
        let joined = polling.flatMap { self.polling($0) }.flatMap { session in
            session.mayBeJoined && NamespaceName.areSame(request.openRequest.namespace, session.namespace)
                ? session : nil
        }
        let client = connection.isTrustedProxy ? connection.peerAddress : nil
        switch admit(client) {
        case .uncounted: break
        case .granted(let grant): connection.channel.grant = grant
        case .refused: return refuse(connection.channel)
        }
        guard connection.upgrade(request, mayJoin: joined != nil) else { return }
        forget(connection)
        let channel = connection.channel
        let session: WebSocketSession
        if request.joins, let joined {
            session = join(channel, to: joined, compressingFor: connection.window)
            channel.delegate = session
            joined.join(session.id)
            session.offerMove()
        } else {
            session = open(channel, request.openRequest, compressingFor: connection.window)
            channel.delegate = session
            if channel.tlsFacts?.isAdministrator == true, request.head.mayUseCertificate {
                session.becomeAdministrator()
            }
        }
        if let client { session.remember(client: client) }
        var bytes = rest
        var span = bytes.mutableSpan
        var raw = unsafe span.mutableBytes
        session.received(&raw, on: channel)
    }

    /// The connection has become a WebSocket, and its HTTP side is over.
    private func forget(_ connection: HTTPSession) {
        notEvictable(connection)
        connection.letGo()
        sessions[Int(connection.id.slot)] = nil
        freeSlots.append(connection.id.slot)
    }

    /// The connection is gone.
    func remove(_ id: SessionID) {
        guard let session = session(id) else { return }
        notEvictable(session)
        sessions[Int(id.slot)] = nil
        freeSlots.append(id.slot)
        reportIfEmpty()
    }

    func session(_ id: SessionID) -> LoopSession? { session(id, among: sessions) }

    func session(_ id: SessionID, among sessions: ContiguousArray<LoopSession?>) -> LoopSession? {
        guard id.loop == index, Int(id.slot) < sessions.count,
            let session = sessions[Int(id.slot)], session.id.rawValue == id.rawValue
        else { return nil }
        return session
    }
}

extension IOLoop {
    func http(_ id: SessionID) -> HTTPSession? { session(id) as? HTTPSession }

    func webSocket(_ id: SessionID) -> WebSocketSession? { session(id) as? WebSocketSession }
}

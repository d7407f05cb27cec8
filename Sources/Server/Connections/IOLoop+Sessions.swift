import PandoDatabase
import PandoEngine
import PandoReactor

// The table of a loop's sessions: who comes, who goes, and what carries them.

extension IOLoop {
    /// Begins to speak HTTP on a new connection.
    func adopt(_ socket: ConnectedSocket) {
        // Out of memory for one more epoll entry: the socket is closed, the client tries again.
        _ = try? Channel.adopt(socket, on: loop) { channel in
            makeConnection(on: channel)
        }
    }

    func makeConnection(on channel: Channel) -> HTTPConnection {
        let connection = HTTPConnection(makeID(), on: channel, of: self)
        sessions[Int(connection.id.slot)] = connection
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

    /// Makes a session for a connection that has become a WebSocket, and tells the database.
    func open(_ channel: Channel, _ request: OpenRequest) -> WebSocketSession {
        let id = makeID()
        let session = WebSocketSession(id, on: channel, of: self)
        sessions[Int(id.slot)] = session
        open(id, request)
        return session
    }

    /// Tells the database of a session that begins.
    func open(_ id: SessionID, _ request: OpenRequest) {
        post(.open(id, request), byteCount: 0, for: nil)
    }

    /// Makes the WebSocket that a session by long polling is to move to, if its client finds that it works.
    func join(_ channel: Channel, to polling: LongPollingSession) -> WebSocketSession {
        let id = makeID()
        let session = WebSocketSession(id, on: channel, joining: polling, of: self)
        sessions[Int(id.slot)] = session
        return session
    }

    /// Puts a session by long polling into the table; ``open(_:_:)`` with its id is next.
    func makePollingSession(_ make: (SessionID) -> LongPollingSession) -> LongPollingSession {
        let session = make(makeID())
        sessions[Int(session.id.slot)] = session
        return session
    }

    /// The session goes on over the WebSocket, by its own id; the slot of the WebSocket is free.
    func replace(_ polling: LongPollingSession, by webSocket: WebSocketSession) {
        directory.remove(polling.publicID)
        let slot = webSocket.id.slot
        sessions[Int(slot)] = nil
        freeSlots.append(slot)
        webSocket.id = polling.id
        sessions[Int(polling.id.slot)] = webSocket
    }

    /// Tells the database that a session is over; what carries it may live on for a while. Once.
    func endSession(_ session: ClientSession) {
        guard !session.hasEnded else { return }
        session.hasEnded = true
        if session.isKnownToDatabase { post(.closed(session.id), byteCount: 0, for: nil) }
    }

    /// The connection has become a WebSocket, and its HTTP side is over.
    func forget(_ connection: HTTPConnection) {
        notEvictable(connection)
        connection.dropAhead()
        sessions[Int(connection.id.slot)] = nil
        freeSlots.append(connection.id.slot)
        paused.removeAll { $0 === connection }
        // The next session of this channel begins without a reason to pause it.
        connection.resumeAll()
    }

    /// The connection is gone.
    func remove(_ session: ClientSession) {
        let slot = session.id.slot
        notEvictable(session)
        sessions[Int(slot)] = nil
        freeSlots.append(slot)
        paused.removeAll { $0 === session }
        endSession(session)
        tellIfEmpty()
    }

    func session(_ id: SessionID) -> ClientSession? { session(id, among: sessions) }

    func session(_ id: SessionID, among sessions: ContiguousArray<ClientSession?>) -> ClientSession? {
        guard id.loop == index, Int(id.slot) < sessions.count,
            let session = sessions[Int(id.slot)], session.id.rawValue == id.rawValue
        else { return nil }
        return session
    }
}

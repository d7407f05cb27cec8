import PandoBytes
import PandoConnections
import PandoDatabase
import PandoEngine
import PandoHTTP
import PandoREST
import PandoReactor
import PandoStorage
import PandoTime

// The sessions by long polling of one loop, and the connections that are moved to their loops
// (``SessionDirectory``).

extension IOLoop {
    /// Sessions of the whole process between two polls: nothing but a client's word says that it is still
    /// there, and no descriptor bounds their number. At one more the one that has not polled for longest is
    /// ended. Ours.
    private static let disconnectedPollingLimit = 16 << 10

    // MARK: Sessions

    /// Begins a session; the connection gets its first response.
    func startPolling(_ start: LongPollingRequest.Start, host: [UInt8], on connection: HTTPSession) {
        let request = start.openRequest(
            host: String(decoding: host, as: UTF8.self), publicID: PublicSessionID(.machine))
        guard let publicID = request.publicID else { return }
        // Without a proxy its connections are counted themselves.
        let admission = admit(connection.isTrustedProxy ? connection.peerAddress : nil)
        if case .refused = admission {
            return connection.refusePoll(.limitExceeded(.connectionsPerAddress, retrySeconds: 1))
        }
        let session = makePollingSession { id in
            PollingSession(
                id, start, on: connection, publicID: publicID, namespace: request.namespace, services)
        }
        if case .granted(let grant) = admission { session.addressGrant = grant }
        directory.add(publicID, session.id)
        open(session.id, request)
        session.finish()
    }

    /// The session that a client addresses; nil where it is over or was never, or the password is wrong.
    func polling(_ address: LongPollingRequest.Address) -> PollingSession? {
        guard let session = polling(address.id), session.isPassword(address.password) else { return nil }
        return session
    }

    /// The session that carries or has carried this transport id; nil where it is over or was never.
    func polling(_ id: SessionID) -> PollingSession? {
        switch session(id) {
        case let polling as PollingSession: polling
        case let webSocket as WebSocketSession: webSocket.former
        default: nil
        }
    }

    // MARK: Between polls

    /// No poll of the session waits: it is ended when too many are so.
    func disconnectedPolling(_ session: PollingSession) {
        // One that has moved to a WebSocket has given its slot away.
        guard self.session(session.id) === session else { return }
        disconnected.append(Int(session.id.slot), as: .idle)
        while disconnected.idleCount > max(1, Self.disconnectedPollingLimit / allLoops.count),
            let slot = disconnected.first(of: .idle)
        {
            disconnected.remove(slot)
            pollingCutCount += 1
            sessions[slot]?.cut()
        }
        reportPollingCuts()
    }

    /// Logs how many sessions were ended because too many had no poll, at most once in ten seconds.
    private func reportPollingCuts() {
        guard pollingCutCount > 0, lastPollingReport.map({ loop.now - $0 > Self.reportInterval }) ?? true
        else { return }
        logger.warning(
            """
            long polling: ended \(pollingCutCount) sessions of this thread that had not polled for longest, since the last \
            report; \(Self.disconnectedPollingLimit) sessions may be between two polls
            """)
        lastPollingReport = loop.now
        pollingCutCount = 0
    }

    /// A poll of the session waits, or the session is over.
    func connectedPolling(_ session: PollingSession) {
        guard self.session(session.id) === session else { return }
        disconnected.remove(Int(session.id.slot))
    }

    /// At the end of a tick.
    func answerPolls() {
        if !pollsToAnswer.isEmpty {
            var sessions: [PollingSession] = []
            swap(&sessions, &pollsToAnswer)
            for session in sessions { session.answerPolls() }
            // Behind an answer there may have been another request.
            if !pollsToAnswer.isEmpty || hasMessages { loop.wakeup.signal() }
        }
        guard !endedPolling.isEmpty else { return }
        var ended: [PollingSession] = []
        swap(&ended, &endedPolling)
        for session in ended {
            directory.remove(session.publicID)
            session.leave()
        }
    }

    // MARK: Connections

    /// Moves a connection to the loop of the session that its request is for.
    func move(_ connection: HTTPSession, _ request: MovedRequest, toLoop loop: UInt8) {
        guard let (socket, unsent) = connection.channel.detach() else { return }
        connection.leaveForOtherLoop()
        // A loop that has stopped drops it, and with it the connection.
        directory.moves[Int(loop)].post(MovedConnection(socket: socket, unsent: unsent, request: request))
    }

    /// Goes on with a connection that another loop has moved here.
    func adopt(_ moved: MovedConnection) {
        var adopted: HTTPSession?
        _ = try? Channel.adopt(moved.socket, on: loop) { channel in
            let connection = makeConnection(on: channel)
            adopted = connection
            return connection
        }
        adopted?.receive(moved.request, unsent: moved.unsent)
    }
}

import PandoBytes
import PandoDatabase
import PandoEngine
import PandoHTTP
import PandoReactor
import PandoStorage

// The sessions by long polling of one loop, and the connections that are moved to their loops
// (``SessionDirectory``).

extension IOLoop {
    /// Sessions of the whole process between two polls: nothing but a client's word says that it is still
    /// there, and no descriptor bounds their number. At one more the one that has not polled for longest is
    /// ended. Ours.
    private static let disconnectedPollingLimit = 16 << 10

    // MARK: Sessions

    /// Begins a session; the connection gets its first response.
    func startPolling(
        _ start: LongPollingRequest.Start, host: ArraySlice<UInt8>, on connection: HTTPConnection
    ) {
        let hostName = String(decoding: host, as: UTF8.self)
        let namespace = start.namespace ?? NamespaceName.fromHost(hostName)
        let publicID = PublicSessionID(.machine)
        let session = makePollingSession { id in
            LongPollingSession(id, start, on: connection, publicID: publicID, namespace: namespace, of: self)
        }
        directory.add(publicID, session.id)
        open(
            session.id,
            OpenRequest(
                namespace: namespace, host: Text(hostName),
                previousSession: start.previousSession.map { Text($0) },
                publicID: publicID))
    }

    /// The session that carries or has carried this transport id; nil where it is over or was never.
    func polling(_ id: SessionID) -> LongPollingSession? {
        switch session(id) {
        case let polling as LongPollingSession: polling
        case let webSocket as WebSocketSession: webSocket.former
        default: nil
        }
    }

    func webSocket(_ id: SessionID) -> WebSocketSession? { session(id) as? WebSocketSession }

    // MARK: Between polls

    /// No poll of the session waits: it is ended when too many are so.
    func disconnectedPolling(_ session: LongPollingSession) {
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
    func connectedPolling(_ session: LongPollingSession) {
        guard self.session(session.id) === session else { return }
        disconnected.remove(Int(session.id.slot))
    }

    /// Calls ``LongPollingSession/answerPolls()`` at the end of the tick.
    func answerPollsLater(_ session: LongPollingSession) {
        pollsToAnswer.append(session)
    }

    /// At the end of a tick.
    func answerPolls() {
        if !pollsToAnswer.isEmpty {
            var sessions: [LongPollingSession] = []
            swap(&sessions, &pollsToAnswer)
            for session in sessions { session.answerPolls() }
            // Behind an answer there may have been another request.
            if !pollsToAnswer.isEmpty || hasOutgoing { loop.wakeup.signal() }
        }
        guard !endedPolling.isEmpty else { return }
        var ended: [LongPollingSession] = []
        swap(&ended, &endedPolling)
        for session in ended {
            directory.remove(session.publicID)
            session.leave()
        }
    }

    /// The session is over: it leaves the table at the end of the tick, since outputs may be being dealt out.
    func removeLater(_ session: LongPollingSession) {
        endedPolling.append(session)
    }

    // MARK: Connections

    /// Moves a connection to the loop of the session that its request is for.
    /// - Parameter rest: What came behind the request.
    func move(_ connection: HTTPConnection, _ head: RequestHead, rest: RawSpan, to loop: UInt8) {
        guard let (socket, unsent) = connection.channel.detach() else { return }
        var bytes: [UInt8] = []
        bytes.append(rest)
        connection.leaveForOtherLoop()
        // A loop that has stopped drops it, and with it the connection.
        directory.moves[Int(loop)].post(
            MovedConnection(
                socket: socket, unsent: unsent, head: head, rest: bytes, moveCount: connection.moveCount + 1))
    }

    /// Goes on with a connection that another loop has moved here.
    func adopt(_ moved: MovedConnection) {
        var adopted: HTTPConnection?
        _ = try? Channel.adopt(moved.socket, on: loop) { channel in
            let connection = makeConnection(on: channel)
            adopted = connection
            return connection
        }
        adopted?.goOn(with: moved)
    }
}

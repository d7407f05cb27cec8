import Logging
import PandoBytes
import PandoConnections
import PandoDatabase
import PandoEngine
import PandoReactor
import PandoTime

// What the sessions of a loop ask for that concerns other sessions, or the table.

extension SessionHost: SessionRouter {
    func verify(_ token: Text, for session: SessionID) { verifier.verify(token, for: session) }

    func learnedClient(of connection: SessionID) {
        guard let session = table.http(connection) else { return }
        noteClient(of: session)
        addresses?.learnedClient(of: session)
    }

    func recheck(_ session: SessionID) { table[session]?.recheck(resources.authenticator.revocations) }

    func handOver() {
        services.context.hasHeavyMessage = false
        resources.database.post(movingFrom: &services.context.messages)
    }

    func noteAcknowledged(for session: SessionID) {
        // One system call each; there are two, as a rule.
        for connection in table.polling(session)?.unconfirmedConnections ?? [] {
            table.http(connection)?.noteAcknowledged()
        }
    }

    func carryOut(_ action: HandoverAction, of id: SessionID) {
        switch action {
        case .acknowledged(let session): table.polling(session)?.webSocketAcknowledged(id)
        case .webSocketIsGone(let session): table.polling(session)?.webSocketIsGone(id)
        case .leaveFormer: table.webSocket(id)?.leaveFormer()
        case .refuse(let webSocket): table.webSocket(webSocket)?.refuseMove()
        case .move(let webSocket):
            guard let session = table.polling(id) else { return }
            guard let target = table.webSocket(webSocket) else { return session.cut() }
            replace(session, by: target)
        case .forgetFormer: table.webSocket(id)?.forgetFormer()
        }
    }
}

extension SessionHost: HTTPSessionDelegate {
    func rank(_ connection: HTTPSession, as activity: HTTPConnection.Activity) {
        // One that has left the table is not among those that may be closed.
        if table[connection.id] === connection { evictor.changed(connection, to: activity) }
    }

    func carryOut(_ action: consuming HTTPAction, of connection: HTTPSession) {
        switch action {
        case .upgrade(let request, let rest): upgrade(connection, request, rest: rest)
        case .move(let request, let index): move(connection, request, toLoop: index)
        case .startPolling(let start, let host, let hasCertificate):
            startPolling(start, host: host, hasCertificate: hasCertificate, on: connection)
        case .poll(let poll, let query):
            guard let session = polling(poll.address) else { return connection.respondClosed() }
            noteAcknowledged(for: poll.address.id)
            session.receive(poll, query, on: connection)
        case .disconnectPolling(let address): polling(address)?.disconnect()
        case .pollIsLost(let session): table.polling(session)?.pollIsLost(on: connection)
        case .hurryPoll(let session): table.polling(session)?.hurryPoll(on: connection)
        case .delivery(let session, let sent, let delivery, let isLast):
            table.polling(session)?.note(sent, on: connection, delivery, isLast: isLast)
        case .reportForeign(let request): foreignRequests.note(request, logger)
        case .reportPlainClient: reportPlainClient(of: connection)
        case .countRefusal: resources.limiter.didRefuse()
        case .keepReserved: evictor.keepReserved(connection)
        case .logAccess(let request): log(request, from: connection.peerAddress)
        }
    }

    /// A proxy has let a request through that its client did not make over TLS: others can read its token on
    /// the way.
    private func reportPlainClient(of connection: HTTPSession) {
        guard !resources.configuration.isDevelopment, let client = connection.peerAddress, !client.isLoopback,
            !services.trustedProxies.contains(client), plainClientThrottle.mayReport(at: loop.now)
        else { return }
        logger.warning(
            "a trusted proxy forwards requests of clients without TLS (X-Forwarded-Proto), the last from \(client.host): others can read their tokens on the way. Let the proxy redirect to https"
        )
    }

    private func log(_ request: LoggedRequest, from peer: SocketAddress?) {
        let microseconds = (request.ended - request.began).nanosecondCount / 1000
        var metadata: Logger.Metadata = [
            "method": "\(request.method)", "path": "\(request.path)", "status": "\(request.status)",
            "microseconds": "\(microseconds)", "peer": "\(peer?.description ?? "gone")",
            "scheme": "\(request.isSecure ? "https" : "http")",
        ]
        if let id = request.requestID { metadata["request_id"] = "\(id)" }
        // Programs that read the access log may select its lines by this source.
        resources.log.requests.info("request", metadata: metadata, source: "PandoServer")
    }
}

extension SessionHost: PollingSessionDelegate {
    func carryOut(_ action: consuming LongPollingAction, of session: PollingSession) {
        let id = session.id
        switch action {
        case .holdPoll(let connection): table.http(connection)?.holdPoll(of: id)
        case .releasePoll(let connection): table.http(connection)?.releasePoll()
        case .answer(let answer, let connection):
            if let http = table.http(connection) {
                http.answer(answer, of: id)
            } else {
                session.lost(answer, on: connection)
            }
        case .respondClosed(let connection): table.http(connection)?.respondClosed()
        case .refuse(let error, let connection): table.http(connection)?.refusePoll(error)
        case .reset(let connection): table.http(connection)?.cut()
        case .loseDeliveries(let connection): table.http(connection)?.loseDeliveries(of: id)
        case .answerAtEndOfTick: polls.answerAtEndOfTick(session)
        case .noPollWaits: polls.disconnected(session)
        case .pollWaits: polls.connected(session)
        case .remove: polls.removeAtEndOfTick(session)
        }
    }
}

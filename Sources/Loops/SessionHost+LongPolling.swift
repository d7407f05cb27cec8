import PandoConnections
import PandoDatabase
import PandoEngine
import PandoREST
import PandoReactor

// How sessions by long polling begin, and the connections that are moved to their loops
// (``SessionDirectory``).

extension SessionHost {
    /// Begins a session; the connection gets its first response.
    /// - Parameter hasCertificate: The client has shown an administrator's certificate that counts.
    func startPolling(
        _ start: LongPollingRequest.Start, host: [UInt8], hasCertificate: Bool, on connection: HTTPSession
    ) {
        let request = start.openRequest(
            host: String(decoding: host, as: UTF8.self), publicID: PublicSessionID(.machine))
        guard let publicID = request.publicID else { return }
        let admission = admitSession(on: connection)
        if case .refused = admission {
            return connection.refusePoll(.limitExceeded(.connectionsPerAddress, retrySeconds: 1))
        }
        let session = table.add { id in
            PollingSession(
                id, start, on: connection, publicID: publicID, namespace: request.namespace, services,
                delegate: self)
        }
        if case .granted(let grant) = admission { session.addressGrant = grant }
        if let network = session.network { resources.workers.clients.note(session.id, at: network) }
        resources.directory.add(publicID, session.id)
        services.context.post(.open(session.id, request))
        if hasCertificate { session.becomeAdministrator() }
        session.finish()
    }

    /// Counts a session by long polling for its client's address: one that a proxy has named has no other
    /// connections that count; of others the connections are counted by themselves.
    private func admitSession(on connection: HTTPSession) -> AddressAdmission {
        if connection.isTrustedProxy { return admit(connection.namedClient) }
        guard let client = connection.peerAddress, !client.isUnix else { return .uncounted }
        return addresses?.admitPollingSession(of: client) ?? .uncounted
    }

    /// The session that a client addresses; nil where it is over or was never, or the password is wrong.
    func polling(_ address: LongPollingRequest.Address) -> PollingSession? {
        guard let session = table.polling(address.id), session.isPassword(address.password) else {
            return nil
        }
        return session
    }

    // MARK: Connections

    /// Moves a connection to the loop of the session that its request is for.
    func move(_ connection: HTTPSession, _ request: MovedRequest, toLoop loop: UInt8) {
        guard let (socket, unsent) = connection.channel.detach() else { return }
        connection.leaveForOtherLoop()
        // A loop that has stopped drops it, and with it the connection.
        resources.directory.moves[Int(loop)].post(
            MovedConnection(socket: socket, unsent: unsent, request: request))
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

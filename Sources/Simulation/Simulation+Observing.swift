import PandoDatabase
import PandoEngine

// What passes between connections and databases, and what clients decode, goes to the checker.

extension Simulation: LoopObserver {
    func posted(_ input: LoopInput, from link: Int) {
        guard onDecoded == nil, !isStopping else { return }
        let client = clients[link]
        switch input {
        case .open(let session):
            _ = client.arrived()
            client.session = session.rawValue
            note("  connection \(link) is session \(session.rawValue & 0xFFFF)")
            checker.open(
                Replica(session: session.rawValue, namespace: client.namespace, person: client.person))
        case .request(let session, let number):
            guard let sent = client.arrived(), sent.number == Int(number) else {
                return found =
                    found
                    ?? BrokenPromise(description: "request \(number) of connection \(link) is out of order")
            }
            checker.ask(
                sent.action, number: sent.number, of: session.rawValue, client.person, client.namespace)
        case .admission(let session): admissions.insert(session.rawValue)
        case .rest(let session): askREST(session, from: link)
        case .lagging(let session): checker.replicas[session.rawValue]?.isLagging = true
        case .closed(let session):
            note("  session \(session.rawValue & 0xFFFF) ends")
            checker.close(session.rawValue)
        }
    }

    private func askREST(_ session: SessionID, from link: Int) {
        let client = clients[link]
        guard let sent = client.arrived(), sent.number == nil else {
            return found =
                found ?? BrokenPromise(description: "connection \(link) has sent no further request")
        }
        client.session = session.rawValue
        checker.ask(sent.action, number: nil, of: session.rawValue, client.person, client.namespace)
    }

    func released(_ output: LoopOutput, to link: Int) {
        guard onDecoded == nil, found == nil else { return }
        hasReleased = true
        if case .rest(let session, let result) = output, admissions.remove(session.rawValue) != nil {
            if case .admitted = result { return }
            // Refused: that is the response to the request.
            askREST(session, from: link)
        }
        do { try release(output, &checker, on: link) } catch { found = error }
    }

    /// - Parameter link: Nil for what is found in a server that has died.
    func release(_ output: LoopOutput, _ checker: inout Checker, on link: Int? = nil) throws {
        let now = environment.monotonicMilliseconds
        let delivery: DeliveryChecker.Delivery
        switch output {
        case .message(let session, let bytes):
            note("  to \(session.rawValue & 0xFFFF): \(String(decoding: bytes.prefix(300), as: UTF8.self))")
            delivery = .message(bytes, try checker.released(bytes, to: session.rawValue, at: now))
        case .rest(let session, let result):
            let reply = RESTReply(result)
            note("  to \(session.rawValue & 0xFFFF): \(reply)")
            try checker.released(reply, to: session.rawValue, at: now)
            delivery = .response(reply)
        case .events(let session, let events):
            for event in events {
                let event = SentEvent(event)
                checker.released(event, to: session.rawValue)
                if let link { checker.deliveries.released(.event(event), on: link) }
            }
            return
        case .closed(let session):
            note("  to \(session.rawValue & 0xFFFF): the end")
            return checker.closed(session.rawValue)
        }
        if let link { checker.deliveries.released(delivery, on: link) }
    }

    func runDatabases(_ body: () -> Void) {
        let look = environment.lookCount
        let (wall, work) = (environment.wallMilliseconds, environment.workNanoseconds - silentWork)
        body()
        // They look at the clock when they begin a turn.
        guard environment.lookCount > look else { return }
        latestRun = max(latestRun, wall)
        if onDecoded == nil {
            checker.databaseTurn(
                wall: wall, pieceCount: Int(look) - silentLooks, work: work, firstLook: look + 1)
        }
        silentLooks += 1
        silentWork += environment.workNanoseconds(before: look)
    }
}

extension Simulation {
    // MARK: The network

    func moveBytes() throws {
        note("network")
        network.move(&random)
        try decode()
    }

    /// Clients decode what has arrived.
    func decode() throws {
        for client in clients where !client.isGone {
            for decoded in try client.receive(&random) {
                note("  \(client.link.number) reads \(decoded.text)")
                if let onDecoded { try onDecoded(client, decoded) } else { try check(decoded, by: client) }
            }
            if client.wasClosed || client.link.isReset, !mayBeDisconnected(client) {
                throw BrokenPromise(description: "the server has closed connection \(client.link.number)")
            }
        }
    }

    /// Whether the server may have closed the connection.
    private func mayBeDisconnected(_ client: SimulatedClient) -> Bool {
        client.hasEnded || isStopping || onDecoded != nil || totals.sweeps > 0 || client.isStream
            || plan.network.resetsInTenThousand > 0
    }

    private func check(_ decoded: SimulatedClient.Decoded, by client: SimulatedClient) throws {
        // The server gives up a request that takes very long; its result may come later.
        if case .response(let response) = decoded, totals.sweeps > 0,
            response.status == 408 || String(decoding: response.body, as: UTF8.self).contains("took longer")
        {
            return
        }
        let (delivery, index) = try checker.deliveries.decoded(decoded, on: client.link.number)
        checker.history.heard(index)
        switch delivery {
        case .message(_, .reply(let number, let isOK)): client.answered(number, isOK: isOK)
        case .message(_, .revocation(let path, let isFiltered)):
            client.revoked(path, isFiltered: isFiltered)
        case .event: totals.events += 1
        case .message, .response: break
        }
    }
}

import PandoDatabase
import PandoEngine

/// Passes to the checker what connections and databases give each other, and what clients decode.
final class ServerObserver: LoopObserver {
    private let world: SimulatedWorld
    private var hasReleased = false
    /// Sessions of REST requests whose heads wait to be admitted.
    private var admissions: Set<UInt64> = []
    /// The latest time at which databases have run, since the server was made.
    var latestRun: Int64 = 0
    /// Clock readings at the beginning of turns, and the work counted up to them; neither belongs to a
    /// request.
    private var silentLooks = 0
    private var silentWork: UInt64 = 0

    init(_ world: SimulatedWorld) { self.world = world }

    // MARK: The server

    func posted(_ input: LoopInput, from link: Int) {
        guard world.onDecoded == nil, !world.isStopping else { return }
        let client = world.clients[link]
        switch input {
        case .open(let session):
            _ = client.arrived()
            client.session = session.rawValue
            world.note("  connection \(link) is session \(session.rawValue & 0xFFFF)")
            world.checker.open(
                Replica(session: session.rawValue, namespace: client.namespace, person: client.person))
        case .request(let session, let number):
            guard let sent = client.arrived(), sent.number == Int(number) else {
                return world.found =
                    world.found
                    ?? BrokenPromise(description: "request \(number) of connection \(link) is out of order")
            }
            world.checker.ask(
                sent.action, number: sent.number, of: session.rawValue, client.person, client.namespace)
        case .admission(let session): admissions.insert(session.rawValue)
        case .rest(let session): askREST(session, from: link)
        case .lagging(let session): world.checker.replicas[session.rawValue]?.isLagging = true
        case .closed(let session):
            world.note("  session \(session.rawValue & 0xFFFF) ends")
            world.checker.close(session.rawValue)
        }
    }

    private func askREST(_ session: SessionID, from link: Int) {
        let client = world.clients[link]
        guard let sent = client.arrived(), sent.number == nil else {
            return world.found =
                world.found ?? BrokenPromise(description: "connection \(link) has sent no further request")
        }
        client.session = session.rawValue
        world.checker.ask(sent.action, number: nil, of: session.rawValue, client.person, client.namespace)
    }

    func released(_ output: LoopOutput, to link: Int) {
        guard world.onDecoded == nil, world.found == nil else { return }
        hasReleased = true
        if case .rest(let session, let result) = output, admissions.remove(session.rawValue) != nil {
            if case .admitted = result { return }
            // Refused: that is the response to the request.
            askREST(session, from: link)
        }
        do { try release(output, &world.checker, on: link) } catch { world.found = error }
    }

    /// - Parameter link: Nil for what is found in a server that has died.
    func release(_ output: LoopOutput, _ checker: inout Checker, on link: Int? = nil) throws {
        let now = world.environment.monotonicMilliseconds
        let delivery: DeliveryChecker.Delivery
        switch output {
        case .message(let session, let bytes):
            world.note(
                "  to \(session.rawValue & 0xFFFF): \(String(decoding: bytes.prefix(300), as: UTF8.self))")
            delivery = .message(bytes, try checker.released(bytes, to: session.rawValue, at: now))
        case .rest(let session, let result):
            let reply = RESTReply(result)
            world.note("  to \(session.rawValue & 0xFFFF): \(reply)")
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
            world.note("  to \(session.rawValue & 0xFFFF): the end")
            return checker.closed(session.rawValue)
        }
        if let link { checker.deliveries.released(delivery, on: link) }
    }

    func runDatabases(_ body: () -> Void) {
        let look = world.environment.lookCount
        let (wall, work) = (
            world.environment.wallMilliseconds, world.environment.workNanoseconds - silentWork
        )
        body()
        // They look at the clock when they begin a turn.
        guard world.environment.lookCount > look else { return }
        latestRun = max(latestRun, wall)
        if world.onDecoded == nil {
            world.checker.databaseTurn(
                wall: wall, pieceCount: Int(look) - silentLooks, work: work, firstLook: look + 1)
        }
        silentLooks += 1
        silentWork += world.environment.workNanoseconds(before: look)
    }

    /// Compares what the loop has released.
    func settleReleased() throws {
        if let found = world.found { throw found }
        guard hasReleased else { return }
        hasReleased = false
        try world.checker.settleRest(at: world.environment.monotonicMilliseconds)
        world.checker.deliveries.endBatch(at: world.checker.history.lastIndex)
    }

    // MARK: The network

    func moveBytes() throws {
        world.note("network")
        world.network.move(&world.random)
        try decode()
    }

    /// Clients decode what has arrived.
    func decode() throws {
        for client in world.clients where !client.isGone {
            for decoded in try client.receive(&world.random) {
                world.note("  \(client.link.number) reads \(decoded.text)")
                if let onDecoded = world.onDecoded {
                    try onDecoded(client, decoded)
                } else {
                    try check(decoded, by: client)
                }
            }
            if client.wasClosed || client.link.isReset, !mayBeDisconnected(client) {
                throw BrokenPromise(
                    description: "the server has closed connection \(client.link.number)")
            }
        }
    }

    /// Whether the server may have closed the connection.
    private func mayBeDisconnected(_ client: SimulatedClient) -> Bool {
        client.hasEnded || world.isStopping || world.onDecoded != nil || world.totals.sweeps > 0
            || client.isStream
            || world.plan.network.resetsInTenThousand > 0
    }

    private func check(_ decoded: SimulatedClient.Decoded, by client: SimulatedClient) throws {
        // The server gives up a request that takes very long; its result may come later.
        if case .response(let response) = decoded, world.totals.sweeps > 0,
            response.status == 408 || String(decoding: response.body, as: UTF8.self).contains("took longer")
        {
            return
        }
        let (delivery, index) = try world.checker.deliveries.decoded(decoded, on: client.link.number)
        world.checker.history.heard(index)
        switch delivery {
        case .message(_, .reply(let number, let isOK)): client.answered(number, isOK: isOK)
        case .message(_, .revocation(let path, let isFiltered)):
            client.revoked(path, isFiltered: isFiltered)
        case .event: world.totals.events += 1
        case .message, .response: break
        }
    }
}

import PandoRandom

/// What clients do: they connect, ask, flood and leave.
final class ClientDriver {
    /// Requests in progress at once, where each may have been refused, so the checker must try every subset
    /// of them.
    private static let refusableLimit = 6
    private static let clientLimit = 8
    /// Connections of REST clients that are open at once.
    private static let restLimit = 6
    /// No client floods while so many requests wait.
    private static let waitingLimit = 1500
    /// Filtered reads of one flood: each sorts the large node, here too.
    private static let filteredReadLimit = 150

    private let world: SimulatedWorld
    /// Links of clients that have flooded.
    private var flooders: Set<Int> = []
    /// By link: which of the amounts in ``presenceAmount(of:)`` is its own.
    private var presenceNumbers: [Int: Int] = [:]
    /// Namespaces in which the large node was written.
    private var namespacesWithLargeNode: Set<String> = []

    init(_ world: SimulatedWorld) { self.world = world }

    /// A server begins: there are no clients.
    func begin() { (flooders, presenceNumbers, namespacesWithLargeNode) = ([], [:], []) }

    private var chooser: ActionChooser { ActionChooser(usesTime: world.usesTime, mayBeFull: world.mayBeFull) }

    private var activeClients: [SimulatedClient] {
        world.clients.filter { !$0.isGone && !$0.hasEnded && !$0.wasClosed && !$0.isObserver }
    }

    func letClientsAct() {
        let active = activeClients
        let unansweredCount = active.reduce(0) { $0 + $1.unansweredCount }
        guard !world.mayBeFull || unansweredCount + world.checker.unansweredCount < Self.refusableLimit else {
            return
        }
        let others = active.filter(\.isRealtime)
        if others.isEmpty || others.count < Self.clientLimit && world.random.chance(8) {
            connect(
                world.random.pick([.anonymous, .user, .user]),
                in: world.random.pick(SimulatedWorld.namespaces))
            return
        }
        if world.plan.hasFloods, world.random.chance(8) { return flood(others) }
        let client = world.random.pick(others)
        if world.random.chance(4), mayHangUp { return leave(client) }
        if world.random.chance(18) { return actOverREST(active.filter { !$0.isRealtime }) }
        if world.random.chance(4) {
            world.totals.pings += 1
            world.note("\(client.link.number) pings")
            return client.ping(withFrame: world.random.chance(50), &world.random)
        }
        for _ in 0..<world.random.pick([1, 1, 2, world.mayBeFull ? 1 : 5]) {
            ask(
                chooser.action(
                    of: client, root: root(of: client), presenceDraft: { presenceDraft(of: client, &$0) },
                    &world.random), by: client)
        }
    }

    private func root(of client: SimulatedClient) -> Value {
        world.checker.state.namespaces[client.namespace]?.root ?? .nothing
    }

    // MARK: Realtime

    /// A realtime client connects, and signs in.
    @discardableResult
    func connect(_ person: Person, in namespace: String) -> SimulatedClient {
        let client = makeClient(person, in: namespace, isRealtime: true)
        world.note("\(client.link.number) connects to \(namespace) as \(person)")
        if person != .anonymous { ask(.authenticate, by: client) }
        return client
    }

    func makeClient(_ person: Person, in namespace: String, isRealtime: Bool) -> SimulatedClient {
        let link = world.network.connect(&world.random)
        let client = SimulatedClient(
            link, in: namespace, as: person, isRealtime: isRealtime, isHasty: world.random.chance(20))
        world.clients.append(client)
        world.server?.loop.accept(link)
        world.totals.connections += 1
        if link.secure != nil { world.totals.secureConnections += 1 }
        return client
    }

    func ask(_ action: ClientAction, by client: SimulatedClient) {
        let message = client.send(action, &world.random)
        world.note("\(client.link.number) asks \(String(decoding: message.prefix(300), as: UTF8.self))")
    }

    /// Clients who see everything, always: no change may come that they do not get.
    func watchEverything() {
        for name in SimulatedWorld.namespaces {
            let client = connect(.admin, in: name)
            client.isObserver = true
            ask(.listen([], nil, tag: nil), by: client)
        }
    }

    private func leave(_ client: SimulatedClient) {
        let end = world.random.pick(SimulatedClient.End.allCases)
        world.note("\(client.link.number) leaves: \(end)")
        world.totals.departures += 1
        if flooders.remove(client.link.number) != nil { world.totals.hangUps += 1 }
        client.leave(end, &world.random)
        if client.hasInterruptedHandshake { world.totals.interruptedHandshakes += 1 }
        if client.hasBrokenTLS { world.totals.brokenTLS += 1 }
    }

    private func presenceDraft(of client: SimulatedClient, _ random: inout SeededGenerator) -> Draft? {
        guard !world.plan.hasFloods else { return presenceAmount(of: client).map { .increment($0) } }
        return chooser.presenceDraft(&random)
    }

    /// What a client adds to a number when it ends: a power of two of its own, so that what is there shows
    /// who has ended. Nil for those who may not write at the end, by then, and where there are too many.
    private func presenceAmount(of client: SimulatedClient) -> Int? {
        guard client.person == .user else { return nil }
        let number = presenceNumbers[client.link.number] ?? presenceNumbers.count
        guard number < Self.presenceNumberLimit else { return nil }
        presenceNumbers[client.link.number] = number
        return 1 << number
    }

    /// So that sums over all lives are exact in a double.
    private static let presenceNumberLimit = 45

    // MARK: REST

    private func actOverREST(_ open: [SimulatedClient]) {
        let namespace = world.random.pick(SimulatedWorld.namespaces)
        let root = world.checker.state.namespaces[namespace]?.root ?? .nothing
        let (action, person) = chooser.restAction(root: root, &world.random)
        let idle = open.filter {
            $0.namespace == namespace && $0.person == person && $0.unansweredCount == 0 && !$0.isStream
        }
        if let client = idle.first, world.random.chance(60) { return ask(action, by: client) }
        if let client = open.first, open.count >= Self.restLimit || world.random.chance(5) {
            return leave(client)
        }
        let client = makeClient(person, in: namespace, isRealtime: false)
        ask(action, by: client)
        // It has nothing more to ask, and waits for the response.
        if world.random.chance(20), mayHangUp { leave(client) }
    }

    // MARK: Floods

    /// A client asks for much more than is done at once, beside the others; some hang up in the middle.
    private func flood(_ others: [SimulatedClient]) {
        guard others.reduce(0, { $0 + $1.unansweredCount }) < Self.waitingLimit else { return hangUp() }
        let client =
            world.random.chance(50)
            ? world.random.pick(others) : connect(.user, in: world.random.pick(SimulatedWorld.namespaces))
        let kind = world.random.pick(ActionChooser.Flood.allCases)
        var count = world.random.pick([150, 400, 1000, 2500])
        if kind == .filteredReads { count = min(count, Self.filteredReadLimit) }
        world.note("\(client.link.number) floods: \(count) \(kind)")
        flooders.insert(client.link.number)
        if namespacesWithLargeNode.insert(client.namespace).inserted {
            ask(.put(["big"], .plain(ActionChooser.largeNode)), by: client)
        }
        let root = root(of: client)
        for _ in 0..<count { ask(chooser.action(of: kind, root: root, &world.random), by: client) }
        world.totals.floodedRequests += count
        if world.random.chance(30) { hangUp() }
    }

    /// One of those who flood is gone, with all that it has asked for still waiting, or some of it.
    private func hangUp() {
        guard mayHangUp, let client = activeClients.first(where: { flooders.contains($0.link.number) }) else {
            return
        }
        leave(client)
    }

    /// Whether one more end could be told apart from the others.
    private var mayHangUp: Bool {
        guard world.plan.hasFloods else { return true }
        let leavingCount = world.clients.count { client in
            client.hasEnded && client.session.map { world.checker.replicas[$0] != nil } ?? false
        }
        return leavingCount + world.checker.waiting.ends(where: world.checker.state.hasQueue).count
            + world.checker.waiting.closingCount < Checker.undecidedEndLimit
    }
}

import PandoRandom

// What clients do.

extension Simulation {
    /// Requests in progress at once, where each may have been refused: every subset of them is then a
    /// possible past.
    private static let refusableLimit = 6
    private static let clientLimit = 8
    /// Connections of REST clients that are open at once.
    private static let restLimit = 6
    /// No client floods while so many requests wait.
    private static let waitingLimit = 1500
    /// Filtered reads of one flood: each sorts the large node, here too.
    private static let filteredReadLimit = 150

    private var chooser: ActionChooser { ActionChooser(usesTime: usesTime, mayBeFull: mayBeFull) }

    private var activeClients: [SimulatedClient] {
        clients.filter { !$0.isGone && !$0.hasEnded && !$0.wasClosed && !$0.isObserver }
    }

    func letClientsAct() {
        let active = activeClients
        let unansweredCount = active.reduce(0) { $0 + $1.unansweredCount }
        guard !mayBeFull || unansweredCount + checker.unansweredCount < Self.refusableLimit else { return }
        let others = active.filter(\.isRealtime)
        if others.isEmpty || others.count < Self.clientLimit && random.chance(8) {
            connect(random.pick([.anonymous, .user, .user]), in: random.pick(Self.namespaces))
            return
        }
        if plan.hasFloods, random.chance(8) { return flood(others) }
        let client = random.pick(others)
        if random.chance(4), mayHangUp { return leave(client) }
        if random.chance(18) { return actOverREST(active.filter { !$0.isRealtime }) }
        if random.chance(4) {
            totals.pings += 1
            note("\(client.link.number) pings")
            return client.ping(withFrame: random.chance(50), &random)
        }
        for _ in 0..<random.pick([1, 1, 2, mayBeFull ? 1 : 5]) {
            ask(
                chooser.action(
                    of: client, root: root(of: client), presenceDraft: { presenceDraft(of: client, &$0) },
                    &random), by: client)
        }
    }

    private func root(of client: SimulatedClient) -> Value {
        checker.state.namespaces[client.namespace]?.root ?? .nothing
    }

    // MARK: Realtime

    /// A realtime client connects, and signs in.
    @discardableResult
    func connect(_ person: Person, in namespace: String) -> SimulatedClient {
        let client = makeClient(person, in: namespace, isRealtime: true)
        note("\(client.link.number) connects to \(namespace) as \(person)")
        if person != .anonymous { ask(.authenticate, by: client) }
        return client
    }

    func makeClient(_ person: Person, in namespace: String, isRealtime: Bool) -> SimulatedClient {
        let link = network.connect(&random)
        let client = SimulatedClient(
            link, in: namespace, as: person, isRealtime: isRealtime, isHasty: random.chance(20))
        clients.append(client)
        server?.loop.accept(link)
        totals.connections += 1
        if link.secure != nil { totals.secureConnections += 1 }
        return client
    }

    func ask(_ action: ClientAction, by client: SimulatedClient) {
        let message = client.send(action, &random)
        note("\(client.link.number) asks \(String(decoding: message.prefix(300), as: UTF8.self))")
    }

    private func leave(_ client: SimulatedClient) {
        let end = random.pick(SimulatedClient.End.allCases)
        note("\(client.link.number) leaves: \(end)")
        totals.departures += 1
        if flooders.remove(client.link.number) != nil { totals.hangUps += 1 }
        client.leave(end, &random)
        if client.hasInterruptedHandshake { totals.interruptedHandshakes += 1 }
        if client.hasBrokenTLS { totals.brokenTLS += 1 }
    }

    private func presenceDraft(of client: SimulatedClient, _ random: inout SeededGenerator) -> Draft? {
        guard !plan.hasFloods else { return presenceAmount(of: client).map { .increment($0) } }
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
        let namespace = random.pick(Self.namespaces)
        let root = checker.state.namespaces[namespace]?.root ?? .nothing
        let (action, person) = chooser.restAction(root: root, &random)
        let idle = open.filter {
            $0.namespace == namespace && $0.person == person && $0.unansweredCount == 0 && !$0.isStream
        }
        if let client = idle.first, random.chance(60) { return ask(action, by: client) }
        if let client = open.first, open.count >= Self.restLimit || random.chance(5) { return leave(client) }
        let client = makeClient(person, in: namespace, isRealtime: false)
        ask(action, by: client)
        // It has nothing more to ask, and waits for the response.
        if random.chance(20), mayHangUp { leave(client) }
    }

    // MARK: Floods

    /// A client asks for much more than is done at once, beside the others; some hang up in the middle.
    private func flood(_ others: [SimulatedClient]) {
        guard others.reduce(0, { $0 + $1.unansweredCount }) < Self.waitingLimit else { return hangUp() }
        let client =
            random.chance(50) ? random.pick(others) : connect(.user, in: random.pick(Self.namespaces))
        let kind = random.pick(ActionChooser.Flood.allCases)
        var count = random.pick([150, 400, 1000, 2500])
        if kind == .filteredReads { count = min(count, Self.filteredReadLimit) }
        note("\(client.link.number) floods: \(count) \(kind)")
        flooders.insert(client.link.number)
        if namespacesWithLargeNode.insert(client.namespace).inserted {
            ask(.put(["big"], .plain(ActionChooser.largeNode)), by: client)
        }
        let root = root(of: client)
        for _ in 0..<count { ask(chooser.action(of: kind, root: root, &random), by: client) }
        totals.floodedRequests += count
        if random.chance(30) { hangUp() }
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
        guard plan.hasFloods else { return true }
        let leavingCount = clients.count { client in
            client.hasEnded && client.session.map { checker.replicas[$0] != nil } ?? false
        }
        return leavingCount + checker.waiting.ends(where: checker.state.hasQueue).count
            + checker.waiting.closingCount < Checker.undecidedEndLimit
    }
}

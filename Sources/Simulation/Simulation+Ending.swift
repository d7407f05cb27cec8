import PandoRandom
import PandoSimulatedDisk

// A run comes to rest, or the server dies or is stopped.

extension Simulation {
    // MARK: Coming to rest

    /// Everything gets its turns, once, as far as a thread would be woken for it.
    /// - Returns: Whether there is more to do without more time.
    func settleOnce() throws -> Bool {
        guard let server, !hasDied else { return false }
        network.widen()
        let hasMoved = network.moveAll()
        try decode()
        while server.loop.workers.jobCount > 0, !isStopping { server.loop.workers.perform(0) }
        server.loop.tick(isComplete: true)
        try settleReleased()
        databaseTurn()
        journalTurn()
        if let found { throw found }
        return !hasDied && (hasMoved || server.loop.isAwake || server.isDatabaseAwake)
    }

    /// Bytes, turns and time until nothing is left to do: then every request has its answer, and every client
    /// what was released to it.
    func waitUntilIdle() throws {
        note("coming to rest")
        (diskFaults.isQuiet, diskFaults.operationsLeft) = (true, nil)
        disk.capacity = .max
        var idleRounds = 0
        // Each round does one request at least.
        for _ in 0..<Self.restRounds + checker.unansweredCount
        where !hasDied && (checker.hasOpenEnds || isAnyClientWaiting || server?.hasCheckpointJob == true) {
            environment.advance(by: 300)
            var isIdle = server?.hasCheckpointJob != true
            while try settleOnce() { isIdle = false }
            checkpointTurn()
            segmentTurn()
            idleRounds = isIdle ? idleRounds + 1 : 0
            if idleRounds > Self.idleRounds { break }
            if plan.hasFloods, !hasDied, idleRounds > 2, !isAnyClientWaiting {
                try checker.noteIdle(at: environment.monotonicMilliseconds)
            }
        }
        diskFaults.isQuiet = false
        if !hasDied { try checkRest() }
    }

    /// Rounds in which everything but requests must come to rest.
    private static let restRounds = 200
    /// Rounds in which nothing happens, after which nothing will: 3 s, and a full disk is asked again after
    /// one.
    private static let idleRounds = 10

    private func isLive(_ client: SimulatedClient) -> Bool {
        !client.isGone && !client.hasEnded && !client.wasClosed
    }

    private var isAnyClientWaiting: Bool {
        clients.contains {
            isLive($0) && ($0.unansweredCount > 0 || checker.deliveries.dueCount(on: $0.link.number) > 0)
                || isOwedResponse($0)
        }
    }

    /// A client that has closed its side gets the response to what it has asked for before.
    private func isOwedResponse(_ client: SimulatedClient) -> Bool {
        client.isOwedResponse && plan.network.resetsInTenThousand == 0
    }

    /// Nothing is on its way, and no thread has anything to do.
    private func checkRest() throws {
        if let client = clients.first(where: { isOwedResponse($0) }) {
            throw BrokenPromise(
                description:
                    "connection \(client.link.number) has closed its side, and gets no response to its "
                    + "request")
        }
        for client in clients where isLive(client) {
            guard client.unansweredCount == 0 else {
                throw BrokenPromise(
                    description:
                        "connection \(client.link.number) waits for \(client.unansweredCount) answers, and "
                        + "nothing is left to do")
            }
            let dueCount = checker.deliveries.dueCount(on: client.link.number)
            guard dueCount == 0 else {
                throw BrokenPromise(
                    description:
                        "connection \(client.link.number) has not got \(dueCount) messages that were "
                        + "released to it, and nothing is left to do")
            }
        }
        guard checker.unansweredCount == 0 else {
            throw BrokenPromise(description: "\(checker.unansweredCount) requests are never answered")
        }
        for session in checker.replicas.keys { checker.replicas[session]?.isLagging = false }
        if let problem = checker.contradiction(of: checker.state) {
            throw BrokenPromise(description: "at rest, \(problem)")
        }
    }

    // MARK: Ending

    func end(isPowerCut: Bool) throws -> Loss {
        (diskFaults.isQuiet, diskFaults.operationsLeft) = (true, nil)
        defer { diskFaults.isQuiet = false }
        note(isPowerCut ? "the power is cut" : "killed")
        try disconnectClients()
        if plan.hasFloods, onDecoded == nil, let server {
            note("what was not sent:")
            let outputs = server.loop.takeUndelivered()
            try checker.settleUndelivered { checker in
                for output in outputs { try release(output, &checker) }
            }
        }
        server = nil
        guard isPowerCut else {
            totals.kills += 1
            disk.killProcess()
            return .nothing
        }
        totals.powerCuts += 1
        disk.losePower(seed: random.next())
        return switch plan.durability {
        case .always: .nothing
        case .interval: .lastMoment
        case .none: .sinceStart
        }
    }

    /// The process has ended: a part of what its kernel has still arrives, then all connections are gone.
    private func disconnectClients() throws {
        isStopping = true
        defer { isStopping = false }
        network.loseServer(&random)
        try decode()
        network.disconnect()
        clients = []
    }

    /// SIGTERM.
    func stop() throws -> (Loss, wasStopped: Bool) {
        guard let server else { return (.nothing, false) }
        note("stopping")
        totals.indexes += server.readyIndexCount
        if !plan.hasFloods || random.chance(50) { try waitUntilIdle() }
        if !hasDied { try drain(server) }
        if !hasDied { server.stop() }
        guard !hasDied else { return (try end(isPowerCut: random.chance(50)), false) }
        totals.stops += 1
        try disconnectClients()
        self.server = nil
        if random.chance(50) { _ = try end(isPowerCut: true) } else { disk.killProcess() }
        return (.nothing, true)
    }

    /// Ends all sessions.
    private func drain(_ server: SimulatedServer<SimulatedDisk>) throws {
        while server.loop.workers.jobCount > 0 { server.loop.workers.perform(0) }
        server.loop.tick(isComplete: true)
        try settleReleased()
        guard !hasDied else { return }
        isStopping = true
        defer { isStopping = false }
        server.loop.isReading = false
        checker.closeAll()
        server.drain()
        for _ in 0..<Self.restRounds + checker.waiting.count where !server.isDrained && !hasDied {
            databaseTurn()
            journalTurn()
            guard !hasDied else { return }
            server.loop.tick(isComplete: true)
            try settleReleased()
        }
        guard !hasDied else { return }
        guard server.isDrained else { throw BrokenPromise(description: "the server does not stop") }
        guard plan.hasFloods else { return }
        try checker.noteIdle(at: environment.monotonicMilliseconds)
        checker.endWithServer()
    }
}

import PandoRandom
import PandoSimulatedDisk

/// Waits until the server is idle, and checks that no client waits then for what will not come.
final class IdleWait {
    private let world: SimulatedWorld
    private let threads: ServerThreads
    private let observer: ServerObserver

    init(_ world: SimulatedWorld, _ threads: ServerThreads, _ observer: ServerObserver) {
        self.world = world
        self.threads = threads
        self.observer = observer
    }

    /// Everything gets its turns, once, as far as a thread would be woken for it.
    /// - Returns: Whether there is more to do without more time.
    func settleOnce() throws -> Bool {
        guard let server = world.server, !world.hasDied else { return false }
        world.network.widen()
        let hasMoved = world.network.moveAll()
        try observer.decode()
        while server.loop.workers.jobCount > 0, !world.isStopping { server.loop.workers.perform(0) }
        server.loop.tick(isComplete: true)
        try observer.settleReleased()
        threads.databaseTurn()
        threads.journalTurn()
        if let found = world.found { throw found }
        return !world.hasDied && (hasMoved || server.loop.isAwake || server.isDatabaseAwake)
    }

    /// Bytes, turns and time until nothing is left to do: then every request has its answer, and every client
    /// what was released to it.
    func waitUntilIdle() throws {
        world.note("waiting until idle")
        (world.diskFaults.isQuiet, world.diskFaults.operationsLeft) = (true, nil)
        world.disk.capacity = .max
        var idleRounds = 0
        // Each round does one request at least.
        for _ in 0..<Self.roundLimit + world.checker.unansweredCount
        where !world.hasDied
            && (world.checker.hasOpenEnds || isAnyClientWaiting || world.server?.hasCheckpointJob == true)
        {
            world.environment.advance(by: 300)
            var isIdle = world.server?.hasCheckpointJob != true
            while try settleOnce() { isIdle = false }
            threads.checkpointTurn()
            threads.segmentTurn()
            idleRounds = isIdle ? idleRounds + 1 : 0
            if idleRounds > Self.idleRounds { break }
            if world.plan.hasFloods, !world.hasDied, idleRounds > 2, !isAnyClientWaiting {
                try world.checker.noteIdle(at: world.environment.monotonicMilliseconds)
            }
        }
        world.diskFaults.isQuiet = false
        if !world.hasDied { try checkIdle() }
    }

    /// Rounds within which everything but requests must become idle.
    static let roundLimit = 200
    /// Rounds in which nothing happens, after which nothing will: 3 s, and a full disk is asked again after
    /// one.
    private static let idleRounds = 10

    private func isLive(_ client: SimulatedClient) -> Bool {
        !client.isGone && !client.hasEnded && !client.wasClosed
    }

    private var isAnyClientWaiting: Bool {
        world.clients.contains {
            isLive($0)
                && ($0.unansweredCount > 0 || world.checker.deliveries.dueCount(on: $0.link.number) > 0)
                || isOwedResponse($0)
        }
    }

    /// A client that has closed its side gets the response to what it has asked for before.
    private func isOwedResponse(_ client: SimulatedClient) -> Bool {
        client.isOwedResponse && world.plan.network.resetsInTenThousand == 0
    }

    /// Nothing is on its way, and no thread has anything to do.
    private func checkIdle() throws {
        if let client = world.clients.first(where: { isOwedResponse($0) }) {
            throw BrokenPromise(
                description:
                    "connection \(client.link.number) has closed its side, and gets no response to its "
                    + "request")
        }
        for client in world.clients where isLive(client) {
            guard client.unansweredCount == 0 else {
                throw BrokenPromise(
                    description:
                        "connection \(client.link.number) waits for \(client.unansweredCount) answers, and "
                        + "nothing is left to do")
            }
            let dueCount = world.checker.deliveries.dueCount(on: client.link.number)
            guard dueCount == 0 else {
                throw BrokenPromise(
                    description:
                        "connection \(client.link.number) has not got \(dueCount) messages that were "
                        + "released to it, and nothing is left to do")
            }
        }
        guard world.checker.unansweredCount == 0 else {
            throw BrokenPromise(description: "\(world.checker.unansweredCount) requests are never answered")
        }
        for session in world.checker.replicas.keys { world.checker.replicas[session]?.isLagging = false }
        if let problem = world.checker.contradiction(of: world.checker.state) {
            throw BrokenPromise(description: "when idle, \(problem)")
        }
    }
}

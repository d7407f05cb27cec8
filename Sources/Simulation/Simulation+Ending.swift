import PandoRandom
import PandoSimulatedDisk

// The server dies, or is stopped.

extension Simulation {
    func end(isPowerCut: Bool) throws -> Loss {
        (world.diskFaults.isQuiet, world.diskFaults.operationsLeft) = (true, nil)
        defer { world.diskFaults.isQuiet = false }
        world.note(isPowerCut ? "the power is cut" : "killed")
        try disconnectClients()
        if world.plan.hasFloods, world.onDecoded == nil, let server = world.server {
            world.note("what was not sent:")
            let outputs = server.loop.takeUndelivered()
            try world.checker.settleUndelivered { checker in
                for output in outputs { try observer.release(output, &checker) }
            }
        }
        world.server = nil
        guard isPowerCut else {
            world.totals.kills += 1
            world.disk.killProcess()
            return .nothing
        }
        world.totals.powerCuts += 1
        world.disk.losePower(seed: world.random.next())
        return switch world.plan.durability {
        case .always: .nothing
        case .interval: .lastMoment
        case .none: .sinceStart
        }
    }

    /// The process has ended: a part of what its kernel has still arrives, then all connections are gone.
    private func disconnectClients() throws {
        world.isStopping = true
        defer { world.isStopping = false }
        world.network.loseServer(&world.random)
        try observer.decode()
        world.network.disconnect()
        world.clients = []
    }

    /// SIGTERM.
    func stop() throws -> (Loss, wasStopped: Bool) {
        guard let server = world.server else { return (.nothing, false) }
        world.note("stopping")
        world.totals.indexes += server.readyIndexCount
        if !world.plan.hasFloods || world.random.chance(50) { try idle.waitUntilIdle() }
        if !world.hasDied { try drain(server) }
        if !world.hasDied { server.stop() }
        guard !world.hasDied else { return (try end(isPowerCut: world.random.chance(50)), false) }
        world.totals.stops += 1
        try disconnectClients()
        world.server = nil
        if world.random.chance(50) { _ = try end(isPowerCut: true) } else { world.disk.killProcess() }
        return (.nothing, true)
    }

    /// Ends all sessions.
    private func drain(_ server: SimulatedServer<SimulatedDisk>) throws {
        while server.loop.workers.jobCount > 0 { server.loop.workers.perform(0) }
        server.loop.tick(isComplete: true)
        try observer.settleReleased()
        guard !world.hasDied else { return }
        world.isStopping = true
        defer { world.isStopping = false }
        server.loop.isReading = false
        world.checker.closeAll()
        server.drain()
        for _ in 0..<IdleWait.roundLimit + world.checker.waiting.count
        where !server.isDrained && !world.hasDied {
            threads.databaseTurn()
            threads.journalTurn()
            guard !world.hasDied else { return }
            server.loop.tick(isComplete: true)
            try observer.settleReleased()
        }
        guard !world.hasDied else { return }
        guard server.isDrained else {
            throw BrokenPromise(description: "the server does not stop")
        }
        guard world.plan.hasFloods else { return }
        try world.checker.noteIdle(at: world.environment.monotonicMilliseconds)
        world.checker.endWithServer()
    }
}

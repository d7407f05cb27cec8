import PandoDatabase
import PandoEngine
import PandoJournal
import PandoRandom
import PandoSimulatedDisk
import PandoStorage

/// One seed: a disk, a network, a clock, clients, and a server that is started, used, and ended, some times
/// over.
///
/// Each step gives one of the server's threads a turn, moves bytes on the network, lets a client act, or
/// changes the disk or the clock. What the databases release and what clients decode goes to the checker. All
/// random choices come from one generator, so the same seed gives the same run.
///
///     clients ─ bytes ─▶ network ─▶ server ─▶ disk
///        │                  ▲          │ released
///        └ decoded ─▶ checker ◀────────┘
package final class Simulation {
    let world: SimulatedWorld
    let observer: ServerObserver
    let threads: ServerThreads
    let driver: ClientDriver
    let idle: IdleWait
    private let fault: PlantedFault?

    /// - Parameters:
    ///   - floods: Whether sessions flood; nil to leave it to the seed.
    package convenience init(seed: UInt64, log: EventLog.Mode, floods: Bool? = nil) {
        self.init(seed: seed, log: log, floods: floods, fault: nil)
    }

    /// - Parameter fault: What the server is made to do wrong.
    init(seed: UInt64, log: EventLog.Mode, floods: Bool? = nil, fault: PlantedFault?) {
        self.fault = fault
        world = SimulatedWorld(seed: seed, log: log, floods: floods)
        observer = ServerObserver(world)
        threads = ServerThreads(world, observer)
        driver = ClientDriver(world)
        idle = IdleWait(world, threads, observer)
    }

    /// The events so far.
    package var log: EventLog { world.log }
    /// The number of the present step, by which events are logged.
    package var step: Int { world.step }
    /// What has happened so far, counted.
    package var totals: Totals { world.totals }

    /// Runs the seed to its end.
    /// - Throws: ``BrokenPromise``.
    package func run() throws {
        world.note("\(world.plan)")
        var loss = Loss.nothing
        var wasStopped = false
        for _ in 0..<world.plan.lifeCount {
            try start(after: loss, wasStopped: wasStopped)
            (loss, wasStopped) = try runServer()
            world.server = nil
        }
        try start(after: loss, wasStopped: wasStopped)
        try idle.waitUntilIdle()
        world.server = nil
        countTotals()
    }

    private func countTotals() {
        world.totals.answers = world.checker.answerCount
        world.totals.fullDiskRefusals = world.checker.fullDiskRefusalCount
        world.totals.failedOperations = world.diskFaults.failureCount
        world.totals.droppedReads = world.checker.waiting.droppedReadCount
        world.totals.overtakings = world.checker.waiting.overtakenCount
        world.totals.longestWaitPercent = world.checker.fairness.longestWaitPercent
        world.totals.pieces = world.network.cutCount
        world.totals.networkResets = world.network.resetCount
    }

    func makeServer() throws -> SimulatedServer<SimulatedDisk> {
        var options = SimulatedServer<SimulatedDisk>.Options()
        options.database.createsNamespaces = true
        options.database.sessionEndReserveByteCount = world.plan.reserveByteCount
        options.database.unindexedChildCount = world.plan.unindexedChildCount
        options.storage.durability = world.plan.durability
        options.storage.checkpointByteLimit = world.plan.checkpointByteLimit
        options.storage.minimumReservedByteCount = world.plan.lowSpaceByteCount
        options.journal.segmentByteLimit = world.plan.segmentByteLimit
        options.journal.reservationByteCount = world.plan.reservationByteCount
        options.outputByteLimit = world.plan.outputByteLimit
        options.requestByteLimit = world.plan.requestByteLimit
        let made = try SimulatedServer(
            on: world.disk, options, environment: world.environment,
            fault: fault.map { FaultInjector($0, SeededGenerator(seed: world.random.next())) },
            SeededGenerator(seed: world.random.next()))
        made.loop.observer = observer
        observer.latestRun = 0
        return made
    }

    // MARK: Living

    /// - Returns: What the next start may have forgotten.
    private func runServer() throws -> (Loss, wasStopped: Bool) {
        let stepCount = Int.random(in: 1...world.plan.stepLimit, using: &world.random)
        for _ in 0..<stepCount {
            world.step += 1
            try takeStep()
            if let found = world.found { throw found }
            if world.hasDied { return (try end(isPowerCut: world.random.chance(50)), false) }
        }
        if world.random.chance(40) { try idle.waitUntilIdle() }
        if world.hasDied || world.random.chance(60) {
            return (try end(isPowerCut: world.random.chance(60)), false)
        }
        return try stop()
    }

    private func takeStep() throws {
        switch Int.random(in: 0..<100, using: &world.random) {
        case 0..<27: driver.letClientsAct()
        case 27..<45: try observer.moveBytes()
        case 45..<62: try threads.loopTurn()
        case 62..<75: threads.databaseTurn()
        case 75..<88: threads.journalTurn()
        case 88..<91: threads.checkpointTurn()
        case 91..<93: threads.segmentTurn()
        case 93..<97: advanceTime()
        case 97: changeDisk()
        case 98: setClockBack()
        default:
            guard world.diskFaults.operationsLeft == nil, world.random.chance(50) else { return }
            world.diskFaults.operationsLeft = Int.random(in: 0..<12, using: &world.random)
            world.note("the end comes in \(world.diskFaults.operationsLeft ?? 0) disk operations")
        }
    }

    // MARK: The world

    func advanceTime() {
        let milliseconds = world.random.pick([1, 7, 50, 120, 1100, 31_000]) as Int64
        world.environment.advance(by: milliseconds)
        world.note("\(milliseconds) ms pass")
        // Where sessions flood, too many ends at once could not be told apart.
        guard let server = world.server, !world.hasDied, world.onDecoded == nil, !world.plan.hasFloods,
            world.random.chance(40)
        else { return }
        world.note("sweep")
        world.totals.sweeps += 1
        for client in world.clients { client.swept() }
        server.loop.sweep()
        do { try observer.settleReleased() } catch { world.found = world.found ?? error }
    }

    private func setClockBack() {
        guard world.usesTime, world.server != nil, !world.hasDied else { return }
        let milliseconds = Int64.random(in: 1...100_000, using: &world.random)
        world.environment.setWall(world.environment.wallMilliseconds - milliseconds)
        world.totals.clockJumps += 1
        world.note("the clock is set back by \(milliseconds) ms")
    }

    private func changeDisk() {
        guard world.plan.hasFullDisks else { return }
        world.disk.capacity =
            world.random.chance(40)
            ? .max
            : world.disk.usedByteCount + (world.random.chance(50) ? world.plan.reserveByteCount : 0)
                + Int.random(in: 0...3000, using: &world.random)
        world.note(
            "the disk has space for \(world.disk.capacity == .max ? "all" : "\(world.disk.capacity - world.disk.usedByteCount) bytes")"
        )
    }
}

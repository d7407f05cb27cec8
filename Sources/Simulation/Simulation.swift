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
    package internal(set) var log: EventLog
    package private(set) var step = 0
    package internal(set) var totals = Totals()

    var random: SeededGenerator
    let plan: Plan
    private let fault: PlantedFault?
    let disk = SimulatedDisk()
    var diskFaults: DiskFaults
    let environment: ScriptedEnvironment
    var server: SimulatedServer<SimulatedDisk>?
    var network: SimulatedNetwork
    var checker: Checker
    /// By the numbers of their links.
    var clients: [SimulatedClient] = []
    /// What clients are given that look at what is there after a start; nil otherwise.
    var onDecoded: ((SimulatedClient, SimulatedClient.Decoded) throws -> Void)?
    /// The server ends all sessions: what is posted now is dropped.
    var isStopping = false
    /// The first broken promise that was seen in the middle of a turn.
    var found: (any Error)?
    var hasReleased = false
    /// Sessions of REST requests whose heads wait to be admitted.
    var admissions: Set<UInt64> = []
    /// The latest time at which databases have run.
    var latestRun: Int64 = 0

    private var isWritingCheckpoint = false
    private var isPreparingSegment = false
    private var isInJournalTurn = false
    private var isNested = false
    /// Links of clients that have flooded.
    var flooders: Set<Int> = []
    /// By link: which of the amounts in ``presenceAmount(of:)`` is its own.
    var presenceNumbers: [Int: Int] = [:]
    /// Namespaces in which the large node was written.
    var namespacesWithLargeNode: Set<String> = []
    /// Looks at the clock of work that begin a turn, and the work before them: no request's.
    var silentLooks = 0
    var silentWork: UInt64 = 0

    static let namespaces = ["default", "demo"]
    private static let beginning: Int64 = 1_700_000_000_000

    /// - Parameters:
    ///   - floods: Whether sessions flood; nil to leave it to the seed.
    ///   - fault: What the server is made to do wrong.
    package convenience init(seed: UInt64, log: EventLog.Mode, floods: Bool? = nil) {
        self.init(seed: seed, log: log, floods: floods, fault: nil)
    }

    init(seed: UInt64, log: EventLog.Mode, floods: Bool? = nil, fault: PlantedFault?) {
        self.log = EventLog(log)
        self.fault = fault
        random = SeededGenerator(seed: seed)
        plan = Plan(&random, floods: floods)
        network = SimulatedNetwork(plan.network)
        diskFaults = DiskFaults(failuresInTenThousand: plan.failuresInTenThousand)
        environment = ScriptedEnvironment(
            startingAt: Self.beginning, seed: random.next(), workStep: plan.workStep,
            heavyWorkStep: plan.heavyWorkStep)
        checker = Checker(
            mayBeFull: plan.hasFullDisks || plan.failuresInTenThousand > 0,
            isTimeKnown: !plan.hasSlowLoops && !plan.hasFloods,
            bound: !plan.hasFloods
                ? nil
                : FairnessBound(
                    quantum: SimulatedServer<SimulatedDisk>.quantum,
                    burst: SimulatedServer<SimulatedDisk>.burstWork,
                    heaviest: plan.heavyWorkStep, databaseCount: UInt64(Self.namespaces.count)),
            workOfPiece: environment.workNanoseconds(before:))
    }

    var usesTime: Bool { !plan.hasSlowLoops && !plan.hasFloods && !checker.mayBeFull }
    /// The disk may refuse the end of a session: only what shows must be queued for it.
    var mayBeFull: Bool { checker.mayBeFull }

    func note(_ event: @autoclosure () -> String) { log.note(event(), at: step) }

    /// Runs the seed to its end.
    /// - Throws: ``BrokenPromise``.
    package func run() throws {
        disk.onOperation = { [unowned self] operation in outcome(of: operation) }
        note("\(plan)")
        var loss = Loss.nothing
        var wasStopped = false
        for _ in 0..<plan.lifeCount {
            try start(after: loss, wasStopped: wasStopped)
            (loss, wasStopped) = try runServer()
            server = nil
        }
        try start(after: loss, wasStopped: wasStopped)
        try waitUntilIdle()
        server = nil
        countTotals()
    }

    private func countTotals() {
        totals.answers = checker.answerCount
        totals.fullDiskRefusals = checker.fullDiskRefusalCount
        totals.failedOperations = diskFaults.failureCount
        totals.droppedReads = checker.waiting.droppedReadCount
        totals.overtakings = checker.waiting.overtakenCount
        totals.longestWaitPercent = checker.fairness.longestWaitPercent
        totals.pieces = network.cutCount
        totals.networkResets = network.resetCount
    }

    func makeServer() throws -> SimulatedServer<SimulatedDisk> {
        var options = SimulatedServer<SimulatedDisk>.Options()
        options.database.createsNamespaces = true
        options.database.sessionEndReserveByteCount = plan.reserveByteCount
        options.database.unindexedChildCount = plan.unindexedChildCount
        options.storage.durability = plan.durability
        options.storage.checkpointByteLimit = plan.checkpointByteLimit
        options.storage.minimumReservedByteCount = plan.lowSpaceByteCount
        options.journal.segmentByteLimit = plan.segmentByteLimit
        options.journal.reservationByteCount = plan.reservationByteCount
        options.outputByteLimit = plan.outputByteLimit
        options.requestByteLimit = plan.requestByteLimit
        let server = try SimulatedServer(
            on: disk, options, environment: environment,
            fault: fault.map { FaultInjector($0, SeededGenerator(seed: random.next())) },
            SeededGenerator(seed: random.next()))
        server.loop.observer = self
        latestRun = 0
        return server
    }

    // MARK: Living

    /// - Returns: What the next start may have forgotten.
    private func runServer() throws -> (Loss, wasStopped: Bool) {
        let stepCount = Int.random(in: 1...plan.stepLimit, using: &random)
        for _ in 0..<stepCount {
            step += 1
            try takeStep()
            if let found { throw found }
            if hasDied { return (try end(isPowerCut: random.chance(50)), false) }
        }
        if random.chance(40) { try waitUntilIdle() }
        if hasDied || random.chance(60) { return (try end(isPowerCut: random.chance(60)), false) }
        return try stop()
    }

    var hasDied: Bool { disk.hasCrashed || server?.failure != nil }

    private func takeStep() throws {
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<27: letClientsAct()
        case 27..<45: try moveBytes()
        case 45..<62: try loopTurn()
        case 62..<75: databaseTurn()
        case 75..<88: journalTurn()
        case 88..<91: checkpointTurn()
        case 91..<93: segmentTurn()
        case 93..<97: advanceTime()
        case 97: changeDisk()
        case 98: setClockBack()
        default:
            guard diskFaults.operationsLeft == nil, random.chance(50) else { return }
            diskFaults.operationsLeft = Int.random(in: 0..<12, using: &random)
            note("the end comes in \(diskFaults.operationsLeft ?? 0) disk operations")
        }
    }

    // MARK: Turns

    func loopTurn() throws {
        guard let server, !hasDied else { return }
        if server.loop.workers.jobCount > 0, random.chance(70) { work(server) }
        note("loop")
        server.loop.tick(isComplete: false)
        try settleReleased()
    }

    /// A worker does one job.
    private func work(_ server: SimulatedServer<SimulatedDisk>) {
        server.loop.workers.perform(Int.random(in: 0..<server.loop.workers.jobCount, using: &random))
    }

    /// Compares what the loop has released.
    func settleReleased() throws {
        if let found { throw found }
        guard hasReleased else { return }
        hasReleased = false
        try checker.settleRest(at: environment.monotonicMilliseconds)
        checker.deliveries.endBatch(at: checker.history.lastIndex)
    }

    func databaseTurn() {
        guard let server, !hasDied, server.isDatabaseAwake else { return }
        note("database thread")
        runDatabases { server.stepDatabase() }
    }

    func journalTurn() {
        guard let server, !hasDied else { return }
        note("journal thread")
        isInJournalTurn = true
        let takenBefore = server.usedPreparedCount
        server.stepJournal()
        totals.takenSegments += server.usedPreparedCount - takenBefore
        isInJournalTurn = false
        // Looking around comes before what was lost is known.
        if !hasDied, onDecoded == nil { checker.history.journalTurn(at: environment.monotonicMilliseconds) }
    }

    func checkpointTurn() {
        guard let server, !hasDied, server.hasCheckpointJob else { return }
        note("checkpoint thread")
        isWritingCheckpoint = true
        server.stepCheckpoint()
        isWritingCheckpoint = false
        totals.checkpoints += 1
    }

    func segmentTurn() {
        guard let server, !hasDied, server.hasSegmentJob else { return }
        note("segment thread")
        isPreparingSegment = true
        server.stepSegment { random.chance(2) }
        isPreparingSegment = false
    }

    // MARK: The world

    func advanceTime() {
        let milliseconds = random.pick([1, 7, 50, 120, 1100, 31_000]) as Int64
        environment.advance(by: milliseconds)
        note("\(milliseconds) ms pass")
        // Where sessions flood, too many ends at once could not be told apart.
        guard let server, !hasDied, onDecoded == nil, !plan.hasFloods, random.chance(40) else { return }
        note("sweep")
        totals.sweeps += 1
        for client in clients { client.swept() }
        server.loop.sweep()
        do { try settleReleased() } catch { found = found ?? error }
    }

    private func setClockBack() {
        guard usesTime, server != nil, !hasDied else { return }
        let milliseconds = Int64.random(in: 1...100_000, using: &random)
        environment.setWall(environment.wallMilliseconds - milliseconds)
        totals.clockJumps += 1
        note("the clock is set back by \(milliseconds) ms")
    }

    private func changeDisk() {
        guard plan.hasFullDisks else { return }
        disk.capacity =
            random.chance(40)
            ? .max
            : disk.usedByteCount + (random.chance(50) ? plan.reserveByteCount : 0)
                + Int.random(in: 0...3000, using: &random)
        note(
            "the disk has space for \(disk.capacity == .max ? "all" : "\(disk.capacity - disk.usedByteCount) bytes")"
        )
    }

    // MARK: The disk

    private func outcome(of operation: DiskOperation) -> SimulatedDisk.OperationOutcome {
        if isWritingCheckpoint || isPreparingSegment, !isNested, random.chance(40) { runOtherThreads() }
        if isInJournalTurn, !isNested, !diskFaults.isQuiet, !mayBeFull, plan.hasAmpleSpace, random.chance(20)
        {
            letDatabaseGoOn()
        }
        if disk.hasCrashed { return .crash }
        let purpose = DiskFaults.Purpose(
            isServing: server != nil, isCheckpoint: isWritingCheckpoint && !isNested)
        let outcome = diskFaults.outcome(of: operation, for: purpose, &random)
        note("    \(operation.rawValue): \(outcome)")
        return outcome
    }

    /// A checkpoint is written, or a segment prepared, while everything else goes on.
    private func runOtherThreads() {
        isNested = true
        defer { isNested = false }
        for _ in 0..<Int.random(in: 1...3, using: &random) where !hasDied {
            if random.chance(50) { databaseTurn() } else { journalTurn() }
        }
    }

    /// The journal thread waits for the disk; meanwhile database and loop go on. Not where they might have to
    /// wait for the journal thread itself.
    private func letDatabaseGoOn() {
        isNested = true
        defer { isNested = false }
        databaseTurn()
        do { try loopTurn() } catch { found = found ?? error }
    }
}

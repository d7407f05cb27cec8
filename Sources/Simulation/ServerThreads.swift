import PandoJournal
import PandoRandom
import PandoSimulatedDisk

/// Gives the server's threads their turns, and has the disk fail while a thread uses it. A thread that writes
/// a checkpoint, prepares a segment or waits for the disk may be overtaken by others.
final class ServerThreads {
    private let world: SimulatedWorld
    private let observer: ServerObserver
    private var isWritingCheckpoint = false
    private var isPreparingSegment = false
    private var isInJournalTurn = false
    private var isNested = false

    init(_ world: SimulatedWorld, _ observer: ServerObserver) {
        self.world = world
        self.observer = observer
        world.disk.onOperation = { [unowned self] operation in outcome(of: operation) }
    }

    func loopTurn() throws {
        guard let server = world.server, !world.hasDied else { return }
        if server.loop.workers.jobCount > 0, world.random.chance(70) { work(server) }
        world.note("loop")
        server.loop.tick(isComplete: false)
        try observer.settleReleased()
    }

    /// A worker does one job.
    private func work(_ server: SimulatedServer<SimulatedDisk>) {
        server.loop.workers.perform(Int.random(in: 0..<server.loop.workers.jobCount, using: &world.random))
    }

    func databaseTurn() {
        guard let server = world.server, !world.hasDied, server.isDatabaseAwake else { return }
        world.note("database thread")
        observer.runDatabases { server.stepDatabase() }
    }

    func journalTurn() {
        guard let server = world.server, !world.hasDied else { return }
        world.note("journal thread")
        isInJournalTurn = true
        let takenBefore = server.usedPreparedCount
        server.stepJournal()
        world.totals.takenSegments += server.usedPreparedCount - takenBefore
        isInJournalTurn = false
        // ``StartReader`` reads before what was lost is known.
        if !world.hasDied, world.onDecoded == nil {
            world.checker.history.journalTurn(at: world.environment.monotonicMilliseconds)
        }
    }

    func checkpointTurn() {
        guard let server = world.server, !world.hasDied, server.hasCheckpointJob else { return }
        world.note("checkpoint thread")
        isWritingCheckpoint = true
        server.stepCheckpoint()
        isWritingCheckpoint = false
        world.totals.checkpoints += 1
    }

    func segmentTurn() {
        guard let server = world.server, !world.hasDied, server.hasSegmentJob else { return }
        world.note("segment thread")
        isPreparingSegment = true
        server.stepSegment { world.random.chance(2) }
        isPreparingSegment = false
    }

    // MARK: The disk

    private func outcome(of operation: DiskOperation) -> SimulatedDisk.OperationOutcome {
        if isWritingCheckpoint || isPreparingSegment, !isNested, world.random.chance(40) { runOtherThreads() }
        if isInJournalTurn, !isNested, !world.diskFaults.isQuiet, !world.mayBeFull, world.plan.hasAmpleSpace,
            world.random.chance(20)
        {
            letDatabaseGoOn()
        }
        if world.disk.hasCrashed { return .crash }
        let purpose = DiskFaults.Purpose(
            isServing: world.server != nil, isCheckpoint: isWritingCheckpoint && !isNested)
        let outcome = world.diskFaults.outcome(of: operation, for: purpose, &world.random)
        world.note("    \(operation.rawValue): \(outcome)")
        return outcome
    }

    /// A checkpoint is written, or a segment prepared, while everything else goes on.
    private func runOtherThreads() {
        isNested = true
        defer { isNested = false }
        for _ in 0..<Int.random(in: 1...3, using: &world.random) where !world.hasDied {
            if world.random.chance(50) { databaseTurn() } else { journalTurn() }
        }
    }

    /// The journal thread waits for the disk; meanwhile database and loop go on. Not where they might have to
    /// wait for the journal thread itself.
    private func letDatabaseGoOn() {
        isNested = true
        defer { isNested = false }
        databaseTurn()
        do { try loopTurn() } catch { world.found = world.found ?? error }
    }
}

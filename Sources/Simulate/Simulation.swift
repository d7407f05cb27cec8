import PandoJournal
import PandoRandom
import PandoServer
import PandoStorage
import PandoSimulatedDisk

/// The world of one seed: a disk, a clock, clients, and a server that is started, used, and ended, some times
/// over.
///
/// Each step gives one of the threads a turn, or a client something to say, or lets something happen to the
/// world. What the server lets out goes to the checker. All chance comes from one generator, so a seed is a
/// story.
final class Simulation {
    enum Log {
        case print, forget
        /// Only ``Simulation/digest``.
        case digest
        /// The last so many events.
        case keep(Int)
    }

    private let log: Log
    private(set) var events: [String] = []
    /// Of all events, in their order (FNV-1a).
    private(set) var digest: UInt64 = 0xCBF2_9CE4_8422_2325
    private(set) var step = 0
    var totals = Totals()

    var random: SeededGenerator
    let plan: Plan
    let fault: Fault?
    let disk = SimulatedDisk()
    let environment: ScriptedEnvironment
    var server: SteppedServer<SimulatedDisk>?
    var checker: Checker
    /// Sessions and REST requests of this life.
    var sessionCount: UInt64 = 0

    /// Nothing happens to the disk.
    var isQuiet = true
    /// Disk operations until everything ends; nil for no end in sight.
    var operationsLeft: Int?
    var hasFailedOperation = false
    private var isWritingCheckpoint = false
    private var isPreparingSegment = false
    private var isInJournalTurn = false
    private var isNested = false
    /// What was found while the disk was at work.
    private var foundMeanwhile: (any Error)?
    /// Sessions that have flooded, while they are open.
    var flooders: Set<UInt64> = []
    /// By session: which of the amounts in ``presenceAmount(of:)`` is its own.
    var presenceNumbers: [UInt64: Int] = [:]
    /// Namespaces in which the large node was written.
    var namespacesWithLargeNode: Set<String> = []
    var delayed = Delayed()
    /// Looks at the clock of work that begin a turn, and the work before them: no request's.
    private var silentLooks = 0
    private var silentWork: UInt64 = 0

    static let namespaces = ["default", "demo"]
    private static let beginning: Int64 = 1_700_000_000_000

    /// - Parameters:
    ///   - floods: Whether sessions flood; nil to leave it to the seed.
    ///   - fault: What the server is made to do wrong.
    init(seed: UInt64, log: Log, floods: Bool? = nil, fault: Fault? = nil) {
        self.log = log
        self.fault = fault
        random = SeededGenerator(seed: seed)
        plan = Plan(&random, floods: floods)
        environment = ScriptedEnvironment(
            startingAt: Self.beginning, seed: random.next(), workStep: plan.workStep,
            heavyWorkStep: plan.heavyWorkStep)
        checker = Checker(
            mayBeFull: plan.hasFullDisks || plan.failuresInTenThousand > 0,
            isTimeKnown: !plan.hasSlowLoops && !plan.hasFloods,
            bound: !plan.hasFloods
                ? nil
                : FairnessBound(
                    quantum: SteppedServer<SimulatedDisk>.quantum,
                    burst: SteppedServer<SimulatedDisk>.burstWork,
                    heaviest: plan.heavyWorkStep, databaseCount: UInt64(Self.namespaces.count)),
            workOfPiece: environment.workNanoseconds(before:))
    }

    var usesTime: Bool { !plan.hasSlowLoops && !plan.hasFloods && !checker.mayBeFull }
    /// The disk may refuse the end of a session: only what shows must be queued for it.
    var mayBeFull: Bool { checker.mayBeFull }

    func note(_ event: @autoclosure () -> String) {
        switch log {
        case .forget: return
        case .print: print("\(step): \(event())")
        case .digest:
            for byte in "\(step): \(event())\n".utf8 { digest = (digest ^ UInt64(byte)) &* 0x100_0000_01B3 }
        case .keep(let count):
            if events.count == 2 * count { events.removeFirst(count) }
            events.append("\(step): \(event())")
        }
    }

    func run() throws {
        disk.onOperation = { [unowned self] operation in outcome(of: operation) }
        note("\(plan)")
        var loss = Checker.Loss.nothing
        var wasStopped = false
        for _ in 0..<plan.lifeCount {
            try start(after: loss, wasStopped: wasStopped)
            (loss, wasStopped) = try live()
            server = nil
        }
        try start(after: loss, wasStopped: wasStopped)
        try comeToRest()
        totals.answers = checker.answerCount
        totals.refusalsForRoom = checker.roomRefusalCount
        totals.droppedReads = checker.waiting.droppedReadCount
        totals.overtakings = checker.waiting.overtakenCount
        totals.longestWaitPercent = checker.turns.longestWaitPercent
        server = nil
    }

    // MARK: Living

    /// - Returns: What the next start may have forgotten.
    private func live() throws -> (Checker.Loss, wasStopped: Bool) {
        let stepCount = Int.random(in: 1...plan.stepLimit, using: &random)
        for _ in 0..<stepCount {
            step += 1
            try takeStep()
            if let foundMeanwhile { throw foundMeanwhile }
            if hasDied { return (try end(isPowerCut: random.chance(50)), false) }
        }
        if random.chance(40) { try comeToRest() }
        if hasDied || random.chance(60) { return (try end(isPowerCut: random.chance(60)), false) }
        return try stop()
    }

    private var hasDied: Bool { disk.hasCrashed || server?.failure != nil }

    private func takeStep() throws {
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<35: try letClientsAct()
        case 35..<57: databaseTurn()
        case 57..<76: journalTurn()
        case 76..<79: checkpointTurn()
        case 79..<82: segmentTurn()
        case 82..<93: try hear()
        case 93..<97: advanceTime()
        case 97: changeDisk()
        case 98: setClockBack()
        default:
            guard operationsLeft == nil, random.chance(50) else { return }
            operationsLeft = Int.random(in: 0..<12, using: &random)
            note("the end comes in \(operationsLeft ?? 0) disk operations")
        }
    }

    private func databaseTurn() {
        guard let server, !hasDied else { return }
        playOut()
        let look = environment.lookCount
        checker.databaseTurn(
            wall: environment.wallMilliseconds, pieceCount: Int(look) - silentLooks,
            work: environment.workNanoseconds - silentWork, firstLook: look + 1)
        note("database thread")
        server.stepDatabase()
        guard environment.lookCount > look else { return }
        silentLooks += 1
        silentWork += environment.workNanoseconds(before: look)
    }

    private func journalTurn() {
        guard let server, !hasDied else { return }
        note("journal thread")
        isInJournalTurn = true
        let takenBefore = server.usedPreparedCount
        server.stepJournal()
        totals.takenSegments += server.usedPreparedCount - takenBefore
        isInJournalTurn = false
        if !hasDied { checker.journalTurn(at: environment.monotonicMilliseconds) }
    }

    private func checkpointTurn() {
        guard let server, !hasDied, server.hasCheckpointJob else { return }
        note("checkpoint thread")
        isWritingCheckpoint = true
        server.stepCheckpoint()
        isWritingCheckpoint = false
        totals.checkpoints += 1
    }

    private func segmentTurn() {
        guard let server, !hasDied, server.hasSegmentJob else { return }
        note("segment thread")
        isPreparingSegment = true
        server.stepSegment { random.chance(2) }
        isPreparingSegment = false
    }

    func hear() throws {
        guard let server, !hasDied else { return }
        let now = environment.monotonicMilliseconds
        try hear(server.takeOutputs(), &checker, at: now)
        try checker.settleRest(at: now)
    }

    private func hear(
        _ outputs: [SteppedServer<SimulatedDisk>.Output], _ checker: inout Checker, at now: Int64
    ) throws {
        for output in outputs {
            switch output {
            case .message(let session, let bytes):
                note(
                    "  \(session.rawValue & 0xFFFF) hears \(String(decoding: bytes.prefix(300), as: UTF8.self))"
                )
                try checker.hear(bytes, in: session.rawValue, at: now)
            case .rest(let session, let result):
                note("  \(session.rawValue & 0xFFFF) gets \(result)")
                try checker.hearREST(try Self.answer(result), in: session.rawValue, at: now)
            case .closed(let session):
                note("  \(session.rawValue & 0xFFFF) is closed")
                checker.closed(session.rawValue)
            }
        }
    }

    private static func answer(_ result: SteppedServer<SimulatedDisk>.RESTResult) throws
        -> Checker.RESTResponse
    {
        switch result {
        case .done(let bytes?): (try? Value(json: bytes)).map { .data($0) } ?? .ok
        case .done(nil): .ok
        case .stale: .stale
        case .denied: .denied
        case .diskFull: .diskFull
        case .refused(let text): .failed(text)
        }
    }

    func advanceTime() {
        let milliseconds = random.pick([1, 7, 50, 120, 1100, 31_000]) as Int64
        environment.advance(by: milliseconds)
        note("\(milliseconds) ms pass")
    }

    private func setClockBack() {
        // Whoever took the last command has seen the clock as it was.
        guard usesTime, let server, !hasDied else { return }
        databaseTurn()
        let session = nextSession()
        askOverREST(.restGet(["a"]), session, .admin, Self.namespaces[0], server)
        databaseTurn()
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
            : disk.usedByteCount + (random.chance(50) ? plan.spareRoomByteCount : 0)
                + Int.random(in: 0...3000, using: &random)
        note(
            "the disk has room for \(disk.capacity == .max ? "all" : "\(disk.capacity - disk.usedByteCount) bytes")"
        )
    }

    /// Everybody gets turns until nothing is left to do: then every request has its answer.
    private func comeToRest() throws {
        note("coming to rest")
        (isQuiet, operationsLeft) = (true, nil)
        disk.capacity = .max
        var idleRounds = 0
        // Each turn does one request at least.
        for _ in 0..<Self.restRounds + checker.unansweredCount
        where !hasDied && checker.hasOpenEnds || server?.hasCheckpointJob == true {
            environment.advance(by: 300)
            databaseTurn()
            journalTurn()
            checkpointTurn()
            segmentTurn()
            try hear()
            guard plan.hasFloods, !hasDied else { continue }
            idleRounds = server?.hasBacklog == false && checker.unansweredCount == 0 ? idleRounds + 1 : 0
            if idleRounds > 2 { try checker.comeToRest(at: environment.monotonicMilliseconds) }
        }
        isQuiet = false
        guard !hasDied else { return }
        if checker.unansweredCount > 0 {
            throw BrokenPromise(description: "\(checker.unansweredCount) requests are never answered")
        }
    }

    /// Rounds in which everything but requests must come to rest.
    private static let restRounds = 200

    // MARK: Ending

    func end(isPowerCut: Bool) throws -> Checker.Loss {
        (isQuiet, operationsLeft) = (true, nil)
        defer { isQuiet = false }
        if plan.hasFloods, let server {
            note("nobody hears any more:")
            let outputs = server.takeUndelivered()
            try checker.hearUndelivered { try hear(outputs, &$0, at: environment.monotonicMilliseconds) }
        }
        server = nil
        guard isPowerCut else {
            note("killed")
            totals.kills += 1
            disk.killProcess()
            return .nothing
        }
        note("the power is cut")
        totals.powerCuts += 1
        disk.losePower(seed: random.next())
        return switch plan.durability {
        case .always: .nothing
        case .interval: .lastMoment
        case .none: .sinceStart
        }
    }

    /// SIGTERM.
    private func stop() throws -> (Checker.Loss, wasStopped: Bool) {
        guard let server else { return (.nothing, false) }
        note("stopping")
        if !plan.hasFloods || random.chance(50) { try comeToRest() }
        checker.closeAll()
        server.drain()
        for _ in 0..<Self.restRounds + checker.waiting.count where !server.isDrained && !hasDied {
            databaseTurn()
            journalTurn()
            try hear()
        }
        if !hasDied, !server.isDrained { throw BrokenPromise(description: "the server does not stop") }
        if !hasDied, plan.hasFloods {
            try checker.comeToRest(at: environment.monotonicMilliseconds)
            checker.endWithServer()
        }
        if !hasDied { server.stop() }
        guard !hasDied else { return (try end(isPowerCut: random.chance(50)), false) }
        totals.stops += 1
        self.server = nil
        if random.chance(50) { _ = try end(isPowerCut: true) } else { disk.killProcess() }
        return (.nothing, true)
    }

    // MARK: The disk

    private func outcome(of operation: DiskOperation) -> SimulatedDisk.OperationOutcome {
        if isWritingCheckpoint || isPreparingSegment, !isNested, random.chance(40) { letOthersGoOn() }
        if isInJournalTurn, !isNested, !isQuiet, !mayBeFull, plan.hasAmpleRoom, random.chance(20) {
            letDatabaseGoOn()
        }
        if disk.hasCrashed { return .crash }
        if let left = operationsLeft {
            operationsLeft = left - 1
            if left <= 0 {
                note("    \(operation.rawValue): the end")
                return operation == .write && random.chance(50)
                    ? .crashWriting(Int.random(in: 0...256, using: &random)) : .crash
            }
        }
        guard !isQuiet, plan.failuresInTenThousand > 0,
            Int.random(in: 0..<10_000, using: &random) < plan.failuresInTenThousand
        else {
            note("    \(operation.rawValue)")
            return .succeed
        }
        hasFailedOperation = true
        totals.failedOperations += 1
        if operation == .read, random.chance(50) {
            note("    \(operation.rawValue) is cut short")
            return .readHalf
        }
        // Room for what is to be written was taken before: only these may find none.
        let mayBeFull =
            operation == .reserve || operation == .open && server != nil
            || isWritingCheckpoint && !isNested && operation == .write
        // While the server runs, these may find no descriptor.
        let mayLackDescriptors = (operation == .open || operation == .list) && server != nil
        let number: Int32 =
            mayLackDescriptors && random.chance(50)
            ? SimulatedDisk.noDescriptor : mayBeFull && random.chance(70) ? 28 : 5
        note("    \(operation.rawValue) fails with \(number)")
        return .fail(number)
    }

    /// A checkpoint is written, or a segment prepared, while everything else goes on.
    private func letOthersGoOn() {
        isNested = true
        defer { isNested = false }
        for _ in 0..<Int.random(in: 1...3, using: &random) where !hasDied {
            if random.chance(50) { databaseTurn() } else { journalTurn() }
        }
    }

    /// The journal thread waits for the disk; meanwhile the database thread goes on, and clients hear what it
    /// lets out. Not where it might have to wait for the journal thread itself.
    private func letDatabaseGoOn() {
        isNested = true
        defer { isNested = false }
        databaseTurn()
        do { try hear() } catch { foundMeanwhile = error }
    }
}

import Logging
import PandoBytes
import PandoEngine
import PandoJournal
import PandoREST
import PandoReactor
import PandoRules
import PandoTree
import PandoWire

/// The database thread: owns every database, runs their engines, and lets nothing out before it is durable.
///
///     loops ──▶ mailbox ──▶ decide, commit ──▶ entries ──▶ journal thread
///                                   │                            │ durable(ticket)
///                                   ▼                            ▼
///                               outputs ──── held until their ticket ────▶ loops
///
/// Time is stamped here, so its order is the order of commits. One burst of messages is one batch: one
/// hand-over to the journal, one to each loop.
///
/// Confined to whoever is inside the ``DatabaseExecutor``: the database thread, as this is written everywhere, a
/// loop that has little to ask, or the journal thread, for ``release(upTo:)`` alone.
final class DatabaseHost {
    /// Outputs of one batch, and what they wait for.
    private struct Held {
        var ticket: UInt64
        var batches: [OutputBatch]
        /// Bytes of requests that are answered by it.
        var byteCount: Int
    }

    /// Bytes that the onDisconnect writes of one session may take in the log.
    static let queuedByteLimit = 16 << 20
    /// Bytes of one record that a request may ask for: what 16 MiB of JSON come to when it is written out,
    /// and less than an entry of the journal may have.
    private static let recordByteLimit = 256 << 20

    let surroundings: Environment
    let configuration: Configuration
    /// Bytes of requests that are not answered yet.
    private let congestion: BackpressureGate
    /// Bytes of outputs that loops have not dealt out yet.
    private let outputCongestion: BackpressureGate
    /// Where outputs go, one for each loop.
    private let loops: [Mailbox<OutputBatch>]
    /// Outputs that loops have dealt out, empty.
    private let spareOutputs: BufferPool<OutputBatch>
    /// The loop on whose thread a burst is taken; nil on the database thread and the journal thread.
    private var currentLoop: Int?
    /// Nil when everything is kept in memory: then all is as durable as it gets at once.
    let journal: JournalQueue?

    /// By name.
    var databases: [String: Database] = [:]
    /// One of them, which ``database(named:)`` has found last: none goes while the server runs.
    var lastNamed: Database?
    /// Rules that `--rules` gives, by namespace; also for those that are made later.
    var fileRules: [String: Ruleset]
    var nextNamespace: UInt32
    var sessions = SessionTable()
    var publicSessions: [PublicSessionID: SessionID] = [:]
    /// Who watches the operations on a database, by its number. No entry is empty.
    var profilers: [UInt32: [SessionID]] = [:] { didSet { isProfiled = !profilers.isEmpty } }
    /// Somebody watches some database. Apart, since every command asks.
    private(set) var isProfiled = false
    /// When the messages under way came; kept only for who watches.
    private(set) var burstBegan = MonotonicTime(nanoseconds: 0)
    let clock: WallClock
    var pushIDs = PushIDGenerator()

    /// The last entry handed to the journal, and the last known to be durable.
    private var ticket: UInt64 = 0
    private var durableTicket: UInt64 = 0
    private var entries = LogBatch()
    /// Where the log stood when this host began, and how many records it has been handed since.
    let origin: JournalOrigin
    private(set) var loggedRecordCount: UInt64 = 0
    /// Bytes of log that the journal was or will be handed, in all.
    var loggedByteCount = 0
    /// What cannot be refused, and waits because the log has no room: the ends of sessions, whose
    /// onDisconnect writes come when there is room, or at the next start, and what revocations drop of such
    /// writes. The oldest first.
    var endings: [(session: SessionID, database: Database, operation: Operation)] = []
    /// Bytes of log that the oldest of ``endings`` needs; 0 where it was not tried yet.
    var endingByteCount = 0
    /// Bytes of the entry for which the log had no room, the last time.
    private(set) var refusedByteCount = 0
    /// The journal waits for a snapshot.
    private var isCheckpointDue = false
    /// Ends of sessions that waited for room may be done.
    private var isSpaceAvailable = false
    var encoder: OutputEncoder
    /// What sessions that read slowly are not sent yet.
    var coalescer = PushCoalescer()
    var denials: DenialLog
    private var answeredByteCount = 0
    /// Oldest first; tickets ascend.
    private var held: [Held] = []
    /// Data of the request under way that need not be printed for the log any more.
    var printed: PrintedNodes?
    /// Messages not yet taken.
    let backlog = RequestBacklog()
    /// Has another thread look at all of a large node.
    let startPreparation: @Sendable (PreparationJob) -> Void
    /// Has that other thread leave what it was to do for a session, which has ended.
    let abandonPreparation: @Sendable (SessionID) -> Void
    /// Has another thread free what takes long to free: large nodes, listens of a session that had many.
    let free: @Sendable (consuming any Sendable) -> Void
    /// Listens of sessions that have ended and had many.
    var endingListens: [SessionID: (database: Database, listens: EndingListens)] = [:]
    /// Posts a message to this host, from any thread.
    let post: @Sendable (DatabaseMessage) -> Void
    /// Too much has been put out that the disk or the loops have not taken.
    private var isWaiting = false

    /// Outputs of one batch: what goes to the loops at once, and is held for one sync.
    private static let batchByteLimit = 1 << 20
    /// Bytes of entries: what goes to the journal at once.
    private static let entryBatchByteLimit = 8 << 20
    var isDraining = false
    private var isLastCheckpointPosted = false
    private var onDrained: (@Sendable () -> Void)?

    init(
        _ configuration: Configuration, recovered: RecoveredState, journal: JournalQueue?,
        congestion: BackpressureGate,
        outputCongestion: BackpressureGate, loops: [Mailbox<OutputBatch>],
        spareOutputs: BufferPool<OutputBatch>,
        surroundings: Environment = .machine, logger: Logger,
        startPreparation: @escaping @Sendable (PreparationJob) -> Void,
        abandonPreparation: @escaping @Sendable (SessionID) -> Void = { _ in },
        free: @escaping @Sendable (consuming any Sendable) -> Void = { _ in },
        post: @escaping @Sendable (DatabaseMessage) -> Void
    ) {
        self.abandonPreparation = abandonPreparation
        self.free = free
        self.startPreparation = startPreparation
        self.post = post
        self.surroundings = surroundings
        self.configuration = configuration
        self.congestion = congestion
        self.outputCongestion = outputCongestion
        self.loops = loops
        self.spareOutputs = spareOutputs
        self.journal = journal
        origin = journal?.origin ?? JournalOrigin(memoryOf: surroundings)
        nextNamespace = recovered.nextNamespace
        fileRules = recovered.fileRules
        clock = WallClock(notBefore: recovered.lastTime, in: surroundings)
        encoder = OutputEncoder(loopCount: loops.count)
        denials = DenialLog(logger)
        for database in recovered.databases.values { databases[database.name] = database }
    }

    /// Takes one burst of messages, or as much of what waits as takes a few milliseconds: see
    /// ``leavesSomething``. News of the disk and the loops counts at once; the others wait their turn.
    /// - Parameter loop: The loop on whose thread this runs, if any: it looks into its mailbox without being
    ///   rung for.
    func receive(_ batch: inout [DatabaseMessage], onLoop loop: Int? = nil) {
        keep(&batch, onLoop: loop)
        clock.now()
        if isSpaceAvailable { finishEndings() }
        isSpaceAvailable = false
        takeBacklog()
    }

    /// Hears the news in a burst, and keeps the rest of it until ``receive(_:onLoop:)`` is called again.
    func keep(_ batch: inout [DatabaseMessage], onLoop loop: Int? = nil) {
        currentLoop = loop
        for message in batch {
            switch message {
            case .durable(let ticket): durableTicket = max(durableTicket, ticket)
            case .proceed: isWaiting = false
            case .checkpointDue: isCheckpointDue = true
            case .spaceAvailable: isSpaceAvailable = true
            default: break
            }
        }
        backlog.add(&batch, databaseOf: databaseID)
        noteDropped()
        if isProfiled { burstBegan = .now }
        release()
    }

    /// The database thread has something to do also where nothing new comes.
    var leavesSomething: Bool { isSpaceAvailable || backlog.hasNext && !isWaiting }

    /// The database that a message is about; 0 where it is about none that exists.
    private func databaseID(of message: DatabaseMessage) -> RequestBacklog.DatabaseID {
        switch message {
        case .request(let request): sessions[request.session]?.database.id ?? 0
        case .rest(_, let call, _): databases[call.namespace ?? NamespaceName.standard]?.id ?? 0
        case .open(_, let request): databases[request.namespace ?? NamespaceName.standard]?.id ?? 0
        case .identity(let session, _), .answer(let session, _, _), .windowMark(let session),
            .revoked(let session, _),
            .lagging(let session), .caughtUp(let session), .closed(let session):
            sessions[session]?.database.id ?? 0
        case .rules, .durable, .checkpointDue, .spaceAvailable, .proceed, .prepared, .drain: 0
        }
    }

    private func takeBacklog() {
        var turn = Turn(began: surroundings.workTime)
        takeBurst(&turn)
        takeInTurn(&turn)
        noteDropped()
        seal()
    }

    /// Takes a burst in the order of arrival; the rest of one that takes long is left to be taken in turn.
    private func takeBurst(_ turn: inout Turn) {
        // In a local variable: the compiler then omits the checks and copies that a property needs. Nothing
        // comes before this returns.
        var burst: [DatabaseMessage] = []
        backlog.takeBurst(&burst)
        let lookMask = surroundings.lookMask
        var takenCount = 0
        while takenCount < burst.count, !isWaiting {
            // It leaves the burst: its parts are not counted anew.
            var message = DatabaseMessage.proceed
            swap(&message, &burst[takenCount])
            takenCount += 1
            let isLight = message.isLight
            let progress = take(message, isLight: isLight)
            if encoder.byteCount > Self.batchByteLimit || entries.byteCount > Self.entryBatchByteLimit {
                seal()
            }
            if case .suspended(let session, let database) = progress {
                backlog.returnBurst(&burst, from: takenCount)
                return backlog.suspend(session, databaseOf: databaseID, database: database)
            }
            guard !isLight || takenCount & lookMask == 0 else { continue }
            clock.now()
            _ = turn.look(surroundings.workTime)
            guard turn.elapsed > Self.burstTurn else { continue }
            backlog.returnBurst(&burst, from: takenCount)
            return backlog.beginFairness(databaseOf: databaseID)
        }
        backlog.returnBurst(&burst, from: takenCount)
    }

    /// Takes what waits in turn, for a while.
    private func takeInTurn(_ turn: inout Turn) {
        while turn.elapsed <= Self.fairTurn, !isWaiting, let message = backlog.next() {
            var resumed: SessionID?
            let isLight = message.isLight
            switch take(message, isLight: isLight) {
            case .done: break
            case .suspended(let session, let database):
                backlog.suspend(session, databaseOf: databaseID, database: database)
            case .resumed(let session):
                backlog.resume(session)
                resumed = session
            }
            if encoder.byteCount > Self.batchByteLimit || entries.byteCount > Self.entryBatchByteLimit {
                seal()
            }
            clock.now()
            let work = turn.look(surroundings.workTime)
            if let resumed { backlog.charge(work, to: resumed) }
            backlog.finish(work: work)
        }
    }

    /// Counts requests that were dropped as answered, and has left what their sessions waited for.
    private func noteDropped() {
        answeredByteCount += backlog.takeDroppedByteCount()
        for session in backlog.takeEndedSessions() { abandonPreparation(session) }
    }

    /// What one call of ``takeBacklog()`` has done.
    private struct Turn {
        let began: MonotonicTime
        private var lastLook: MonotonicTime

        init(began: MonotonicTime) {
            self.began = began
            lastLook = began
        }

        /// Since it began, up to the last look. Nanoseconds, as all times here.
        var elapsed: UInt64 { lastLook.nanoseconds &- began.nanoseconds }

        /// - Returns: Time since the last look.
        mutating func look(_ now: MonotonicTime) -> Int {
            let work = (now - lastLook).nanosecondCount
            lastLook = max(now, lastLook)
            return Int(clamping: work)
        }
    }

    /// Nanoseconds after which a burst is not taken in the order of arrival any more: a thousand small writes
    /// in one burst take three milliseconds, and are answered together.
    static let burstTurn: UInt64 = 4_000_000
    /// Nanoseconds after which what has arrived meanwhile gets its turn beside what waits.
    private static let fairTurn: UInt64 = 1_000_000

    /// What became of a message.
    private enum Progress {
        case done
        /// It waits for something that is made elsewhere, and everything behind it of its session does.
        case suspended(SessionID, RequestBacklog.DatabaseID)
        /// It was what a suspended session waited for.
        case resumed(SessionID)
    }

    /// - Parameter isLight: Nothing has to be looked at first.
    private func take(_ message: consuming DatabaseMessage, isLight: Bool) -> Progress {
        // Before anybody else writes: theirs would have come first.
        if !endings.isEmpty, hasRoomForEnding { finishEndings() }
        switch consume message {
        case .request(let request):
            if !isLight, let database = suspendForPreparation(request) {
                return .suspended(request.session, database)
            }
            answeredByteCount += request.byteCount
            handle(request)
        case .rest(let session, let call, let byteCount):
            if !isLight, let database = suspendForPreparation(call, byteCount: byteCount, of: session) {
                return .suspended(session, database)
            }
            answeredByteCount += byteCount
            answer(call, byteCount: byteCount, to: session)
            if !isLight, case .data(_, let body?, _) = call.action { freeElsewhere(body.largeNodes) }
        case .answer(let session, let answer, let byteCount):
            answeredByteCount += byteCount
            encoder.answer(answer, to: session)
        case .windowMark(let session): encoder.returnWindowMark(to: session)
        case .lagging(let session): if sessions[session] != nil { coalescer.begin(session) }
        case .caughtUp(let session): if let backlog = coalescer.end(session) { send(backlog, to: session) }
        case .open(let session, let request): open(session, request)
        case .identity(let session, let credential): change(session, to: credential)
        case .revoked(let session, let signIns): revoke(signIns, of: session)
        case .closed(let session):
            if endSomeListens(of: session) { break }
            if let database = suspendForPreparation(endOf: session) { return .suspended(session, database) }
            end(session)
        case .rules(let rulesets): load(rulesets)
        case .prepared(let prepared):
            guard finish(prepared) else { return .done }
            answeredByteCount += prepared.byteCount
            // Not here: what was printed may be large.
            if case .printed = prepared.preparation { free(prepared) }
            return .resumed(prepared.session)
        // Noted when it arrived.
        case .durable, .proceed, .checkpointDue, .spaceAvailable: break
        case .drain(let body):
            for session in sessions.ids {
                encoder.close(session, .goingAway)
                end(session)
            }
            isDraining = true
            onDrained = body
        }
        return .done
    }

    // MARK: Running commands

    /// Runs a command, writes it down, and encodes what it causes.
    /// - Returns: The reply; nil when nothing was done.
    @discardableResult
    func run(
        _ operation: consuming Operation, _ session: SessionID, _ credential: Credential, number: Int64,
        byteCount: Int
    ) -> CommandResult? {
        guard let database = sessions[session]?.database else { return nil }
        // Kept only for who watches: else it is handed on, not copied.
        let watched = profiledTime.map { (operation: copy operation, began: $0) }
        var reply: CommandResult?
        do throws(Refusal) {
            reply = try perform(operation, session, credential, in: database)
            // What has been committed before an answer comes before it (realtime §6.1, §6.3, §11.2).
            if !coalescer.isEmpty { catchUp(session) }
            if let reply { encoder.encode(reply, number, to: session) }
        } catch {
            switch error {
            case .tooLarge: encoder.answer(.tooBig(number), to: session)
            case .diskFull: encoder.answer(.diskFull(number), to: session)
            }
        }
        if let watched {
            tell(watched.operation, reply, byteCount: byteCount, on: database, began: watched.began)
        }
        return reply
    }

    /// Runs a command, writes it down, and encodes the pushes it causes.
    /// - Parameters:
    ///   - paths: What the command replaces, where that is bounded.
    ///   - byteLimit: Bytes that they may hold, about; nil for any number.
    /// - Returns: The reply; nil for the end of a session.
    /// - Throws: Nothing was done.
    func perform(
        _ operation: consuming Operation, _ session: SessionID, _ credential: Credential,
        in database: Database,
        replacing paths: [Path] = [], atMost byteLimit: Int? = nil
    ) throws(Refusal) -> CommandResult? {
        let isListen = if case .listen = operation { true } else { false }
        let time = clock.last
        // Handed on, as the delta below: their parts are not counted anew.
        var delta = database.engine.decide(
            Command(session: session, credential: credential, time: time, operation: operation))
        if case .denied(let operation) = delta.kind {
            let command = Command(session: session, credential: credential, time: time, operation: operation)
            denials.note(command, in: database)
        }
        if case .ok? = delta.result, var left = byteLimit {
            let root = database.engine.root
            // Only now: who may not write does not learn how much there is.
            if paths.contains(where: { root.value(at: $0).weigh(&left) }) { throw .tooLarge }
        }
        let savepoint = try write(&delta, in: database, at: time)
        let effects = database.engine.commit(consume delta)
        if effects.isRedundant, let savepoint { rollback(to: savepoint) }
        if let replaced = database.engine.removeReplacedNodes() { free(replaced) }
        guard !effects.pushes.isEmpty else { return effects.result }
        if coalescer.isEmpty || isListen {
            encoder.encode(effects.pushes)
        } else {
            encoder.encode(coalescer.hold(effects.pushes, in: database.engine.root))
        }
        // What a listen brings to who listens is told with it.
        if isListen { return effects.result }
        tell(effects.pushes, on: database)
        return effects.result
    }

    /// Sends a session that lags what it is behind with.
    func catchUp(_ session: SessionID) {
        if let backlog = coalescer.take(of: session) { send(backlog, to: session) }
    }

    /// Sends a session what it is behind with.
    private func send(_ backlog: PushCoalescer.Backlog, to session: SessionID) {
        guard let database = sessions[session]?.database, !backlog.isEmpty else { return }
        encoder.encode(database.engine.catchUp(session, paths: backlog.paths, tags: backlog.tags))
    }

    /// Writes a delta down, as one entry.
    /// - Returns: Where the entry begins; nil when there is nothing to write.
    /// - Throws: Nothing is written.
    private func write(_ delta: inout Delta, in database: Database, at time: Int64) throws(Refusal)
        -> LogBatch.Savepoint?
    {
        guard journal != nil else { return nil }
        let recordCount = delta.recordCount(hadQueue: database.engine.hasQueue(delta.session))
        guard recordCount > 0 else { return nil }
        let savepoint = entries.append(
            &delta, recordCount: recordCount, namespace: database.id, timestamp: time, using: &printed)
        // The end of a session cannot be refused for its size, nor for the room that is kept for it.
        let mayBeRefused = delta.result != nil
        let byteCount = entries.byteCount - savepoint.byteCount
        if mayBeRefused, byteCount > Self.recordByteLimit,
            entries.longestPayloadByteCount(since: savepoint) > Self.recordByteLimit
        {
            entries.rollback(to: savepoint)
            throw .tooLarge
        }
        guard hasRoom(for: byteCount + (mayBeRefused ? configuration.spareRoomByteCount : 0)) else {
            entries.rollback(to: savepoint)
            refusedByteCount = byteCount
            // What is there already takes no room: a client that sends again what is durable hears so.
            if database.engine.isRedundant(delta) { return nil }
            throw .diskFull
        }
        loggedByteCount += byteCount
        loggedRecordCount += UInt64(recordCount)
        ticket += 1
        return savepoint
    }

    /// Takes back the entry of one record that was written last: it has changed nothing.
    private func rollback(to savepoint: LogBatch.Savepoint) {
        // Or an acknowledgement would leave with the ticket of another entry.
        precondition(
            entries.recordCount(since: savepoint) == 1, "the last entry has left, or is not the last")
        loggedByteCount -= entries.byteCount - savepoint.byteCount
        loggedRecordCount -= 1
        ticket -= 1
        entries.rollback(to: savepoint)
    }

    /// Whether the log is sure to take so many bytes more.
    func hasRoom(for byteCount: Int) -> Bool {
        journal?.hasRoom(for: loggedByteCount + byteCount) ?? true
    }

    /// Writes a record down.
    /// - Precondition: There is room.
    func write(_ record: JournalRecord) {
        guard journal != nil else { return }
        let savepoint = entries.savepoint
        entries.append(entry: [record])
        loggedByteCount += entries.byteCount - savepoint.byteCount
        ticket += 1
        loggedRecordCount += 1
    }

    // MARK: The durable barrier

    /// Ends a batch: its entries go to the journal, its outputs wait for the last of them.
    private func seal() {
        if let journal, !entries.isEmpty { journal.post(&entries, upTo: ticket) }
        if let journal, isCheckpointDue || wantsLastCheckpoint {
            isCheckpointDue = false
            // Everything committed so far is in the entries before it, and nothing else.
            journal.post(Snapshot(databases.values, nextNamespace: nextNamespace, time: clock.now()))
        }
        if journal == nil { durableTicket = ticket }
        let batches = encoder.takeBatches(refillingFrom: spareOutputs)
        if answeredByteCount > 0 || batches.contains(where: { !$0.isEmpty }) {
            switch outputCongestion.add(batches.reduce(0) { $0 + $1.byteCount }) {
            case .goOn: break
            case .pause: isWaiting = true
            case .tellAll: isWaiting = false
            }
            held.append(Held(ticket: ticket, batches: batches, byteCount: answeredByteCount))
            answeredByteCount = 0
        }
        release()
        if let onDrained, durableTicket == ticket, held.isEmpty {
            self.onDrained = nil
            onDrained()
        }
    }

    /// All sessions have ended, and the next start would have much log to read.
    private var wantsLastCheckpoint: Bool {
        guard onDrained != nil, !isLastCheckpointPosted, journal?.wantsLastCheckpoint == true else {
            return false
        }
        isLastCheckpointPosted = true
        return true
    }

    /// The journal thread: everything up to this ticket is as durable as was asked for. Lets out what waits
    /// for it.
    /// - Returns: false, and nothing is done, while the server stops: then the database thread has more to do
    ///   about it.
    func release(upTo ticket: UInt64) -> Bool {
        guard !isDraining else { return false }
        currentLoop = nil
        durableTicket = max(durableTicket, ticket)
        release()
        return true
    }

    /// Lets out what has become durable, in order.
    private func release() {
        var count = 0
        var resumes = false
        while count < held.count, held[count].ticket <= durableTicket {
            if congestion.remove(held[count].byteCount) { resumes = true }
            for loop in held[count].batches.indices where !held[count].batches[loop].isEmpty {
                // Out of what is held: the loop is alone with it.
                var batch = OutputBatch()
                swap(&batch, &held[count].batches[loop])
                post(consume batch, to: loop)
            }
            count += 1
        }
        held.removeFirst(count)
        if resumes {
            for loop in loops.indices { post(OutputBatch(items: [.resumeReading]), to: loop) }
        }
    }

    /// Takes out what waits to become durable, in the order of its decision: for a checker that has to know
    /// what a server had decided when it died.
    func takeHeld() -> [OutputBatch] {
        defer { held = [] }
        return held.flatMap(\.batches)
    }

    private func post(_ batch: consuming OutputBatch, to loop: Int) {
        loops[loop].post(consume batch, signals: loop != currentLoop)
    }
}

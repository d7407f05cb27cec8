import Logging
import PandoEngine
import PandoJournal
import PandoReactor
import PandoStorage
import PandoTime

/// Hosts all databases: processes messages in the order of arrival, or in fair turns where that takes long,
/// and releases no output before the journal entries that it depends on are durable.
///
///     connections ──▶ RequestBacklog ──▶ CommandProcessor, RESTHandler … ──▶ journal entries ──▶ journal thread
///                                                      │                                        │ durable
///                                                      ▼                                        ▼
///                                                   outputs ─────────▶ DurabilityGate ─────▶ OutputQueues
///
/// Times are stamped here, so their order is the order of commits. What is processed in one go is one batch:
/// one post to the journal thread, one to each queue of outputs.
///
/// Used by one thread at a time, through the ``DatabaseExecutor``: the database thread, a loop that has
/// little to ask, or the journal thread, which calls ``release(upTo:)`` alone.
package final class DatabaseHost {
    /// Bytes of requests that were not processed yet.
    let requestBackpressure: Backpressure
    let outputs: OutputQueues
    /// The queue of outputs whose thread runs this now; nil on the database thread and the journal thread.
    var currentQueue: Int?

    let processor: CommandProcessor
    let sessions: SessionManager
    let access: AccessManager
    let rest: RESTHandler
    let preparer: RequestPreparer
    let backlog = RequestBacklog()
    let post: @Sendable (DatabaseMessage) -> Void
    /// Sessions that were suspended for something else when the check of their listens began.
    private var suspendedBefore: Set<SessionID> = []
    /// What was prepared for sessions whose listens are being checked: it is executed when they are.
    var heldPreparations: [SessionID: PreparedRequest] = [:]

    var gate = DurabilityGate<[OutputBatch]>()
    /// What the journal thread reports while the executor is locked; nil where it only posts messages.
    var durableTicket: DurableTicket?
    /// Bytes of requests that were processed since the last ``seal()``.
    var processedByteCount = 0
    /// Whether too many outputs wait for the disk or for delivery: then no request is processed.
    var isWaiting = false
    /// The journal thread waits for a snapshot.
    var isCheckpointDue = false
    /// A scheduled backup waits for a snapshot.
    var backupRequest: (@Sendable (CheckpointJob) -> Void)?
    /// The disk has space again: operations that wait for it may be performed.
    private var isSpaceAvailable = false

    /// Messages until the one that is measured next.
    var usageCountdown: Int

    /// When the last burst began.
    var burstBegan = MonotonicTime(nanoseconds: .max)
    /// Messages that were processed since the clock was read.
    private var unmeasuredCount = 0
    var isDraining = false
    var isFinalCheckpointPosted = false
    var onDrained: (@Sendable () -> Void)?

    /// Nanoseconds after which a burst is not processed in the order of arrival any more: a thousand small
    /// writes in one burst take three milliseconds, and their replies leave together.
    package static let burstTurn: UInt64 = 4_000_000
    /// Nanoseconds of work of one session, and of one database, before the turn of the next one.
    package static var quantum: UInt64 { UInt64(RequestBacklog.quantum) }
    /// Nanoseconds after which no more light requests of a session are processed in one turn.
    private static let lightRunDuration: UInt64 = 50_000
    /// Nanoseconds after which what has arrived meanwhile gets its turn beside what waits.
    private static let fairTurn: UInt64 = 1_000_000

    /// - Parameters:
    ///   - journal: Nil where everything is kept in memory: then everything counts as durable at once.
    ///   - requestBackpressure: The thread that posts a request adds its bytes. The host removes them when
    ///     the output of the request is released.
    ///   - services: Their `post` posts a message to this host.
    package init(
        _ options: DatabaseOptions, recovered: RecoveredState, journal: JournalQueue?,
        requestBackpressure: Backpressure, outputs: OutputQueues, services: DatabaseServices
    ) {
        self.requestBackpressure = requestBackpressure
        self.outputs = outputs
        processor = CommandProcessor(
            options, recovered: recovered, journal: journal, queueCount: outputs.count, services)
        // In a simulation the clock counts its readings.
        usageCountdown = services.environment.hasWorkers ? 1 : .max
        post = services.post
        sessions = SessionManager(processor, post: post)
        access = AccessManager(processor, post: post)
        rest = RESTHandler(processor, access)
        preparer = RequestPreparer(
            processor, start: services.preparation.start, cancel: services.preparation.cancel, post: post)
        for database in recovered.databases.values {
            processor.configure(database)
            processor.indexes.startWork(in: database)
        }
        sessions.endUnended(recovered.unendedSessions)
        // Has the first of them tried, before a client writes.
        if !sessions.isIdle { post(.storage(.spaceAvailable)) }
    }

    // MARK: Receiving

    /// Adds a burst of messages, and processes as much of what waits as takes a few milliseconds: see
    /// ``hasWork``. Events of the disk, and deliveries, count at once; the others wait for their turn.
    /// - Parameters:
    ///   - batch: Is left empty.
    ///   - queue: The queue of outputs whose thread calls this, if any: it looks into its queue next, without
    ///     being woken.
    package func receive(_ batch: inout [DatabaseMessage], onQueue queue: Int? = nil) {
        enqueue(&batch, onQueue: queue)
        processor.clock.now()
        if isSpaceAvailable { sessions.performDeferred() }
        isSpaceAvailable = false
        processBacklog()
    }

    /// Notes the events in a burst, and keeps the rest of it until ``receive(_:onQueue:)`` is called.
    func enqueue(_ batch: inout [DatabaseMessage], onQueue queue: Int? = nil) {
        currentQueue = queue
        var overtakes = false
        for message in batch {
            switch message {
            case .storage(.durable(let ticket)): confirm(upTo: ticket)
            case .storage(.checkpointDue): isCheckpointDue = true
            case .storage(.spaceAvailable): isSpaceAvailable = true
            case .outputsDelivered: isWaiting = false
            case .credentialEnded, .revoked: overtakes = true
            default: break
            }
        }
        backlog.add(&batch, databaseOf: databaseID)
        // A burst that waits is processed in the order of arrival.
        if overtakes, isWaiting { backlog.beginFairness(databaseOf: databaseID) }
        noteDropped()
        processor.profiler.burstArrived()
        release()
    }

    /// Whether ``receive(_:onQueue:)`` is to be called again although nothing new arrives.
    package var hasWork: Bool { isSpaceAvailable || backlog.hasNext && !isWaiting }

    /// Whether a loop may process these messages itself: nothing waits before them, and none may take long.
    func isLight(_ batch: [DatabaseMessage]) -> Bool {
        backlog.isIdle && sessions.isIdle && LightWork.isLight(batch, for: processor)
    }

    /// The database that a message is about; 0 where it is about none that exists.
    private func databaseID(of message: DatabaseMessage) -> RequestBacklog.DatabaseID {
        switch message {
        case .request(let request): processor.sessions[request.session]?.database.id ?? 0
        case .rest(_, let call, _): processor.databases[call.namespace]?.id ?? 0
        case .open(_, let request): processor.databases[request.namespace]?.id ?? 0
        case .indexed(let name, _): processor.databases[name]?.id ?? 0
        case .continueEnding(let database): database
        case .credentialChanged(let session, _, _), .credentialEnded(let session, _),
            .reply(let session, _, _),
            .windowMark(let session), .revoked(let session, _, _), .lagging(let session),
            .caughtUp(let session), .closed(let session):
            processor.sessions[session]?.database.id ?? 0
        case .rules, .listenChecks, .storage, .outputsDelivered, .prepared, .drain, .statistics, .usage,
            .backup, .trees:
            0
        }
    }

    /// Counts the bytes of dropped requests as processed, and cancels what their sessions waited for.
    private func noteDropped() {
        processedByteCount += backlog.takeDroppedByteCount()
        for session in backlog.takeEndedSessions() { preparer.cancelJobs(of: session) }
    }

    // MARK: Turns

    private func processBacklog() {
        var turn = TurnTimer(began: processor.environment.workTime)
        burstBegan = turn.began
        sessions.beginBatch()
        processBurst(&turn)
        processInTurn(&turn)
        noteDropped()
        seal()
        // Readings that were made anyway: a turn of a few small requests counts as the shortest.
        processor.metrics.turns.observe(turn.elapsed)
        unmeasuredCount = 0
    }

    /// Processes a burst in the order of arrival; the rest of one that takes long is left to be processed in
    /// turn.
    private func processBurst(_ turn: inout TurnTimer) {
        // In a local variable: the compiler then omits the checks and copies that a property needs. Nothing
        // arrives before this returns.
        var burst: [DatabaseMessage] = []
        backlog.takeBurst(&burst)
        let clockReadMask = processor.environment.clockReadMask
        var processedCount = 0
        while processedCount < burst.count, !isWaiting {
            // Moved out of the burst: its parts are not retained.
            let message = exchange(&burst[processedCount], with: .outputsDelivered)
            processedCount += 1
            if message.isLight, processedCount & clockReadMask != 0 {
                let progress = process(consume message, isLight: true)
                if finishMessage(), case .done = progress { continue }
                guard continueBurst(after: progress, about: nil, from: processedCount, of: &burst, &turn)
                else { return }
            } else {
                let subject = processor.subject(of: message)
                let isLight = message.isLight
                let progress = process(consume message, isLight: isLight)
                finishMessage()
                guard continueBurst(after: progress, about: subject, from: processedCount, of: &burst, &turn)
                else { return }
            }
        }
        let isDone = processedCount == burst.count
        backlog.returnBurst(&burst, from: processedCount)
        // Outputs wait for their delivery: what arrives until then must not wait behind all of this.
        if !isDone, turn.elapsed > Self.quantum { backlog.beginFairness(databaseOf: databaseID) }
    }

    /// Counts a message that was processed, and ends the batch where it is large.
    /// - Returns: false where the message may have taken long, because it had many recipients.
    @inline(__always) @discardableResult
    private func finishMessage() -> Bool {
        sealIfLarge()
        unmeasuredCount += 1
        // A small write may have many listeners.
        return !processor.encoder.takeMayHaveTakenLong()
    }

    /// Follows what became of a message of a burst, reads the clock, and releases what is durable.
    /// - Parameters:
    ///   - subject: What the message was about, where that is known.
    ///   - processedCount: How many messages of the burst were processed.
    /// - Returns: Whether the burst goes on; if not, what is left of it was returned.
    private func continueBurst(
        after progress: Progress, about subject: CommandProcessor.Subject?, from processedCount: Int,
        of burst: inout [DatabaseMessage], _ turn: inout TurnTimer
    ) -> Bool {
        switch progress {
        case .done: break
        case .suspended, .suspendedForChecks, .resumed, .checked:
            backlog.returnBurst(&burst, from: processedCount)
            follow(progress)
            return false
        }
        _ = measure(subject, &turn)
        guard turn.elapsed > Self.burstTurn else { return true }
        backlog.returnBurst(&burst, from: processedCount)
        backlog.beginFairness(databaseOf: databaseID)
        return false
    }

    /// Reads the clock, notes how long the messages since the last reading took, and releases what is
    /// durable.
    /// - Returns: Nanoseconds since the last reading.
    private func measure(_ subject: CommandProcessor.Subject?, _ turn: inout TurnTimer) -> Int {
        processor.clock.now()
        let work = turn.readClock(processor.environment.workTime)
        processor.noteWork(work, of: subject, requestCount: unmeasuredCount)
        unmeasuredCount = 0
        releaseReported()
        return work
    }

    /// Processes what waits, in fair turns, for a while.
    private func processInTurn(_ turn: inout TurnTimer) {
        guard backlog.hasNext else { return }
        turn.readProcessorTime(by: processor.environment)
        while turn.elapsed <= Self.fairTurn, !isWaiting, let message = backlog.next() {
            let subject = processor.subject(of: message)
            let isLight = message.isLight
            var progress = process(message, isLight: isLight)
            unmeasuredCount += 1
            if isLight { processLight(after: &progress, turn) }
            follow(progress)
            let work = measure(subject, &turn)
            let charge = turn.work(work, by: processor.environment)
            switch progress {
            case .resumed(let session), .checked(let session?, _): backlog.charge(charge, to: session)
            case .done, .suspended, .suspendedForChecks, .checked(nil, _): break
            }
            backlog.finish(work: charge)
            // No session is charged with the end of the batch of all.
            if sealIfLarge() { _ = turn.readClock(processor.environment.workTime) }
        }
    }

    /// Processes some of the light requests behind one of the same session. To choose the session and to read
    /// the clock for each would add half of what the requests take themselves.
    /// - Parameter progress: What became of the first, and then of the last.
    private func processLight(after progress: inout Progress, _ turn: TurnTimer) {
        var count = 1
        while count < processor.environment.lightRunCount, case .done = progress, !isWaiting,
            // A small write may have many listeners.
            !processor.encoder.takeMayHaveTakenLong(),
            // Rules may take milliseconds for a light request. After 1, 2, 4 and 8 of them.
            count & (count - 1) != 0
                || !turn.hasWorked(longerThan: Self.lightRunDuration, by: processor.environment),
            let message = backlog.nextLight()
        {
            progress = process(message, isLight: true)
            unmeasuredCount += 1
            count += 1
        }
    }

    /// Suspends and resumes the sessions that a message was about. Not while a burst is taken out of the
    /// backlog.
    private func follow(_ progress: Progress) {
        switch progress {
        case .done: break
        case .suspended(let session, let database):
            backlog.suspend(session, databaseOf: databaseID, database: database)
        case .suspendedForChecks: suspendForChecks()
        case .resumed(let session):
            backlog.resume(session)
            // It may have brought new rules.
            if access.hasUnsuspended { suspendForChecks() }
        case .checked(_, let finished): for session in finished { resumeAfterCheck(session) }
        }
    }

    /// Suspends the sessions whose listens are being checked.
    private func suspendForChecks() {
        for (session, database) in access.takeUnsuspended() {
            if backlog.isSuspended(session) {
                suspendedBefore.insert(session)
            } else {
                backlog.suspend(session, databaseOf: databaseID, database: database)
            }
        }
    }

    /// The listens of a session are checked: it goes on, unless it waits for something else.
    private func resumeAfterCheck(_ session: SessionID) {
        let wasSuspended = suspendedBefore.remove(session) != nil
        if let prepared = heldPreparations.removeValue(forKey: session) {
            post(.prepared(prepared))
        } else if !wasSuspended {
            backlog.resume(session)
        }
    }
}

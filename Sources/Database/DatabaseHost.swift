import Logging
import PandoEngine
import PandoJournal
import PandoReactor
import PandoStorage
import PandoTime
import PandoWire

/// Hosts all databases: processes messages in fair turns, and releases no output before the journal
/// entries that it depends on are durable.
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
    private let requestBackpressure: Backpressure
    private let outputs: OutputQueues
    /// The queue of outputs whose thread runs this now; nil on the database thread and the journal thread.
    private var currentQueue: Int?

    let processor: CommandProcessor
    let sessions: SessionManager
    private let access: AccessManager
    private let rest: RESTHandler
    private let preparer: RequestPreparer
    let backlog = RequestBacklog()
    private let post: @Sendable (DatabaseMessage) -> Void
    /// Sessions that were suspended for something else when the check of their listens began.
    private var suspendedBefore: Set<SessionID> = []
    /// What was prepared for sessions whose listens are being checked: it is executed when they are.
    private var heldPreparations: [SessionID: PreparedRequest] = [:]

    private var gate = DurabilityGate<[OutputBatch]>()
    /// Bytes of requests that were processed since the last ``seal()``.
    private var processedByteCount = 0
    /// Whether too many outputs wait for the disk or for delivery: then no request is processed.
    private var isWaiting = false
    /// The journal thread waits for a snapshot.
    private var isCheckpointDue = false
    /// A scheduled backup waits for a snapshot.
    private var backupRequest: (@Sendable (CheckpointJob) -> Void)?
    /// The disk has space again: operations that wait for it may be performed.
    private var isSpaceAvailable = false

    /// Messages until the one that is measured next.
    private var usageCountdown: Int

    /// When the last burst began.
    private var burstBegan = MonotonicTime(nanoseconds: .max)
    /// Messages that were processed since the clock was read.
    private var unmeasuredCount = 0
    private var isDraining = false
    private var isFinalCheckpointPosted = false
    private var onDrained: (@Sendable () -> Void)?

    /// Bytes of outputs, and of journal entries, from which on a batch is sealed before the next message.
    private static let batchByteLimit = 1 << 20
    private static let entryBatchByteLimit = 8 << 20
    /// Nanoseconds after which a burst is not processed in the order of arrival any more: a thousand small
    /// writes in one burst take three milliseconds, and their replies leave together.
    package static let burstTurn: UInt64 = 4_000_000
    /// Nanoseconds of work of one session, and of one database, before the turn of the next one.
    package static var quantum: UInt64 { UInt64(RequestBacklog.quantum) }
    /// Nanoseconds after which what has arrived meanwhile gets its turn beside what waits.
    private static let fairTurn: UInt64 = 1_000_000

    /// - Parameters:
    ///   - journal: Nil where everything is kept in memory: then everything counts as durable at once.
    ///   - requestBackpressure: The thread that posts a request adds its bytes. The host removes them when
    ///     the output of the request is released.
    ///   - preparation: How long computations are left to other threads.
    ///   - post: Posts a message to this host, from any thread.
    package init(
        _ options: DatabaseOptions, recovered: RecoveredState, journal: JournalQueue?,
        requestBackpressure: Backpressure, outputs: OutputQueues,
        environment: Environment = .machine, metrics: DatabaseMetrics = DatabaseMetrics(), logger: Logger,
        preparation: PreparationWorkers,
        post: @escaping @Sendable (DatabaseMessage) -> Void
    ) {
        self.requestBackpressure = requestBackpressure
        self.outputs = outputs
        processor = CommandProcessor(
            options, recovered: recovered, journal: journal, queueCount: outputs.count,
            environment: environment, metrics: metrics, logger: logger, workers: preparation, post: post)
        // In a simulation the clock counts its readings.
        usageCountdown = environment.hasWorkers ? 1 : .max
        sessions = SessionManager(processor, post: post)
        access = AccessManager(processor, post: post)
        self.post = post
        rest = RESTHandler(processor, access)
        preparer = RequestPreparer(
            processor, start: preparation.start, cancel: preparation.cancel, post: post)
        for database in recovered.databases.values {
            processor.configure(database)
            processor.indexes.startWork(in: database)
        }
        sessions.end(recovered.unendedSessions)
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
        for message in batch {
            switch message {
            case .storage(.durable(let ticket)): confirm(upTo: ticket)
            case .storage(.checkpointDue): isCheckpointDue = true
            case .storage(.spaceAvailable): isSpaceAvailable = true
            case .outputsDelivered: isWaiting = false
            default: break
            }
        }
        backlog.add(&batch, databaseOf: databaseID)
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
        case .identity(let session, _), .reply(let session, _, _), .windowMark(let session),
            .revoked(let session, _), .lagging(let session), .caughtUp(let session), .closed(let session):
            processor.sessions[session]?.database.id ?? 0
        case .rules, .listenChecks, .storage, .outputsDelivered, .prepared, .indexed, .drain, .statistics,
            .usage, .backup:
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
            let isLight = message.isLight
            var readsClock = !isLight || processedCount & clockReadMask == 0
            let subject = readsClock ? processor.subject(of: message) : nil
            let progress = process(consume message, isLight: isLight)
            // A small write may have many listeners.
            if processor.encoder.takeHasManyRecipients() { readsClock = true }
            sealIfLarge()
            unmeasuredCount += 1
            switch progress {
            case .done: break
            case .suspended, .suspendedForChecks, .resumed, .checked:
                backlog.returnBurst(&burst, from: processedCount)
                return follow(progress)
            }
            guard readsClock else { continue }
            processor.clock.now()
            let work = turn.readClock(processor.environment.workTime)
            processor.noteWork(work, of: subject, requestCount: unmeasuredCount)
            unmeasuredCount = 0
            guard turn.elapsed > Self.burstTurn else { continue }
            backlog.returnBurst(&burst, from: processedCount)
            return backlog.beginFairness(databaseOf: databaseID)
        }
        backlog.returnBurst(&burst, from: processedCount)
    }

    /// Processes what waits, in fair turns, for a while.
    private func processInTurn(_ turn: inout TurnTimer) {
        while turn.elapsed <= Self.fairTurn, !isWaiting, let message = backlog.next() {
            let subject = processor.subject(of: message)
            let progress = process(message, isLight: message.isLight)
            follow(progress)
            sealIfLarge()
            processor.clock.now()
            let work = turn.readClock(processor.environment.workTime)
            processor.noteWork(work, of: subject, requestCount: unmeasuredCount + 1)
            unmeasuredCount = 0
            switch progress {
            case .resumed(let session), .checked(let session?, _): backlog.charge(work, to: session)
            case .done, .suspended, .suspendedForChecks, .checked(nil, _): break
            }
            backlog.finish(work: work)
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
        case .resumed(let session): backlog.resume(session)
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

    // MARK: Processing

    /// What became of a message.
    private enum Progress {
        case done
        /// It waits for a computation, and everything behind it of its session does, too.
        case suspended(SessionID, RequestBacklog.DatabaseID)
        /// The sessions of ``AccessManager/takeUnsuspended()`` wait for the check of their listens.
        case suspendedForChecks
        /// It was what a suspended session waited for.
        case resumed(SessionID)
        /// The listens of these sessions are checked; most of the work was for the first one.
        case checked(SessionID?, [SessionID])
    }

    /// Processes a message, and measures one of many.
    private func process(_ message: consuming DatabaseMessage, isLight: Bool) -> Progress {
        usageCountdown &-= 1
        guard usageCountdown == 0 else { return perform(message, isLight: isLight) }
        let measurement = processor.beginUsage(of: message)
        let progress = perform(message, isLight: isLight)
        // One that is suspended comes again, with a chance of its own.
        var isSuspended = false
        if case .suspended = progress { isSuspended = true }
        usageCountdown = processor.endUsage(isSuspended ? nil : measurement)
        return progress
    }

    /// - Parameter isLight: Nothing has to be computed first.
    private func perform(_ message: consuming DatabaseMessage, isLight: Bool) -> Progress {
        // Before any other write: what waits was to be written first.
        if !sessions.isIdle { sessions.performDeferredIfPossible() }
        switch consume message {
        case .request(let request):
            if !isLight, let database = preparer.suspend(request) {
                return .suspended(request.session, database)
            }
            processor.process(request)
            if processor.isUndecided { return suspendUndecided(request) }
            processedByteCount += request.byteCount
        case .rest(let session, let call, let byteCount):
            // A small write may replace much.
            if !isLight || call.isWrite,
                let database = preparer.suspend(call, byteCount: byteCount, of: session)
            {
                return .suspended(session, database)
            }
            processor.encoder.noteRequest(received: burstBegan)
            rest.process(call, byteCount: byteCount, of: session)
            if processor.takeUndecided() != nil {
                if let database = preparer.suspend(
                    call, byteCount: byteCount, of: session, after: .undecided)
                {
                    return .suspended(session, database)
                }
                processor.encoder.respond(.refused(.contested), to: session)
            }
            processedByteCount += byteCount
            if !isLight, case .data(_, let body?, _) = call.action { processor.releaseLater(body.largeNodes) }
            // It may have brought new rules.
            if access.hasUnsuspended { return .suspendedForChecks }
        case .reply(let session, let reply, let byteCount):
            processedByteCount += byteCount
            processor.count(reply)
            // The server has ended the session: nothing follows that.
            if !isDraining || processor.sessions[session] != nil {
                processor.encoder.reply(reply, to: session)
            }
        case .windowMark(let session): processor.encoder.returnWindowMark(to: session)
        case .lagging(let session):
            if processor.sessions[session] != nil { processor.coalescer.begin(session) }
        case .caughtUp(let session):
            if let backlog = processor.coalescer.end(session) { processor.send(backlog, to: session) }
        case .open(let session, let request):
            guard !isDraining else { return refuse(session) }
            if let old = sessions.session(replacedBy: request, session),
                let database = preparer.suspend(endOf: old, before: .open(session, request), of: session)
            {
                return .suspended(session, database)
            }
            sessions.open(session, request)
        case .identity(let session, let credential):
            switch access.change(session, to: credential) {
            case .applied: break
            case .checking: return .suspendedForChecks
            case .tooManyChecks:
                processor.encoder.close(session, .finished)
                sessions.end(session)
            }
        case .revoked(let session, let signIns): sessions.revoke(signIns, of: session)
        case .closed(let session):
            if sessions.endSomeListens(of: session) { break }
            if let database = preparer.suspend(endOf: session, before: .closed(session), of: session) {
                return .suspended(session, database)
            }
            sessions.end(session)
        case .rules(let rulesets):
            access.load(rulesets)
            return .suspendedForChecks
        case .listenChecks:
            let (busiest, finished) = access.checkSome()
            return .checked(busiest, finished)
        case .prepared(let prepared):
            guard !access.isChecking(prepared.session) else {
                heldPreparations[prepared.session] = prepared
                break
            }
            return resume(prepared)
        case .indexed(let name, let result):
            if let database = processor.databases[name] { processor.finish(result, in: database) }
        // Noted when they arrived.
        case .storage, .outputsDelivered: break
        case .drain(let completion): drain(completion)
        case .statistics(let request): processor.perform(request)
        case .usage(let request): request(processor.pathUsage)
        // Taken at the end of the batch.
        case .backup(let request): backupRequest = request
        }
        return .done
    }

    /// Has another thread find out whether the rules permit a write.
    private func suspendUndecided(_ request: PostedRequest) -> Progress {
        if let action = processor.takeUndecided().flatMap({ Action($0) }) {
            request.returnAction(action)
            if let database = preparer.suspend(request, after: .undecided) {
                return .suspended(request.session, database)
            }
        }
        processor.encoder.reply(.contested(request.number), to: request.session)
        processedByteCount += request.byteCount
        return .done
    }

    /// Closes a session that comes while the server stops.
    private func refuse(_ session: SessionID) -> Progress {
        processor.encoder.close(session, .goingAway)
        return .done
    }

    /// Executes a request that was suspended, with what was computed for it.
    private func resume(_ prepared: PreparedRequest) -> Progress {
        let isDone = preparer.finish(prepared, endsAtOnce: sessions.isIdle, execute: execute)
        // Freed by another thread: text, indexes and what only the snapshot holds may be large.
        switch prepared.preparation {
        case .printed, .write, .window: processor.releaseLater(prepared)
        case .hash, .index, .abandoned: break
        }
        guard isDone else { return .done }
        processedByteCount += prepared.byteCount
        return .resumed(prepared.session)
    }

    /// Ends all sessions, and opens no more.
    private func drain(_ completion: @escaping @Sendable () -> Void) {
        for session in processor.sessions.ids {
            processor.encoder.close(session, .goingAway)
            sessions.end(session)
        }
        isDraining = true
        onDrained = completion
    }

    /// Executes a request that was prepared.
    private func execute(_ message: DatabaseMessage) {
        switch message {
        case .request(let request): processor.process(request)
        case .rest(let session, let call, let byteCount):
            rest.process(call, byteCount: byteCount, of: session)
        case .closed(let session): sessions.end(session)
        case .open(let session, let request): sessions.open(session, request)
        default: preconditionFailure("only requests, and what ends sessions, are prepared")
        }
    }

    // MARK: Sealing and releasing

    private func sealIfLarge() {
        if processor.encoder.byteCount > Self.batchByteLimit
            || processor.journal.pendingByteCount > Self.entryBatchByteLimit
        {
            seal()
        }
    }

    /// Ends a batch: its journal entries go to the journal thread, its outputs wait for the last of them.
    private func seal() {
        processor.journal.flush()
        if processor.journal.isEnabled, isCheckpointDue || wantsFinalCheckpoint {
            isCheckpointDue = false
            // Everything committed so far is in the entries before it, and nothing else.
            processor.journal.post(processor.databases.snapshot(at: processor.clock.now()))
        }
        if let request = backupRequest.take() { processor.giveSnapshot(to: request) }
        let ticket = processor.journal.lastTicket
        let batches = processor.encoder.takeBatches(refillingFrom: outputs.pool)
        if processedByteCount > 0 || batches.contains(where: { !$0.isEmpty }) {
            switch outputs.backpressure.add(batches.reduce(0) { $0 + $1.byteCount }) {
            case .goOn: break
            case .pause: isWaiting = true
            case .resumeAll: isWaiting = false
            }
            gate.hold(batches, until: ticket, requestByteCount: processedByteCount)
            processedByteCount = 0
        }
        processor.startReleases()
        release()
        if let onDrained, gate.isDurable(ticket), gate.isEmpty {
            self.onDrained = nil
            onDrained()
        }
    }

    /// Whether all sessions have ended, and the next start would have much of the journal to read.
    private var wantsFinalCheckpoint: Bool {
        guard onDrained != nil, !isFinalCheckpointPosted, processor.journal.wantsFinalCheckpoint else {
            return false
        }
        isFinalCheckpointPosted = true
        return true
    }

    /// The journal thread: everything up to this ticket is durable. Releases what waits for it.
    /// - Returns: false, and nothing is done, while the server stops: then ``receive(_:onQueue:)`` must get
    ///   the event.
    package func release(upTo ticket: UInt64) -> Bool {
        guard !isDraining else { return false }
        currentQueue = nil
        confirm(upTo: ticket)
        release()
        return true
    }

    /// Notes how far the journal is durable.
    private func confirm(upTo ticket: UInt64) {
        precondition(
            !processor.journal.isEnabled || ticket <= processor.journal.lastTicket,
            "an entry is durable that was never appended")
        gate.confirm(upTo: ticket)
    }

    /// Posts the outputs that have become durable, in order.
    private func release() {
        var resumes = false
        gate.release { held in
            if requestBackpressure.remove(held.requestByteCount) { resumes = true }
            for queue in held.outputs.indices where !held.outputs[queue].isEmpty {
                // Moved out: the queue's thread is its only owner.
                post(exchange(&held.outputs[queue], with: OutputBatch()), to: queue)
            }
        }
        if resumes {
            for queue in 0..<outputs.count { post(OutputBatch(items: [.resumeReading]), to: queue) }
        }
        processor.metrics.heldBatches.set(gate.count)
    }

    private func post(_ batch: consuming OutputBatch, to queue: Int) {
        outputs.post(consume batch, to: queue, signals: queue != currentQueue)
    }

    /// Takes out the outputs that wait to become durable, in the order of their decision: for a simulation
    /// that must know what a server had decided when it died.
    package func takeHeld() -> [OutputBatch] { gate.removeAll().flatMap { $0 } }
}

import PandoBytes
import PandoConnections
import PandoDatabase
import PandoEngine
import PandoIdentity
import PandoREST
import PandoReactor
import PandoTime

/// One entry of a loop's table: it gives a state machine of `Connections` its events, and carries out what
/// the machine decides. Confined to its loop.
///
///     socket, databases, workers, timers ──event──▶ state machine ──actions──▶ socket, workers, timers, other sessions
///                                                        └──messages──▶ databases
///
/// Subclasses hold the state machines: ``HTTPSession``, ``WebSocketSession``, ``PollingSession``. An event is
/// one call of the state machine between ``prepare()`` and ``finish()``.
class LoopSession: ActionPerformer {
    /// Changes once in the life of a WebSocket that takes over a session by long polling: to the id of that.
    final var id: SessionID
    final let services: SessionServices
    /// When the session began.
    final let opened: MonotonicTime
    /// When the client last sent anything.
    final var lastHeard: MonotonicTime
    /// It is being disconnected because memory is short.
    final var isCutForMemory = false
    private(set) final var isReadingPaused = false
    private var isPausedForCongestion = false
    /// It is among those that are resumed when the databases and the disk have caught up.
    private var isAmongPaused = false
    private var deadline: TimerToken?
    private var expiry: WallTimer?
    /// Bytes that the loop has counted for this session.
    private var countedUnfinishedBytes: UInt32 = 0
    private var countedWaitingBytes: UInt32 = 0
    private var countedDatabaseBytes: UInt32 = 0

    init(_ id: SessionID, _ services: SessionServices) {
        self.id = id
        self.services = services
        opened = services.loop.now
        lastHeard = opened
    }

    // MARK: What the state machine knows and decides

    /// Memory that this client makes the server hold, in bytes. What it shares with others weighs little.
    final var heldByteCount: Int { connectionByteCount + databaseByteCount }

    /// The part of it that its connection holds.
    var connectionByteCount: Int { 0 }

    /// The part of that which the loop has counted: what is not complete, or waits.
    final var countedByteCount: Int { Int(countedUnfinishedBytes) + Int(countedWaitingBytes) }

    /// Bytes that the databases hold for this session: its listens, and its queued onDisconnect writes.
    final var databaseByteCount: Int { Int(countedDatabaseBytes) }

    /// Bytes for the client that the kernel has not taken yet are there.
    var hasUnsentOutput: Bool { false }

    /// Bytes that were written to the client, sent or not.
    var writtenByteCount: Int { 0 }

    /// What the client has taken lately.
    var progress: ClientProgress { .unknown }

    /// Where the client is; nil once it is gone.
    var peerAddress: SocketAddress? { nil }

    /// Its connection was accepted in the administrators' reserve.
    var isReserved: Bool { false }

    /// Whether its outputs are delivered early.
    var urgency: OutputBacklog.Urgency { .none }

    /// In which form the session takes frames that others may get, too.
    var form: OutputForm { .frames }

    /// Whether the client has a large share of all requests that wait.
    var hasManyRequests: Bool { false }

    /// Whether requests of the client for which it may be paused are not answered yet.
    var awaitsAnswers: Bool { false }

    // MARK: Events from the databases

    func send(_ frames: RawSpan) {}
    func send(_ frames: SharedBytes) {}
    /// A message in ``OutputForm/script``: in place of frames for a session that takes that form.
    func send(script: SharedBytes) {}
    func send(_ message: LargeMessage) {}
    func windowMarkReturned() {}
    func receive(_ result: RESTCallResult) {}
    func receive(_ events: [StreamEvent]) {}
    func receive(_ update: StreamUpdate) {}
    func receive(_ window: StreamWindow) {}
    func close(_ reason: DisconnectReason) {}

    // MARK: Events from workers

    func encoded(_ message: LargeMessage) {}
    func parsed(_ message: ParsedMessage) {}
    func measured(_ size: NodeSizeCheck) {}
    func inspected(_ report: RESTReport) {}
    func bodyRead(_ body: BodyResult) {}
    func verified(_ result: VerificationResult) {}

    // MARK: Events from the loop

    /// Keys or revocations have changed.
    func recheck(_ revocations: RevocationState) {}
    /// Now and then.
    func tick() {}
    /// Each second, or less often where there are very many sessions: notes what the client has taken.
    func sampleProgress() {}
    /// Others have had their turn.
    func nextTurn() {}
    /// The time of ``ConnectionAction/wake(at:)`` has come.
    func deadlinePassed() {}
    /// That of ``ConnectionAction/expire(at:)``.
    func expired() {}
    /// The process ends.
    func endIfIdle() {}
    /// The process ends: this connection is closed in its turn.
    func dismiss() { close(.goingAway) }
    /// Memory is short, and this session holds much.
    func giveUpMemory() {}
    /// Others need its place.
    func cut() {}
    func pause(_ reason: PauseReasons) {}
    func resume(_ reason: PauseReasons) {}
    /// As ``resume(_:)``, of thousands of sessions at a time. Where it is read again, its client has probably
    /// sent much meanwhile: it is read after those that send little.
    func resumeAfterMemory(_ reasons: PauseReasons) { resume(reasons) }

    // MARK: Actions

    /// Carries out an action on the socket.
    func carryOut(_ action: consuming ConnectionAction) { assertionFailure("\(action) needs a socket") }

    /// Stops or resumes taking input.
    func setReading(paused isPaused: Bool) {}

    /// Before an event: sets the time of the context.
    final func prepare() {
        services.context.now = services.loop.now
    }

    /// Carries out the actions of an event: at once those that concern this session alone; then, in the order
    /// of the events, those that lead to further events (``RoutedActions``).
    final func carryOutActions() {
        guard !services.context.actions.isEmpty else { return }
        var actions = exchange(&services.spareActions, with: [])
        services.context.takeActions(into: &actions)
        // Moved out, not copied.
        for index in actions.indices {
            let action = exchange(&actions[index], with: .close)
            if action.leadsToEvents {
                services.routedActions.append(action, of: self)
            } else {
                perform(action)
            }
        }
        actions.removeAll(keepingCapacity: actions.capacity <= Self.keptActionCount)
        swap(&actions, &services.spareActions)
        services.routedActions.run()
    }

    final func perform(_ action: consuming ConnectionAction) {
        switch action {
        case .verify(let token): services.router?.verify(token, for: id)
        case .parse(let message): services.parse(message, for: id)
        case .inflate(let message): services.parse(message, isCompressed: true, for: id)
        case .encode(let message): services.encode(message, for: id, as: form)
        case .measure(let node, let query, let byteLimit, let wantsETag):
            services.measure(node, query, byteLimit: byteLimit, wantsETag: wantsETag, for: id)
        case .makeWindow(let window): services.make(window, for: id)
        case .inspect(let job): services.inspect(job, for: id)
        case .abandonJobs: services.abandonJobs(of: id)
        case .release(let update): services.release(update)
        case .releaseBody(let bytes): services.release(bytes)
        case .nextTurn: services.turns.post(id)
        case .wake(let time): wake(at: time)
        case .expire(let end): expire(at: end)
        case .recheck: services.router?.recheck(id)
        case .countLimit(let limit): services.metrics.limits.add(limit)
        case .countDelay(let limit): services.metrics.delays.add(limit)
        case .write, .writeShared, .closeAfterFlush, .close, .reset, .readBody, .cancelBody, .http,
            .polling, .handover:
            carryOut(action)
        }
    }

    /// Capacity for actions that is kept.
    private static let keptActionCount = 1024

    private func wake(at time: MonotonicTime?) {
        if let token = deadline.take() { services.loop.cancel(token) }
        guard let time else { return }
        deadline = services.loop.schedule(at: time) { [weak self] in
            self?.deadline = nil
            self?.deadlinePassed()
        }
    }

    private func expire(at end: Int64?) {
        expiry?.cancel(on: services.loop)
        expiry = end.map { end in WallTimer(at: end, on: services.loop) { [weak self] in self?.expired() } }
    }

    // MARK: After an event

    /// Counts what the session holds, and what it has posted.
    final func count(unfinished: Int, waiting: Int) {
        let (unfinished, waiting) = (UInt32(clamping: unfinished), UInt32(clamping: waiting))
        services.unfinishedByteCount += Int(unfinished) - Int(countedUnfinishedBytes)
        countedUnfinishedBytes = unfinished
        services.waitingByteCount += Int(waiting) - Int(countedWaitingBytes)
        countedWaitingBytes = waiting
        if services.countPosted(hasManyRequests: hasManyRequests) {
            pauseForCongestion()
        } else if isPausedForCongestion, !awaitsAnswers {
            // Its own requests were answered: it need not wait for those of others.
            resumeFromCongestion()
        }
        if services.context.messages.count >= SessionServices.burstCount { services.router?.handOver() }
    }

    /// Counts what the databases hold for the session.
    final func hold(inDatabases byteCount: Int) {
        let byteCount = UInt32(clamping: byteCount)
        services.databaseByteCount += Int(byteCount) - databaseByteCount
        countedDatabaseBytes = byteCount
    }

    /// Reads the socket while there is no reason to pause.
    final func follow(_ pauses: PauseReasons) {
        guard pauses.isEmpty == isReadingPaused else { return }
        isReadingPaused = !pauses.isEmpty
        setReading(paused: isReadingPaused)
    }

    /// The databases or the disk are behind.
    private func pauseForCongestion() {
        guard !isPausedForCongestion else { return }
        isPausedForCongestion = true
        if !isAmongPaused { services.paused.append(id) }
        isAmongPaused = true
        pause(.congestion)
    }

    /// The databases and the disk have caught up.
    final func resumeAfterBackpressure() {
        isAmongPaused = false
        if isPausedForCongestion { resumeFromCongestion() }
    }

    private func resumeFromCongestion() {
        isPausedForCongestion = false
        resume(.congestion)
    }

    // MARK: The end

    /// Nothing is left of it here.
    final func leave() {
        wake(at: nil)
        expire(at: nil)
        count(unfinished: 0, waiting: 0)
        hold(inDatabases: 0)
        services.router?.remove(id)
    }
}

extension ConnectionAction {
    /// Whether carrying it out may give this session, or another, its next event before it returns.
    fileprivate var leadsToEvents: Bool {
        switch self {
        case .verify, .recheck, .http, .polling, .handover: true
        case .write, .writeShared, .closeAfterFlush, .close, .reset, .parse, .inflate, .encode, .measure,
            .makeWindow, .inspect, .readBody, .cancelBody, .abandonJobs, .release, .releaseBody, .nextTurn,
            .wake, .expire,
            .countLimit, .countDelay:
            false
        }
    }
}

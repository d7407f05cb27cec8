import PandoEngine

/// The messages that wait to be processed.
///
///     burst ──▶ processed in the order of arrival          while a burst takes a few milliseconds: nearly always
///       └─ takes longer ──▶ FairScheduler ──▶ processed    sessions in turn by the time that their requests take,
///                                                          and databases in turn
///
/// While anything waits in the scheduler, new messages go there, too: the messages of one session keep their
/// order. Changed rules, ends of credentials, finished preparations (hash, query window, print) and reports
/// that a client lags come first; a drain comes last. That a client has caught up waits for its turn: what it
/// has missed takes time to send. What other threads have found out for the indexes and query windows of a
/// database takes its turn as the messages of one session do, together with the listens of all sessions that
/// have ended (``EndingSessions``). A step of a check of listens may take longer
/// than a turn: between two of them, the others have as much time as one took.
///
/// When a session ends, its waiting reads are dropped. Its waiting writes are executed, because the client
/// cannot know whether they were (SDKs send again what was not acknowledged).
///
/// A class, so that it is not moved for every burst. Used by one thread at a time.
final class RequestBacklog {
    /// A number of a database; 0 for none.
    typealias DatabaseID = UInt32

    private var burst: [DatabaseMessage] = []
    /// Processed before all others, from ``urgentOffset`` on.
    private var urgent: [DatabaseMessage] = []
    /// Messages of ``urgent`` that were taken out. (To remove each would move all others.)
    private var urgentOffset = 0
    /// The next step of the checks of listens.
    private var check: DatabaseMessage?
    /// What was taken out last.
    private var served = Served.other
    /// Nanoseconds that the sessions may have before the next step of a check.
    private var workBeforeCheck = 0
    /// The server stops: processed behind all others.
    private var drain: DatabaseMessage?
    /// Bytes of requests that were dropped since the last ``takeDroppedByteCount()``.
    private var droppedByteCount = 0
    private var endedSessions: [SessionID] = []
    private var scheduler = FairScheduler<DatabaseID, SessionID, DatabaseMessage>(
        quantum: quantum, debtLimit: debtLimit, placeholder: .outputsDelivered)
    /// Whether messages are processed in turn, not in the order of arrival.
    private(set) var isFair = false

    private enum Served { case check, turn, other }

    /// Nanoseconds of one session's requests, and of one database's, before the next one's: about a hundred
    /// small writes.
    static let quantum = 200_000
    /// The most that a session can owe the others, however long its request took.
    private static let debtLimit = 1_000_000_000
    /// The capacity for messages that is kept after a burst.
    private static let keptBurstCount = 4096

    /// Whether nothing waits and no session is suspended: what arrives may be processed without the backlog.
    var isIdle: Bool {
        burst.isEmpty && urgent.isEmpty && check == nil && drain == nil && !isFair
    }

    /// Whether there is a message to process.
    var hasNext: Bool {
        !burst.isEmpty || !urgent.isEmpty || check != nil || scheduler.hasNext
            || drain != nil && scheduler.isIdle
    }

    /// Adds what has arrived, and leaves an empty array. O(1) while nothing waits.
    func add(_ batch: inout [DatabaseMessage], databaseOf: (DatabaseMessage) -> DatabaseID) {
        if isFair {
            schedule(all: batch, databaseOf)
            batch.removeAll(keepingCapacity: true)
        } else if burst.isEmpty {
            // Nearly always nothing waits: then the arrays are exchanged, and no message is copied.
            swap(&burst, &batch)
        } else {
            burst.append(contentsOf: batch)
            batch.removeAll(keepingCapacity: true)
        }
    }

    /// Takes out everything that is to be processed in the order of arrival. ``returnBurst(_:from:)``
    /// follows, before anything is added.
    /// - Parameter taken: Empty before.
    func takeBurst(_ taken: inout [DatabaseMessage]) { swap(&burst, &taken) }

    /// Returns what is left of a burst: the messages from `first` on. Leaves an empty array.
    func returnBurst(_ rest: inout [DatabaseMessage], from first: Int) {
        if first == rest.count {
            rest.removeAll(keepingCapacity: rest.capacity <= Self.keptBurstCount)
        } else {
            rest.removeFirst(first)
        }
        swap(&burst, &rest)
    }

    /// The next message of those that are processed in turn. ``finish(work:)`` follows.
    func next() -> DatabaseMessage? {
        served = .other
        if !urgent.isEmpty { return nextUrgent() }
        if check != nil, workBeforeCheck <= 0 || !scheduler.hasNext {
            served = .check
            return check.take()
        }
        if let (_, item) = scheduler.next() {
            served = .turn
            return item
        }
        return burst.isEmpty && scheduler.isIdle ? drain.take() : nil
    }

    /// - Precondition: There is one.
    private func nextUrgent() -> DatabaseMessage {
        let message = exchange(&urgent[urgentOffset], with: .outputsDelivered)
        urgentOffset += 1
        if urgentOffset == urgent.count {
            urgent.removeAll(keepingCapacity: urgent.capacity <= Self.keptBurstCount)
            urgentOffset = 0
        }
        return message
    }

    /// Another message of the same session; nil where its next one is not light.
    func nextLight() -> DatabaseMessage? {
        served == .turn ? scheduler.nextOfSameFlow { $0.isLight } : nil
    }

    /// The message of the last ``next()``, and those of ``nextLight()`` since, are processed.
    /// - Parameter work: Nanoseconds that they took.
    func finish(work: Int) {
        switch served {
        case .check: workBeforeCheck = work
        case .turn: workBeforeCheck -= work
        case .other: break
        }
        scheduler.finish(work: work)
        endFairnessIfIdle()
    }

    /// From now on, messages are processed in turn.
    func beginFairness(databaseOf: (DatabaseMessage) -> DatabaseID) {
        guard !isFair else { return }
        isFair = true
        schedule(all: exchange(&burst, with: []), databaseOf)
        endFairnessIfIdle()
    }

    /// Nothing is left of what waited. Not before the drain and what is urgent were taken out: what arrives
    /// behind them must not overtake them. (The end of a session comes behind the revocation of what the
    /// session has queued.)
    private func endFairnessIfIdle() {
        if scheduler.isIdle, urgent.isEmpty, drain == nil { isFair = false }
    }

    /// Nothing more of a session is processed until ``resume(_:)``: its last message is not done yet.
    func suspend(_ session: SessionID, databaseOf: (DatabaseMessage) -> DatabaseID, database: DatabaseID) {
        scheduler.suspend(session, of: database)
        if !isFair { beginFairness(databaseOf: databaseOf) }
    }

    /// Whether a session is suspended.
    func isSuspended(_ session: SessionID) -> Bool { scheduler.isSuspended(session) }

    /// Charges a suspended session with what it waited for.
    /// - Parameter work: Nanoseconds.
    func charge(_ work: Int, to session: SessionID) { scheduler.charge(work, to: session) }

    /// A suspended session goes on.
    func resume(_ session: SessionID) {
        scheduler.resume(session)
        endFairnessIfIdle()
    }

    /// Bytes of requests that were dropped since the last call: they get no reply.
    func takeDroppedByteCount() -> Int {
        defer { droppedByteCount = 0 }
        return droppedByteCount
    }

    /// Suspended sessions that have ended since the last call: what they wait for is not needed any more.
    func takeEndedSessions() -> [SessionID] {
        defer { if !endedSessions.isEmpty { endedSessions = [] } }
        return endedSessions
    }

    private func schedule(all messages: [DatabaseMessage], _ databaseOf: (DatabaseMessage) -> DatabaseID) {
        var first = 0
        while first < messages.count {
            var end = first + 1
            if drain == nil, case .request(let request) = messages[first] {
                // Clients send several requests at once: they are added together.
                while end < messages.count, case .request(let next) = messages[end],
                    next.session == request.session
                {
                    end += 1
                }
                scheduler.append(messages[first..<end], to: request.session, of: databaseOf(messages[first]))
            } else {
                schedule(messages[first], databaseOf)
            }
            first = end
        }
    }

    private func schedule(_ message: DatabaseMessage, _ databaseOf: (DatabaseMessage) -> DatabaseID) {
        if drain != nil, !message.isProcessedWhileDraining {
            // Clients that go on sending must not keep the server from stopping.
            droppedByteCount += message.requestByteCount
            return
        }
        switch message {
        case .storage, .outputsDelivered: return  // Noted when they arrived.
        case .listenChecks:
            // `AccessManager` posts the next one when this one was executed.
            assert(check == nil)
            return check = message
        case .rules, .prepared, .statistics, .usage, .backup, .trees:
            return urgent.append(message)
        case .lagging(let session):
            // It must not be followed by a report that came before it.
            scheduler.drop(session) { if case .caughtUp = $0 { true } else { false } }
            return urgent.append(message)
        case .indexed, .continueEnding:
            let database = databaseOf(message)
            return scheduler.append(message, to: Self.ownFlow(of: database), of: database)
        case .drain:
            // It ends all sessions.
            for session in scheduler.waitingFlows { dropReads(of: session) }
            endedSessions += scheduler.waitingFlows.filter { scheduler.isSuspended($0) }
            return drain = message
        case .closed(let session):
            dropReads(of: session)
            if scheduler.isSuspended(session) { endedSessions.append(session) }
        case .credentialEnded, .revoked:
            // It does not wait for what its session has sent before; only for the beginning of the session.
            if databaseOf(message) != 0 { return urgent.append(message) }
        case .request, .open, .credentialChanged, .rest, .reply, .windowMark, .caughtUp: break
        }
        guard let session = message.session else { return }
        scheduler.append(message, to: session, of: databaseOf(message))
    }

    /// The flow of a database's own work, for its indexes and to end listens, in turns with its sessions: no
    /// session has this number.
    private static func ownFlow(of database: DatabaseID) -> SessionID {
        SessionID(UInt64.max - UInt64(database))
    }

    private func dropReads(of session: SessionID) {
        scheduler.drop(session) { message in
            guard !message.outlivesSession else { return false }
            droppedByteCount += message.requestByteCount
            return true
        }
    }
}

extension DatabaseMessage {
    /// The session with which it takes its turn; nil for a message that concerns none.
    fileprivate var session: SessionID? {
        switch self {
        case .request(let request): request.session
        case .open(let session, _), .credentialChanged(let session, _, _), .credentialEnded(let session, _),
            .rest(let session, _, _), .reply(let session, _, _),
            .windowMark(let session), .revoked(let session, _, _), .lagging(let session),
            .caughtUp(let session), .closed(let session):
            session
        case .rules, .listenChecks, .storage, .outputsDelivered, .prepared, .indexed, .continueEnding, .drain,
            .statistics, .usage, .backup, .trees:
            nil
        }
    }

    /// Bytes that the client has sent for it.
    fileprivate var requestByteCount: Int {
        switch self {
        case .request(let request): request.byteCount
        case .rest(_, _, let byteCount), .reply(_, _, let byteCount): byteCount
        case .open, .credentialChanged, .credentialEnded, .revoked, .windowMark, .lagging, .caughtUp, .closed,
            .continueEnding, .rules, .listenChecks, .storage, .outputsDelivered, .prepared, .indexed, .drain,
            .statistics,
            .usage, .backup, .trees:
            0
        }
    }

    /// Whether it is processed also when the server has begun to stop.
    fileprivate var isProcessedWhileDraining: Bool {
        switch self {
        case .closed, .continueEnding, .credentialEnded, .revoked, .listenChecks, .prepared, .storage,
            .outputsDelivered,
            .drain, .statistics, .usage, .backup, .trees:
            true
        case .request, .open, .credentialChanged, .rest, .reply, .windowMark, .lagging, .caughtUp, .rules,
            .indexed:
            false
        }
    }

    /// Whether it is processed also when its session ended before its turn.
    fileprivate var outlivesSession: Bool {
        switch self {
        case .request(let request): request.action.isWrite
        case .rest(_, let call, _): call.isWrite || call.isRefused
        case .open, .credentialChanged, .credentialEnded, .revoked, .closed, .continueEnding: true
        case .reply, .windowMark, .lagging, .caughtUp, .rules, .listenChecks, .storage,
            .outputsDelivered, .prepared, .indexed, .drain, .statistics, .usage, .backup, .trees:
            false
        }
    }
}

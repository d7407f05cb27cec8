import PandoEngine

/// What waits for the database thread.
///
///     burst ──▶ done in the order of arrival          as long as a burst is done within a few milliseconds: nearly always
///       └─ takes longer ──▶ FairScheduler ──▶ done    sessions in turn by the time their requests take, and databases in turn
///
/// Once the scheduler has anything, what arrives goes there too, until all of it is done: the messages of one
/// session are never taken out of their order. Changed rules, finished preparations (hash, window, print) and
/// reports that a client lags are taken first; a drain is taken last.
///
/// When a session ends, its waiting reads are dropped. Its waiting writes are done, because the client cannot
/// know whether they were (SDKs send again what was not answered).
///
/// A class, so that it is not moved for every burst. Confined as ``DatabaseHost`` is.
final class RequestBacklog {
    /// A number of a database; 0 for none.
    typealias DatabaseID = UInt32

    private var burst: [DatabaseMessage] = []
    /// Taken before all others.
    private var urgent: [DatabaseMessage] = []
    /// The server stops: taken behind all others.
    private var drain: DatabaseMessage?
    /// Bytes of requests that were dropped and not yet told of.
    private var droppedByteCount = 0
    private var endedSessions: [SessionID] = []
    private var scheduler = FairScheduler<DatabaseID, SessionID, DatabaseMessage>(
        quantum: quantum, debtLimit: debtLimit, placeholder: .proceed)
    /// Messages are taken in turn, not in the order of arrival.
    private(set) var isFair = false

    /// Nanoseconds of one session's requests, and of one database's, before the next one's: about a hundred
    /// small writes.
    static let quantum = 200_000
    /// A session whose request took longer owes the others no more than this.
    private static let debtLimit = 1_000_000_000
    /// A burst leaves behind no more spare room than this.
    private static let keptBurstCount = 4096

    /// Nothing waits, and no session is suspended: what comes may be done past the backlog.
    var isIdle: Bool { burst.isEmpty && urgent.isEmpty && drain == nil && !isFair }

    /// Whether there is a message to be taken.
    var hasNext: Bool {
        !burst.isEmpty || !urgent.isEmpty || scheduler.hasNext || drain != nil && scheduler.isIdle
    }

    /// Adds what has arrived, and leaves nothing. O(1) while nothing waits.
    func add(_ batch: inout [DatabaseMessage], databaseOf: (DatabaseMessage) -> DatabaseID) {
        if isFair {
            for message in batch { spread(message, databaseOf) }
            batch.removeAll(keepingCapacity: true)
        } else if burst.isEmpty {
            // Commonly nothing waits: then the two trade places, and no message is copied.
            swap(&burst, &batch)
        } else {
            burst.append(contentsOf: batch)
            batch.removeAll(keepingCapacity: true)
        }
    }

    /// Takes out all that is to be done in the order of arrival. ``returnBurst(_:from:)`` follows, before
    /// anything is added.
    /// - Parameter taken: Empty before.
    func takeBurst(_ taken: inout [DatabaseMessage]) { swap(&burst, &taken) }

    /// Gives back what is left of a burst: the messages from `first` on. Leaves nothing.
    func returnBurst(_ rest: inout [DatabaseMessage], from first: Int) {
        if first == rest.count {
            rest.removeAll(keepingCapacity: rest.capacity <= Self.keptBurstCount)
        } else {
            rest.removeFirst(first)
        }
        swap(&burst, &rest)
    }

    /// The message whose turn it is, of those that are taken in turn. ``finish(work:)`` follows.
    func next() -> DatabaseMessage? {
        if !urgent.isEmpty { return urgent.removeFirst() }
        if let (_, item) = scheduler.next() { return item }
        return burst.isEmpty && scheduler.isIdle ? drain.take() : nil
    }

    /// The message that was taken last is done.
    /// - Parameter work: Nanoseconds that it took.
    func finish(work: Int) {
        scheduler.finish(work: work)
        if scheduler.isIdle { isFair = false }
    }

    /// From here on, messages are taken in turn.
    func beginFairness(databaseOf: (DatabaseMessage) -> DatabaseID) {
        guard !isFair else { return }
        isFair = true
        var rest: [DatabaseMessage] = []
        swap(&rest, &burst)
        for message in rest { spread(message, databaseOf) }
        if scheduler.isIdle { isFair = false }
    }

    /// Nothing more of a session is taken until ``resume(_:)``: the message that was taken last is not done
    /// yet.
    func suspend(_ session: SessionID, databaseOf: (DatabaseMessage) -> DatabaseID, database: DatabaseID) {
        scheduler.suspend(session, of: database)
        if !isFair { beginFairness(databaseOf: databaseOf) }
    }

    /// What a suspended session waited for has taken so many nanoseconds.
    func charge(_ work: Int, to session: SessionID) { scheduler.charge(work, to: session) }

    /// A suspended session goes on.
    func resume(_ session: SessionID) {
        scheduler.resume(session)
        if isFair, scheduler.isIdle { isFair = false }
    }

    /// Bytes of requests that were dropped since the last call: nothing will answer them.
    func takeDroppedByteCount() -> Int {
        defer { droppedByteCount = 0 }
        return droppedByteCount
    }

    /// Suspended sessions that have ended since the last call: what they wait for need not be made.
    func takeEndedSessions() -> [SessionID] {
        defer { if !endedSessions.isEmpty { endedSessions = [] } }
        return endedSessions
    }

    private func spread(_ message: DatabaseMessage, _ databaseOf: (DatabaseMessage) -> DatabaseID) {
        if drain != nil, !message.isTakenWhileDraining {
            // Or clients that go on asking would keep the server from stopping.
            droppedByteCount += message.requestByteCount
            return
        }
        switch message {
        case .durable, .checkpointDue, .spaceAvailable, .proceed: return  // Noted when they arrived.
        case .rules, .prepared, .lagging, .caughtUp: return urgent.append(message)
        case .drain:
            // Sessions end with it, so each is treated as one that has ended.
            for session in scheduler.waitingFlows { dropReads(of: session) }
            endedSessions += scheduler.waitingFlows.filter { scheduler.isSuspended($0) }
            return drain = message
        case .closed(let session):
            dropReads(of: session)
            if scheduler.isSuspended(session) { endedSessions.append(session) }
        case .request, .open, .identity, .rest, .answer, .windowMark, .revoked: break
        }
        guard let session = message.session else { return }
        scheduler.append(message, to: session, of: databaseOf(message))
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
    /// The session with which it takes its turn; nil for what concerns none.
    fileprivate var session: SessionID? {
        switch self {
        case .request(let request): request.session
        case .open(let session, _), .identity(let session, _), .rest(let session, _, _),
            .answer(let session, _, _),
            .windowMark(let session), .revoked(let session, _), .lagging(let session),
            .caughtUp(let session), .closed(let session):
            session
        case .rules, .durable, .checkpointDue, .spaceAvailable, .proceed, .prepared, .drain: nil
        }
    }

    /// Bytes that the client has sent for it.
    fileprivate var requestByteCount: Int {
        switch self {
        case .request(let request): request.byteCount
        case .rest(_, _, let byteCount), .answer(_, _, let byteCount): byteCount
        case .open, .identity, .revoked, .windowMark, .lagging, .caughtUp, .closed, .rules, .durable,
            .checkpointDue, .spaceAvailable, .proceed, .prepared, .drain:
            0
        }
    }

    /// Taken also where the server has begun to stop.
    fileprivate var isTakenWhileDraining: Bool {
        switch self {
        case .closed, .prepared, .durable, .checkpointDue, .spaceAvailable, .proceed, .drain: true
        case .request, .open, .identity, .revoked, .rest, .answer, .windowMark, .lagging, .caughtUp, .rules:
            false
        }
    }

    /// Done also when its session ended before its turn came.
    fileprivate var outlivesSession: Bool {
        switch self {
        case .request(let request): request.action.isWrite
        case .rest(_, let call, _): call.isWrite
        case .open, .identity, .revoked, .closed: true
        case .answer, .windowMark, .lagging, .caughtUp, .rules, .durable, .checkpointDue, .spaceAvailable,
            .proceed, .prepared, .drain:
            false
        }
    }
}

import PandoRules
import PandoTree

/// The queued onDisconnect writes of all sessions (realtime §12). Always true: no queue is empty.
struct DisconnectQueues: Sendable {
    private var bySession: [SessionID: DisconnectQueue] = [:]
    /// The revision of the queue that was changed last.
    private var lastRevision = 0

    /// The sessions that have a queue, in no particular order.
    var sessions: some Collection<SessionID> { bySession.keys }

    /// Whether the session has queued writes. O(1).
    func contains(_ session: SessionID) -> Bool { bySession.index(forKey: session) != nil }

    /// The queue of a session; nil when it has none. O(1).
    subscript(session: SessionID) -> DisconnectQueue? { bySession[session] }

    /// Whether the writes can be added: see ``DisconnectQueue/canAdd(_:by:)``.
    func canAdd(_ writes: [Write], by author: DisconnectQueue.Author, to session: SessionID) -> Bool {
        (bySession[session] ?? DisconnectQueue()).canAdd(writes, by: author)
    }

    /// Queues writes for the end of the session.
    mutating func add(_ writes: [Write], by authors: [DisconnectQueue.Author], to session: SessionID) {
        guard !writes.isEmpty else { return }
        lastRevision += 1
        bySession[session, default: DisconnectQueue()].add(writes, by: authors, revision: lastRevision)
    }

    /// Removes the queued writes at a path and below.
    mutating func cancel(at path: Path, of session: SessionID) {
        lastRevision += 1
        bySession[session]?.cancel(at: path, revision: lastRevision)
        if bySession[session]?.isEmpty == true { bySession[session] = nil }
    }

    /// Removes all queued writes of a session, without doing them.
    /// - Returns: The queue.
    @discardableResult
    mutating func removeAll(of session: SessionID) -> DisconnectQueue? {
        bySession.removeValue(forKey: session)
    }

    /// The queues in ascending order of sessions: a snapshot. O(sessions).
    var all: [(session: SessionID, queue: DisconnectQueue)] {
        bySession.map { ($0.key, $0.value) }.sorted { $0.session.rawValue < $1.session.rawValue }
    }

    /// Traps when a queue is empty, or contradicts itself. O(queues); for tests.
    func checkInvariants() {
        for (session, queue) in bySession {
            precondition(!queue.isEmpty, "the queue of \(session) is empty")
            queue.checkInvariants()
        }
    }
}

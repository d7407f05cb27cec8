import PandoEngine
import PandoTime

/// The polls of a session that wait to be answered, oldest first.
struct HeldPolls {
    struct Poll {
        /// Nil for the request that started the session.
        let serial: UInt64?
        let connection: SessionID
        let came: MonotonicTime
        /// Until then at most.
        let deadline: MonotonicTime
    }

    /// Connections on which one poll waits: clients ask again now and then.
    private static let copyLimit = 16

    private var polls: [Poll] = []

    var isEmpty: Bool { polls.isEmpty }

    var count: Int { polls.count }

    var first: Poll? { polls.first }

    /// When the first of them must be answered.
    var deadline: MonotonicTime? { polls.lazy.map(\.deadline).min() }

    /// A poll waits.
    /// - Returns: A connection on which the same poll waited, and does not any more.
    mutating func append(_ poll: Poll) -> SessionID? {
        let copies = polls.indices.filter { polls[$0].serial == poll.serial }
        var lost: SessionID?
        if copies.count >= Self.copyLimit, let oldest = copies.first {
            lost = polls.remove(at: oldest).connection
        }
        polls.append(poll)
        return lost
    }

    func contains(_ serial: UInt64) -> Bool { polls.contains { $0.serial == serial } }

    /// The first poll that has waited as long as one may.
    func overdue(at now: MonotonicTime) -> Poll? { polls.first { $0.deadline <= now } }

    /// The poll that waits on a connection.
    func poll(on connection: SessionID) -> Poll? { polls.first { $0.connection == connection } }

    /// Removes a poll, on each connection on which it was asked: which of them still lives is not known.
    mutating func remove(_ poll: Poll) -> [SessionID] {
        let connections = polls.filter { $0.serial == poll.serial }.map(\.connection)
        polls.removeAll { $0.serial == poll.serial }
        return connections
    }

    /// - Returns: false where no poll waits on the connection.
    mutating func remove(on connection: SessionID) -> Bool {
        guard let index = polls.firstIndex(where: { $0.connection == connection }) else { return false }
        polls.remove(at: index)
        return true
    }

    /// The connections on which polls waited.
    mutating func removeAll() -> [SessionID] {
        defer { polls = [] }
        return polls.map(\.connection)
    }
}

import PandoBytes
import PandoConnections
import PandoDatabase
import PandoEngine
import PandoHTTP
import PandoReactor
import Synchronization

// A session by long polling lives on the loop on which it began, and its requests come over any connection of
// its client, or of a proxy that speaks for many. Such a connection is moved, with the request that it has
// brought, to the loop of the session, and stays there: then a request, its session and its answer are on one
// thread, nothing can be gone in between, and a browser's later requests find their session at once. So is a
// connection that becomes the session's WebSocket.

/// A connection on its way to another loop, with the request that it is moved for.
struct MovedConnection: Sendable {
    let socket: ConnectedSocket
    /// What was written and not sent yet.
    let unsent: [UInt8]
    let request: MovedRequest
}

/// What the loops know of each other's sessions by long polling. Any thread.
final class SessionDirectory: Sendable {
    /// One for each loop, by number.
    let moves: [Mailbox<MovedConnection>]
    private let sessions = Mutex<[PublicSessionID: SessionID]>([:])

    init(moves: [Mailbox<MovedConnection>]) {
        self.moves = moves
    }

    func add(_ id: PublicSessionID, _ session: SessionID) {
        sessions.withLock { $0[id] = session }
    }

    func remove(_ id: PublicSessionID) {
        sessions.withLock { $0[id] = nil }
    }

    /// The session that a client knows by this id, if it came by long polling and still does.
    subscript(id: PublicSessionID) -> SessionID? {
        sessions.withLock { $0[id] }
    }
}

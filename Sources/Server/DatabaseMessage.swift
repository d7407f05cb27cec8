import PandoBytes
import PandoEngine
import PandoRules
import PandoTree
import PandoWire

/// As whom a session acts; what a client sends to become somebody is ``PandoWire/Credential``.
typealias Credential = PandoRules.Credential

/// What the database thread is told, by I/O loops and by the journal.
enum DatabaseMessage: Sendable {
    /// A WebSocket has opened.
    case open(SessionID, OpenRequest)
    case request(SessionID, Request, Credential, byteCount: Int)
    case rest(SessionID, RESTCall, byteCount: Int)
    /// The answer to a request that no database need see; it must keep its place among the others.
    case answer(SessionID, Answer, byteCount: Int)
    /// The connection is gone, for whatever reason.
    case closed(SessionID)
    /// All entries up to this ticket are as durable as was asked for.
    case durable(UInt64)
    /// The loops have dealt out enough for more requests to be taken.
    case proceed
    /// End all sessions, make everything durable, and call back.
    case drain(@Sendable () -> Void)
}

/// What a client said when it connected (wire-protocol §1.1).
struct OpenRequest: Sendable {
    /// Nil when neither `ns` nor the host names one.
    var namespace: String?
    /// The request's own `Host`: what the handshake tells the client to come back to (§1.4).
    var host: Text
    /// `ls`: a session of this client that may still look alive (§12.5).
    var previousSession: Text?
}

/// Answers that the session itself knows.
enum Answer: Sendable {
    case ok(Int64)
    case authenticated(Int64, authVariable: Text?, expires: Int64?)
    case unauthenticated(Int64)
    case authenticationFailed(Int64, isExpired: Bool, reason: StaticString)
    case unknownAction(Int64)
    case tooBig(Int64)
    case invalid(Int64, InvalidData)
}

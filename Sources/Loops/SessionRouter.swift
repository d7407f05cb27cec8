import PandoBytes
import PandoConnections
import PandoEngine

/// What any session asks for that concerns other sessions, or the loop's table: it names itself by its id.
/// ``HTTPSessionDelegate`` and ``PollingSessionDelegate`` have what only those ask for.
protocol SessionRouter: AnyObject {
    /// Has a token verified; the session's `verified` gets the result, at once where that takes no key or was
    /// done lately.
    func verify(_ token: Text, for session: SessionID)
    /// Has the session check its credential against the revocations as they are now.
    func recheck(_ session: SessionID)
    /// The proxy of a connection has said who its client is.
    func learnedClient(of connection: SessionID)
    /// Asks the connections of a session by long polling what the client's system has acknowledged.
    func noteAcknowledged(for session: SessionID)
    func carryOut(_ action: HandoverAction, of session: SessionID)
    /// Many messages for the databases have gathered: the database thread is to begin.
    func handOver()
    /// The session is gone.
    func remove(_ session: SessionID)
}

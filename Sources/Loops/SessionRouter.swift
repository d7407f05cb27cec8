import PandoBytes
import PandoConnections
import PandoEngine

/// What a session asks for that concerns other sessions, or the loop's table: it names itself by its id.
protocol SessionRouter: AnyObject {
    /// Has a token verified; the session's `verified` gets the result, at once where that takes no key or was
    /// done lately.
    func verify(_ token: Text, for session: SessionID)
    /// Has the session check its credential against the revocations as they are now.
    func recheck(_ session: SessionID)
    /// The proxy of a connection has said who its client is.
    func learnedClient(of session: ChannelSession)
    func carryOut(_ action: consuming HTTPAction, of connection: HTTPSession)
    /// Asks the connections of a session by long polling what the client's system has acknowledged.
    func noteAcknowledged(for session: SessionID)
    func carryOut(_ action: consuming LongPollingAction, of session: PollingSession)
    func carryOut(_ action: HandoverAction, of session: SessionID)
    /// An HTTP connection is in progress with a request, or waits for another.
    func rank(_ connection: SessionID, as activity: HTTPConnection.Activity)
    /// Many messages for the databases have gathered: the database thread is to begin.
    func handOver()
    /// The session is gone.
    func remove(_ session: SessionID)
}

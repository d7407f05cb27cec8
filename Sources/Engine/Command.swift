import PandoBytes
import PandoRules
import PandoTree

/// A request to one database, with its time and its credential. The caller chooses both, so that the same
/// commands in the same order give the same state and the same effects on every machine.
package struct Command: Sendable {
    package var session: SessionID
    package var credential: Credential
    /// Milliseconds since 1970; never less than in an earlier command.
    package var time: Int64
    package var operation: Operation

    package init(session: SessionID, credential: Credential, time: Int64, operation: Operation) {
        self.session = session
        self.credential = credential
        self.time = time
        self.operation = operation
    }
}

/// What a command asks for (realtime §4), without the protocol's spelling. Cases that hold a query are
/// boxed: a query is large, and without the box each write would be moved in its size.
package enum Operation: Sendable {
    indirect case listen(Listen)
    indirect case unlisten(Path, Query?, tag: Int64?)
    /// - query: Nil for a plain read. Rules distinguish it from a query that only names the default order.
    indirect case get(Path, Query?)
    /// Sets a location, whatever it holds.
    case put(Write)
    /// Sets a location if it still holds the value that `expectedHash` stands for: compare-and-set (§11).
    /// - expectedHash: The simple hash (§9.1); empty for no data.
    /// - wantsCurrentValue: If the comparison fails, the result carries the current value (§11.2).
    case transaction(Write, expectedHash: Text, wantsCurrentValue: Bool)
    /// Several writes, of which all are done or none.
    /// - base: The location that the client named; pushes of the write are relative to it.
    case merge(base: Path, [Write])
    /// Queues writes for the end of the session.
    /// - signIn: Which sign-in of the session the credential belongs to, as the caller numbers them, so that
    ///   it can be revoked; 0 for none.
    case onDisconnect([Write], signIn: UInt32 = 0)
    case cancelOnDisconnect(Path)
    /// Removes the queued writes of revoked sign-ins. They never run.
    case revokeOnDisconnect(Set<UInt32>)
    /// The connection is closed: its listens end and its queued writes run.
    case endSession
}

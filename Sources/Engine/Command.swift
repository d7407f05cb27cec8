import PandoBytes
import PandoRules
import PandoTree

/// One connection, as the host names it. Never reused while the engine knows it.
package struct SessionID: Hashable, Sendable {
    package let rawValue: UInt64

    package init(_ rawValue: UInt64) {
        self.rawValue = rawValue
    }
}

/// A request to one database, with everything that is not the engine's to know: the host stamps the time, so
/// that the same commands in the same order give the same state and effects anywhere.
package struct Command: Sendable {
    package var session: SessionID
    package var credential: Credential
    /// Milliseconds since 1970; never decreasing.
    package var time: Int64
    package var operation: Operation

    package init(session: SessionID, credential: Credential, time: Int64, operation: Operation) {
        self.session = session
        self.credential = credential
        self.time = time
        self.operation = operation
    }
}

/// What a command asks for (realtime §4, free of its spelling). Reads are boxed: queries are large, and
/// a write would be moved in their size.
package enum Operation: Sendable {
    indirect case listen(Listen)
    indirect case unlisten(Path, Query?, tag: Int64?)
    /// - query: Nil for none, which rules distinguish from one that only names the default order.
    indirect case get(Path, Query?)
    case put(Write, expectedHash: Text?, wantsCurrentValue: Bool)
    /// Writes that happen together or not at all. `base` is where the client stood.
    case merge(base: Path, [Write])
    /// - signIn: Which of the session's sign-ins the credential is of, as the host numbers them: what can be
    ///   revoked. 0 is of none.
    case onDisconnect([Write], signIn: UInt32 = 0)
    case cancelOnDisconnect(Path)
    /// The session's sign-ins of these numbers count no more: what they queued is dropped, and never runs.
    case revokeOnDisconnect(Set<UInt32>)
    /// The connection is gone: its listens end, its onDisconnect writes run.
    case endSession
}

/// A draft and where it goes.
package struct Write: Equatable, Sendable {
    package var target: Target
    package var draft: Draft

    package init(_ target: Target, _ draft: Draft) {
        self.target = target
        self.draft = draft
    }
}

/// A subscription to a location, whole or through a query (§4.2).
package struct Listen: Sendable {
    package var path: Path
    /// Nil for a default listen.
    package var query: Query?
    /// Set if and only if there is a query.
    package var tag: Int64?
    /// The simple hash of what the client holds; nil when it did not say.
    package var hash: Text?
    package var compoundHash: CompoundHash?

    package init(
        path: Path, query: Query? = nil, tag: Int64? = nil, hash: Text? = nil,
        compoundHash: CompoundHash? = nil
    ) {
        self.path = path
        self.query = query
        self.tag = tag
        self.hash = hash
        self.compoundHash = compoundHash
    }
}

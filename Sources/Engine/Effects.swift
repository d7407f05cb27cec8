import PandoBytes
import PandoTree

/// What clients must be sent because of one command: the pushes first, then the result (realtime §6.3).
/// Nothing of it may leave the process before the command's delta is durable.
package struct Effects: Sendable {
    package var pushes: [Push] = []
    /// For the session that sent the command; nil when it has none.
    package var result: CommandResult?
    /// The location of a put held the value already: there are no pushes, and the journal needs no record.
    package var isRedundant = false

    package init(pushes: [Push] = [], result: CommandResult? = nil) {
        self.pushes = pushes
        self.result = result
    }
}

/// The result of a command, for the session that sent it.
package enum CommandResult: Sendable {
    case ok
    case listening
    case data(Node)
    /// A query, with its index if there is one, and the node it applies to. The caller finds the children
    /// with ``Window``, since it takes long.
    indirect case filtered(Node, IndexedQuery)
    case permissionDenied
    /// A transaction found another value (§11.2). `current` is nil for a session that may not read it, or
    /// that listens there and gets it as a push.
    indirect case dataStale(current: CurrentValue?)
    /// The command is not possible on this tree; the text says why.
    case failed(StaticString)
    /// The session has as many of them as it may.
    case limitExceeded(SessionLimit)

    /// Whether it is that of a permitted read.
    package var isRead: Bool {
        switch self {
        case .listening, .data, .filtered: true
        case .ok, .permissionDenied, .dataStale, .failed, .limitExceeded: false
        }
    }

    package struct CurrentValue: Sendable {
        package var node: Node
        /// Nil until it is computed.
        package var knownHash: String?

        /// The simple hash of the value. O(size of the value) where it is not known.
        package var hash: String { knownHash ?? node.hash }
    }
}

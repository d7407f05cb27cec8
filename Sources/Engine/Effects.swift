import PandoBytes
import PandoTree

/// What must leave the engine because of one command: pushes first, then the reply (wire-protocol §6.3).
/// Nothing of it may leave the process before the command's delta is durable.
package struct Effects: Sendable {
    package var pushes: [Push] = []
    /// For the session that commanded; nil when nobody waits for an answer.
    package var reply: Reply?
    /// A put has found at its place what it brought: nobody hears of it, and nothing need be written down.
    package var isRedundant = false

    package init(pushes: [Push] = [], reply: Reply? = nil) {
        self.pushes = pushes
        self.reply = reply
    }
}

/// One distinct thing to say, and to whom: encoded once however many listen.
package struct Push: Sendable {
    package enum Body: Sendable {
        /// The location now holds this, whole (§5.1).
        case overwrite(Path, Node)
        /// Several locations below the path changed at once; entries are relative and more than one (§5.2).
        case merge(Path, [Entry])
        /// The answer to a compound hash (§5.3).
        case rangeMerge(Path, [RangeMerge])
    }

    package struct Entry: Sendable {
        /// Relative to the merge, never empty. Names a node: priorities are told as part of theirs.
        package var path: Path
        package var node: Node
    }

    package struct TaggedRecipient: Hashable, Sendable {
        package var session: SessionID
        package var tag: Int64
    }

    package var body: Body
    /// Sessions that get the push without a tag. Arrays are shared with the engine, not copied.
    package var recipients: [ContiguousArray<SessionID>] = []
    package var taggedRecipients: [TaggedRecipient] = []
}

/// The answer to the session that commanded.
package enum Reply: Sendable {
    case ok
    case listening
    case data(Node)
    case permissionDenied
    /// A compare-and-set found another value (§11.2). The current one is told to whom has no listen there.
    case dataStale(current: CurrentValue?)
    /// The command cannot be done on this tree; the text says why.
    case failed(StaticString)

    package struct CurrentValue: Sendable {
        package var node: Node
        package var hash: String
    }
}

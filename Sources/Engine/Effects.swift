import PandoBytes
import PandoTree

/// What must leave the engine because of one command: pushes first, then the reply (realtime §6.3).
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
        /// What a listen begins with, where finding that out takes time: it is left to
        /// ``InitialState/body(knowing:)``.
        indirect case initial(InitialState)
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

/// What a location held when a listen began, and what the client said it holds of it (§4.2).
package struct InitialState: Sendable {
    package var path: Path
    /// What the location holds; of a listen through a query, see ``window``.
    package var node: Node
    /// What a query lets through of the location, where putting it into one node takes time.
    package var window: Window?
    /// The simple hash of what the client holds; nil when it did not say.
    package var hash: Text?
    package var compoundHash: CompoundHash?

    /// Whether ``body`` must hash the data: an empty hash is that of nothing and only of that.
    var needsHash: Bool { comparesSimpleHash || compoundHash != nil }

    /// Whether ``body(knowing:)`` looks at the simple hash of the node.
    package var comparesSimpleHash: Bool { (hash?.utf8Count ?? 0) > 0 && !node.isEmpty }

    /// What the client lacks: all of it, the ranges that differ, or nothing (nil). O(size) where a hash is
    /// compared.
    /// - Parameter knownHash: The simple hash of the node; nil where it is not known.
    package func body(knowing knownHash: String?) -> Push.Body? {
        if let window {
            var state = self
            state.node = window.node
            state.window = nil
            return state.body(knowing: nil)
        }
        if let hash, isHeld(by: hash, knownHash) { return nil }
        guard let compoundHash, let ranges = node.rangeMerges(against: compoundHash) else {
            return .overwrite(path, node)
        }
        if !ranges.isEmpty { return .rangeMerge(path, ranges) }
        // No range differs and the whole does: a priority that is in no range's hash (§9.6). Then all is
        // sent.
        return hash == nil ? nil : .overwrite(path, node)
    }

    private func isHeld(by hash: Text, _ knownHash: String?) -> Bool {
        if hash.utf8Count == 0 { return node.isEmpty }
        return !node.isEmpty && Text(knownHash ?? node.hash) == hash
    }
}

/// The answer to the session that commanded.
package enum Reply: Sendable {
    case ok
    case listening
    case data(Node)
    /// The children of a node that a query lets through: ``Window`` finds them, which takes time.
    indirect case filtered(Node, Query)
    case permissionDenied
    /// A compare-and-set found another value (§11.2). The current one is told to whom has no listen there.
    case dataStale(current: CurrentValue?)
    /// The command cannot be done on this tree; the text says why.
    case failed(StaticString)

    package struct CurrentValue: Sendable {
        package var node: Node
        /// Nil until it is computed.
        package var knownHash: String?

        /// O(size) where it is not known.
        package var hash: String { knownHash ?? node.hash }
    }
}

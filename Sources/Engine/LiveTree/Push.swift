import PandoBytes
import PandoTree

/// One distinct message and its recipients. The caller encodes it once, however many recipients there are.
package struct Push: Sendable {
    package enum Body: Sendable {
        /// The location now holds this, whole (§5.1).
        case overwrite(Path, Node)
        /// Several locations below the path changed at once; entries are relative and more than one (§5.2).
        case merge(Path, [Entry])
        /// The ranges that differ from a client's compound hash (§5.3).
        case rangeMerge(Path, [RangeMerge])
        /// The first data of a listen, where its computation takes long. The caller calls
        /// ``InitialState/body(knowing:)`` when it encodes the push.
        indirect case initial(InitialState)
        /// What a write above many listens means for the many of one session: a message for each that
        /// differs. The caller calls ``ChangedListens/forEach(_:)`` when it encodes the push.
        indirect case listens(ChangedListens)
    }

    package struct Entry: Sendable {
        /// Relative to the merge, never empty. Always names a node: a priority is sent as a part of its node.
        package var path: Path
        package var node: Node
    }

    package struct TaggedRecipient: Hashable, Sendable {
        package var session: SessionID
        package var tag: Int64
    }

    package var body: Body
    /// The location that the writer named, where the body is the only change of a merge: event streams show
    /// it as one (rest §8.2). Nil for all other writes.
    package var mergeBase: Path?
    /// Sessions that get the push without a tag. The arrays share storage with the engine.
    package var recipients: [ContiguousArray<SessionID>] = []
    package var taggedRecipients: [TaggedRecipient] = []
}

/// What a location held when a listen began, and which data the client had then (§4.2).
package struct InitialState: Sendable {
    package var path: Path
    /// The location's data. For a listen through a query see ``window``.
    package var node: Node
    /// The result of a query, where it takes long to make one node of it. Two states of one window that has
    /// not changed between them have the same ``Window/identity``.
    package var window: Window?
    /// The simple hash of the data that the client has; nil when the client sent none.
    package var hash: Text?
    package var compoundHash: CompoundHash?

    /// Whether ``body(knowing:)`` has to hash the data. It has not for an empty hash, which means no data.
    var needsHash: Bool { comparesSimpleHash || compoundHash != nil }

    /// Whether ``body(knowing:)`` compares the simple hash of the node.
    package var comparesSimpleHash: Bool { (hash?.utf8Count ?? 0) > 0 && !node.isEmpty }

    /// What the client has to be sent: all data, the ranges that differ, or nothing (nil).
    /// - Parameter knownHash: The simple hash of the node; nil where it is not known.
    /// - Complexity: O(size of the data) where a hash is compared.
    package func body(knowing knownHash: String?) -> Push.Body? {
        if let window {
            var state = self
            state.node = window.node
            state.window = nil
            return state.body(knowing: nil)
        }
        if let hash, isCurrent(hash, knownHash) { return nil }
        guard let compoundHash, let ranges = node.rangeMerges(against: compoundHash) else {
            return .overwrite(path, node)
        }
        if !ranges.isEmpty { return .rangeMerge(path, ranges) }
        // No range differs, but the simple hash does: a priority differs that is in no range's hash (§9.6).
        // Then all data is sent.
        return hash == nil ? nil : .overwrite(path, node)
    }

    private func isCurrent(_ hash: Text, _ knownHash: String?) -> Bool {
        if hash.utf8Count == 0 { return node.isEmpty }
        return !node.isEmpty && Text(knownHash ?? node.hash) == hash
    }
}

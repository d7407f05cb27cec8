import PandoBytes
import PandoRules
import PandoTree

/// The decision about one command: authorised, server values resolved, and not yet done. Nothing in it can
/// turn out differently when it is replayed.
package struct Delta: Sendable {
    package var session: SessionID
    package var kind: Kind
    /// Nil when the command has no result.
    package var result: CommandResult?

    package enum Kind: Sendable {
        /// Nothing changes: a read, a failed command, or a write of what is there already.
        case nothing
        /// The rules deny the operation, which is returned for an explanation.
        indirect case denied(Operation)
        /// One change: a put, a transaction whose comparison succeeded, or a priority. Alone it needs no
        /// array, and so no allocation. The commit reports a change that changed nothing
        /// (``Effects/isRedundant``).
        case put(Change)
        case write(base: Path, [Change])
        // Boxed, as in ``Operation``.
        indirect case listen(Listen)
        indirect case unlisten(Path, Query?, tag: Int64?)
        indirect case queue([Write], DisconnectQueue.Author)
        /// Removes queued writes at these paths and below. Never empty.
        case unqueue([Path])
        /// The session ends, and these changes of its queue are done. Each belongs to one of the runs.
        case endSession([Change], [AuthoredRun])

        /// Moves the change of a put out, and leaves ``nothing``. Returns nil for any other kind, and changes
        /// nothing.
        mutating func extractPut() -> Change? {
            guard case .put = self, case .put(let change) = exchange(&self, with: .nothing) else {
                return nil
            }
            return change
        }
    }

    /// Whether data changes, unless the delta turns out redundant (``Effects/isRedundant``).
    package var changesData: Bool {
        switch kind {
        case .nothing, .denied, .listen, .unlisten, .queue, .unqueue: false
        case .put: true
        case .write(_, let changes): !changes.isEmpty
        case .endSession(let changes, _): !changes.isEmpty
        }
    }

    /// Locations whose data changes: of very many, the first ones, and none whose priority alone changes.
    /// O(changes), with a limit.
    package var changedPaths: [Path] {
        switch kind {
        case .nothing, .denied, .listen, .unlisten, .queue, .unqueue: []
        case .put(let change): change.path.namesPriority ? [] : [change.path]
        case .write(_, let changes), .endSession(let changes, _):
            changes.lazy.map(\.path).filter { !$0.namesPriority }.prefix(Self.listedPathLimit).map { $0 }
        }
    }

    private static let listedPathLimit = 64

    /// Whether the delta has to be in the journal before its effects may leave, unless they turn out
    /// redundant.
    /// - Parameter hadQueue: The session had onDisconnect writes queued before the delta was committed.
    package func needsJournal(hadQueue: Bool) -> Bool {
        switch kind {
        case .nothing, .denied, .listen, .unlisten: false
        case .put, .write, .queue, .unqueue: true
        case .endSession: hadQueue
        }
    }
}

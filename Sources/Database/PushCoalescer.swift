import PandoEngine
import PandoTree

/// Replaces the pushes to sessions that read slowly by the newest values. Only the newest state of a location
/// matters to a listener: instead of every push, the paths that have changed are kept, and when the client
/// has taken what was unsent, it gets the values at that moment. The paths of a push are noted once, and all
/// sessions that lag share the note (``ChangedLocations``).
///
///     push ──▶ session keeps up: sent                          caught up, or a request of its own is done:
///         └──▶ session lags: the push's paths are noted ──▶    one push for each listen, with the values now
///
/// The pushes to a session whose listens are being checked are replaced in the same way (``AccessManager``):
/// it gets nothing until the check is done, and then what it still listens to.
///
/// So a slow reader costs memory for its paths, in number and bytes, however much others write. It never sees
/// an older value after a newer one, nor half of an update: all changed paths of one listen come in one
/// message. It misses states in between. Used by one thread at a time.
struct PushCoalescer {
    /// The changes that one session was not sent, because it lags or is being checked.
    struct MissedChanges {
        /// Where default listens had changed when ``changes`` was last emptied: in ascending order, none at
        /// or below another.
        private var paths: [Path] = []
        /// Where they have changed since, one for each push.
        private(set) var changes: [ChangedLocations] = []
        /// The locations of ``changes``.
        private var locationCount = 0
        /// Changes at the front of ``changes`` that are coarse where they can be.
        private var coarseCount = 0
        /// The tags of filtered listens whose query windows have changed.
        fileprivate(set) var tags: Set<Int64> = []
        /// Pushes after which the changes are joined into ``paths``: 32 to 63, by the session's id, so that
        /// not all sessions join theirs at the same write.
        private let joinedChangeCount: Int

        /// The client reads slowly.
        fileprivate var isLagging = false
        /// The session's listens are being checked.
        fileprivate var isInCheck = false

        fileprivate init(of session: SessionID) {
            let spread = session.rawValue % UInt64(PushCoalescer.changeLimit)
            joinedChangeCount = PushCoalescer.changeLimit + Int(spread)
        }

        var isEmpty: Bool { paths.isEmpty && changes.isEmpty && tags.isEmpty }

        /// Where default listens have changed, none at or below another; at most ``pathLimit``. O(n log n ×
        /// depth) for the n locations that are kept, at most 512.
        var changedPaths: [Path] {
            changes.isEmpty
                ? paths
                : (paths + changes.flatMap(\.paths)).topmost(
                    atMost: PushCoalescer.pathLimit, keyBytes: PushCoalescer.pathByteLimit)
        }

        /// Notes a push that is not sent. Amortised O(1), however many locations it has: all locations are
        /// joined once in 32 to 63 pushes (``changedPaths``).
        fileprivate mutating func note(_ change: ChangedLocations) {
            // The location that was noted last is often changed again.
            if let last = changes.last, last.paths.count == 1, last.paths == change.paths { return }
            changes.append(change)
            locationCount += change.paths.count
            if locationCount > PushCoalescer.pathLimit { coarsen() }
            guard changes.count >= joinedChangeCount else { return }
            paths = changedPaths
            changes.removeAll(keepingCapacity: true)
            (locationCount, coarseCount) = (0, 0)
        }

        /// Replaces changes by coarse ones, each once.
        private mutating func coarsen() {
            for index in coarseCount..<changes.count {
                guard let coarse = changes[index].coarse else { continue }
                locationCount -= changes[index].paths.count - coarse.paths.count
                changes[index] = coarse
            }
            coarseCount = changes.count
        }
    }

    /// The most locations in ``MissedChanges/paths``, and the most in ``MissedChanges/changes``: 512 for one
    /// session. Where there would be more, a location above stands for several, and its whole value is sent.
    static let pathLimit = 256
    /// Bytes of the keys of ``MissedChanges/paths``: ``pathLimit`` locations of usual depth have fewer.
    static let pathByteLimit = 64 << 10
    /// A session joins its changes into paths after 32 to 63 pushes (``MissedChanges/joinedChangeCount``).
    static let changeLimit = 32

    private var missed: [SessionID: MissedChanges] = [:]

    /// The changes that a session was not sent; nil for one that neither lags nor is being checked.
    func missedChanges(of session: SessionID) -> MissedChanges? { missed[session] }

    /// Whether no session lags or is being checked. Every push asks.
    var isEmpty: Bool { missed.isEmpty }

    /// Much is unsent to the session's client: from now on its pushes are dropped and their paths noted.
    mutating func beginLag(of session: SessionID) {
        missed[session, default: MissedChanges(of: session)].isLagging = true
    }

    /// The session's client has taken what was unsent.
    /// - Returns: The changes to be sent to it now; nil for a session that does not lag, or is being checked.
    mutating func endLag(of session: SessionID) -> MissedChanges? {
        guard missed[session]?.isInCheck == true else { return missed.removeValue(forKey: session) }
        missed[session]?.isLagging = false
        return nil
    }

    /// The session has ended.
    mutating func remove(_ session: SessionID) { missed[session] = nil }

    /// The check of the session's listens begins: until its end, its pushes are dropped, and their paths
    /// noted.
    mutating func beginCheck(of session: SessionID) {
        missed[session, default: MissedChanges(of: session)].isInCheck = true
    }

    /// The listens of a session are checked.
    /// - Returns: The changes to be sent to it now; nil for a session that still lags.
    mutating func endCheck(of session: SessionID) -> MissedChanges? {
        guard missed[session]?.isLagging == true else { return missed.removeValue(forKey: session) }
        missed[session]?.isInCheck = false
        return nil
    }

    /// Takes the changes that a session was not sent, though it still lags: they are sent before a reply. Nil
    /// where there are none, and while the session is being checked.
    mutating func takeBeforeReply(to session: SessionID) -> MissedChanges? {
        guard let changes = missed[session], !changes.isEmpty, !changes.isInCheck else { return nil }
        missed[session] = MissedChanges(of: session)
        beginLag(of: session)
        return changes
    }

    /// Takes the sessions that lag, or are being checked, out of the recipients of a write's pushes, and
    /// notes for each of them what has changed.
    /// - Parameters:
    ///   - root: The tree after the write.
    ///   - listener: The session that has begun to listen: the pushes answer it, and are sent to it. Nil for
    ///     a write.
    /// - Returns: The pushes that are to be sent, without those sessions.
    mutating func replaceForLagging(
        _ pushes: [Push], in root: Node, answering listener: SessionID? = nil
    ) -> [Push] {
        var sent: [Push] = []
        sent.reserveCapacity(pushes.count)
        for var push in pushes {
            replaceForLagging(&push, in: root, answering: listener)
            if !push.taggedRecipients.isEmpty || push.recipients.contains(where: { !$0.isEmpty }) {
                sent.append(push)
            }
        }
        return sent
    }

    private mutating func replaceForLagging(
        _ push: inout Push, in root: Node, answering listener: SessionID?
    ) {
        // Made once for all sessions that lag.
        var made: ChangedLocations?
        for (index, recipients) in push.recipients.enumerated()
        where recipients.contains(where: { $0 != listener && missed[$0] != nil }) {
            let change = made ?? ChangedLocations(of: push.body, in: root)
            made = change
            push.recipients[index] = recipients.filter { session in
                guard session != listener, let index = missed.index(forKey: session) else { return true }
                missed.values[index].note(change)
                return false
            }
        }
        push.taggedRecipients.removeAll { recipient in
            guard recipient.session != listener, let index = missed.index(forKey: recipient.session) else {
                return false
            }
            missed.values[index].tags.insert(recipient.tag)
            return true
        }
    }
}

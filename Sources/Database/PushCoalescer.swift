import PandoEngine
import PandoTree

/// What sessions that read slowly are not sent yet. Only the newest state of a location matters to a
/// listener: instead of every push, the paths that have changed are kept, and when the client has read what
/// it was sent, it gets their values of that moment.
///
///     push ──▶ session keeps up: sent                          caught up, or a request of its own is done:
///         └──▶ session lags: its paths are noted     ──▶       one push for each listen, with the values of now
///
/// The pushes to a session whose listens are being checked are withheld in the same way (``AccessManager``):
/// it gets nothing until the check is done, and then what it still listens to.
///
/// So a slow reader costs memory for its paths, however much others write. It never sees an older value after
/// a newer one, nor half of an update: all of its paths of one listen come in one message. It misses states
/// in between, as every client does that is late. Used by one thread at a time.
struct PushCoalescer {
    /// What one session was not sent.
    struct Backlog {
        /// Where default listens have changed: none lies at or below another.
        fileprivate(set) var paths: Set<Path> = []
        /// The tags of filtered listens whose query windows have changed.
        fileprivate(set) var tags: Set<Int64> = []
        /// The path that was noted last: it is often changed again.
        private var last: Path?
        /// The length of the longest path, or more.
        private var deepest = 0
        /// Different for each session, so that not all of them are shortened by the same write.
        private let limit = PushCoalescer.pathLimit + Int.random(in: 0..<PushCoalescer.pathLimit)

        /// The client reads slowly.
        fileprivate var isLagging = false
        /// The session's listens are being checked.
        fileprivate var isWithheld = false

        var isEmpty: Bool { paths.isEmpty && tags.isEmpty }

        fileprivate mutating func note(_ path: Path) {
            if last == path { return }
            last = path
            if paths.contains(path) { return }
            var above = path
            while !above.isRoot {
                above = above.parent
                if paths.contains(above) { return }
            }
            // Only where something can be below it.
            if path.count < deepest { paths = paths.filter { !path.contains($0) } }
            deepest = max(deepest, path.count)
            paths.insert(path)
            if paths.count > limit { shorten() }
        }

        /// Replaces paths by their parents, the deepest first, until they are few.
        private mutating func shorten() {
            while paths.count > limit / 2, let depth = paths.map(\.count).max(), depth > 0 {
                var shorter: Set<Path> = []
                for path in paths { shorter.insert(path.count == depth ? path.parent : path) }
                // A new parent may be above other paths.
                paths = shorter.filter { path in
                    var above = path
                    while !above.isRoot {
                        above = above.parent
                        if shorter.contains(above) { return false }
                    }
                    return true
                }
                deepest = depth - 1
            }
            last = nil
        }
    }

    /// Paths that are kept for one session; beyond it, locations above them are sent as a whole.
    static let pathLimit = 128

    private var backlogs: [SessionID: Backlog] = [:]

    /// Whether no session lags. Every push asks.
    var isEmpty: Bool { backlogs.isEmpty }

    /// From now on, the pushes to this session are held.
    mutating func begin(_ session: SessionID) {
        backlogs[session, default: Backlog()].isLagging = true
    }

    /// The session has read what it was sent.
    /// - Returns: What it was not sent and is to be sent now; nil for a session that does not lag.
    mutating func end(_ session: SessionID) -> Backlog? {
        guard backlogs[session]?.isWithheld == true else { return backlogs.removeValue(forKey: session) }
        backlogs[session]?.isLagging = false
        return nil
    }

    /// The session has ended.
    mutating func remove(_ session: SessionID) { backlogs[session] = nil }

    /// From now on, nothing is sent to this session but what its check leads to.
    mutating func withhold(_ session: SessionID) { backlogs[session, default: Backlog()].isWithheld = true }

    /// The listens of a session are checked.
    /// - Returns: What it was not sent and is to be sent now.
    mutating func release(_ session: SessionID) -> Backlog? {
        guard backlogs[session]?.isLagging == true else { return backlogs.removeValue(forKey: session) }
        backlogs[session]?.isWithheld = false
        return nil
    }

    /// Takes what a session that still lags was not sent, to send it now: before a reply.
    mutating func take(of session: SessionID) -> Backlog? {
        guard let backlog = backlogs[session], !backlog.isEmpty, !backlog.isWithheld else { return nil }
        backlogs[session] = Backlog()
        begin(session)
        return backlog
    }

    /// Removes the sessions that lag from the recipients of a write's pushes.
    /// - Parameters:
    ///   - root: The tree after the write.
    ///   - listener: The session that has begun to listen: the pushes answer it, and are sent to it. Nil for
    ///     a write.
    mutating func hold(_ pushes: [Push], in root: Node, answering listener: SessionID? = nil) -> [Push] {
        var sent: [Push] = []
        sent.reserveCapacity(pushes.count)
        for var push in pushes {
            hold(&push, in: root, answering: listener)
            if !push.taggedRecipients.isEmpty || push.recipients.contains(where: { !$0.isEmpty }) {
                sent.append(push)
            }
        }
        return sent
    }

    private mutating func hold(_ push: inout Push, in root: Node, answering listener: SessionID?) {
        // Computed once for all sessions that lag.
        var paths: [Path]?
        for (index, group) in push.recipients.enumerated()
        where group.contains(where: { $0 != listener && backlogs[$0] != nil }) {
            let changed = paths ?? Self.paths(of: push.body, in: root)
            paths = changed
            push.recipients[index] = group.filter { session in
                guard session != listener, let place = backlogs.index(forKey: session) else { return true }
                for path in changed { backlogs.values[place].note(path) }
                return false
            }
        }
        push.taggedRecipients.removeAll { recipient in
            guard recipient.session != listener, let place = backlogs.index(forKey: recipient.session) else {
                return false
            }
            backlogs.values[place].tags.insert(recipient.tag)
            return true
        }
    }

    /// The locations that a push is about. For a removal, the highest one that was removed with it: were it
    /// filled again before it is sent, what it lost in between (a priority) would be missed.
    private static func paths(of body: Push.Body, in root: Node) -> [Path] {
        func place(_ path: Path, _ node: Node) -> Path {
            var path = path
            while node.isEmpty, !path.isRoot, root[path.parent].isEmpty { path = path.parent }
            return path
        }
        switch body {
        case .overwrite(let path, let node): return [place(path, node)]
        case .merge(let base, let entries):
            return entries.map { place(base.appending($0.path.keys), $0.node) }
        // Replies to a listen, which are not held.
        case .rangeMerge(let path, _): return [path]
        case .initial(let state): return [state.path]
        case .listens(let changed): return changed.alterations.all.map { place($0.path, $0.new) }
        }
    }
}

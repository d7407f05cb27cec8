import PandoBytes
import PandoRules
import PandoTree

/// One database: a deterministic state machine that decides, then commits.
///
///     Command ── decide ──▶ Delta ── commit ──▶ Effects
///                reads        │      changes
///                             └─ journal entry
///
/// `decide` reads the state and changes nothing; `commit` changes the state and cannot fail. The same
/// commands in the same order give the same tree, the same deltas and the same effects on every machine. No
/// clock, no random bits, no order of a hash table is in here.
///
/// Nobody copies it: whoever asks it something asks it where it is. (A copy would count every part of it anew
/// for each question, and make the next change copy all that is known of sessions.)
package struct Engine: ~Copyable, Sendable {
    /// The tree. A copy is a snapshot.
    package private(set) var root: Node
    package var access: Access
    var listeners = ListenerTable()
    var sessions: [SessionID: SessionState] = [:]
    var hashes = HashCache()
    /// For the listen that comes next.
    var preparedWindow: PreparedWindow?
    /// See ``takeReplaced()``.
    private var replaced: [Node] = []

    package init(root: Node = .empty, access: Access) {
        self.root = root
        self.access = access
    }

    /// Decides and commits at once.
    package mutating func run(_ command: Command) -> (Delta, Effects) {
        let delta = decide(copy command)
        return (delta, commit(copy delta))
    }

    /// True when the session has onDisconnect writes queued.
    package func hasQueue(_ session: SessionID) -> Bool {
        sessions[session]?.queue.isEmpty == false
    }

    /// The data of what the session has queued, in the order in which its end writes it. O(queue).
    package func queuedNodes(of session: SessionID) -> [Node] { sessions[session]?.queue.nodes ?? [] }

    /// Sessions with queued onDisconnect writes, in ascending order: after a crash, all of them have ended.
    package var sessionsWithQueue: [SessionID] {
        sessions.filter { !$0.value.queue.isEmpty }.map(\.key).sorted { $0.rawValue < $1.rawValue }
    }

    /// Does what the delta says, and tells who must hear of it. O(changes × depth + listeners told).
    package mutating func commit(_ delta: consuming Delta) -> Effects {
        let session = delta.session
        var effects = Effects(reply: delta.reply.take())
        // Taken out, so that its parts are not counted anew.
        var kind = Delta.Kind.nothing
        swap(&kind, &delta.kind)
        switch consume kind {
        case .nothing, .denied: break
        case .put(let change):
            hashes.invalidate(change.path)
            effects.isRedundant = !put(consume change, &effects)
        case .write(let base, let changes):
            invalidateHashes(changes)
            write(changes, base: base, &effects)
        case .listen(let listen): effects.pushes = begin(listen, for: session)
        case .unlisten(let path, let query, let tag): end(path, query, tag, for: session)
        case .queue(let writes, let author): queue(writes, by: [author], for: session)
        case .unqueue(let paths): for path in paths { cancelQueued(at: path, of: session) }
        case .endSession(let changes):
            // Listens first: the dead are told nothing.
            endAllListens(of: session)
            sessions[session] = nil
            invalidateHashes(changes)
            write(changes, base: .root, &effects)
        }
        return effects
    }

    /// Large nodes that commits have taken out of the tree since the last call, nil for none: to free a
    /// million children takes a tenth of a second, which a host may leave to another thread.
    package mutating func takeReplaced() -> [Node]? {
        if replaced.isEmpty { return nil }
        var taken: [Node] = []
        swap(&taken, &replaced)
        return taken
    }

    /// Printed bytes from which on a node is left to be freed: what takes some twenty microseconds.
    private static let inlineFreeByteCount = 16 << 10

    /// Keeps what was in the tree if it is large.
    private mutating func note(replaced node: consuming Node) {
        // Most are leaves, which are not weighed.
        switch node {
        case .object, .prioritized:
            if node.isHeavier(than: Self.inlineFreeByteCount) { replaced.append(node) }
        case .empty, .boolean, .integer, .double, .string: break
        }
    }

    private mutating func invalidateHashes(_ changes: [Change]) {
        guard !hashes.isEmpty else { return }
        for change in changes { hashes.invalidate(change.path) }
    }

    /// Whether the delta is a put of what is there already: what its commit would tell
    /// (``Effects/isRedundant``).
    package func isRedundant(_ delta: Delta) -> Bool {
        if case .put(let change) = delta.kind { isThere(change) } else { false }
    }

    /// Of a priority always false: whoever decided looked.
    private func isThere(_ change: Change) -> Bool {
        !change.path.namesPriority && root.holds(change.node, at: change.path)
    }

    /// Does the change of a put, and says who hears what.
    /// - Returns: false when it is there already.
    private mutating func put(_ change: consuming Change, _ effects: inout Effects) -> Bool {
        if listeners.isEmpty {
            var old = Node.empty
            guard root.update(with: change, replaced: &old) else { return false }
            note(replaced: consume old)
            return true
        }
        if isThere(change) { return false }
        write(change, &effects)
        return true
    }

    /// Does a change, which is one, and says who hears what.
    private mutating func write(_ change: consuming Change, _ effects: inout Effects) {
        if change.path.namesPriority {
            let whole = change.path.parent
            return effects.pushes = write([change], telling: [whole], base: .root)
        }
        listeners.watch(change.path, in: root)
        let old = root.exchange(copy change)
        effects.pushes = listeners.pushes(for: change, old: old, in: root)
        note(replaced: consume old)
    }

    /// Does the changes, and says who hears what.
    private mutating func write(_ changes: [Change], base: Path, _ effects: inout Effects) {
        guard !listeners.isEmpty else {
            for change in changes {
                if change.path.namesPriority {
                    root.apply(change)
                } else {
                    note(replaced: root.exchange(change))
                }
            }
            return
        }
        if changes.count == 1 { return write(changes[0], &effects) }
        if let told = root.locationsToTell(of: changes) {
            return effects.pushes = write(changes, telling: told, base: base)
        }
        for change in changes { listeners.watch(change.path, in: root) }
        var olds: [Node] = []
        olds.reserveCapacity(changes.count)
        for change in changes { olds.append(root.exchange(change)) }
        effects.pushes = listeners.pushes(for: changes, olds: olds, base: base, in: root)
        for old in olds { note(replaced: old) }
    }

    /// As ``write(_:base:)``, when what is told is not what is done.
    private mutating func write(_ changes: [Change], telling paths: [Path], base: Path) -> [Push] {
        let olds = paths.map { root[$0] }
        for path in paths { listeners.watch(path, in: root) }
        for change in changes { root.apply(change) }
        let told = paths.map { Change(path: $0, node: root[$0]) }
        if told.count == 1 { return listeners.pushes(for: told[0], old: olds[0], in: root) }
        return listeners.pushes(for: told, olds: olds, base: base, in: root)
    }

    /// Takes a tree as it was written down. Listeners are not told: there are none yet.
    package mutating func restore(_ change: Change) {
        root.apply(change)
    }

    /// Takes a part of a tree as it was written down.
    mutating func restore(_ part: TreePart) throws(UnreadableRecord) {
        switch part {
        case .node(let path, let node): root.set(node, at: path)
        case .priority(let path, let priority): root.set(priority: priority, at: path)
        case .children(let path, var entries):
            guard root.append(&entries, at: path) else {
                throw UnreadableRecord(reason: "children out of order at \(path)")
            }
        }
    }

    // MARK: Queues

    mutating func queue(_ writes: [Write], by authors: [DisconnectQueue.Author], for session: SessionID) {
        guard !writes.isEmpty else { return }
        sessions[session, default: SessionState()].queue.add(writes, by: authors)
    }

    mutating func cancelQueued(at path: Path, of session: SessionID) {
        sessions[session]?.queue.cancel(at: path)
        if sessions[session]?.isIdle == true { sessions[session] = nil }
    }

    /// Forgets all that a session queued, without running it.
    mutating func clearQueue(of session: SessionID) {
        sessions[session]?.queue = DisconnectQueue()
        if sessions[session]?.isIdle == true { sessions[session] = nil }
    }

    /// What is kept for listens and sessions, for tests: points of the listener trie, the root included, and
    /// sessions with anything to remember. Traps when something was left behind that nobody needs.
    /// O(listens).
    package func checkInvariants() -> (points: Int, sessions: Int) {
        precondition(sessions.values.allSatisfy { !$0.isIdle }, "an idle session was left behind")
        for state in sessions.values {
            state.queue.checkInvariants()
            for (path, isCovered) in state.defaultListens {
                precondition(state.hasDefaultListen(covering: path, strictly: true) == isCovered, "\(path)")
            }
        }
        return (listeners.checkInvariants(), sessions.count)
    }
}

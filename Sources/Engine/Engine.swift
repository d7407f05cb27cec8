import PandoBytes
import PandoRules
import PandoTree

/// One database: a deterministic state machine (design: decide, then commit).
///
///     Command ── decide ──▶ Delta ── commit ──▶ Effects
///                reads        │      changes
///                             └─ journal entry
///
/// `decide` reads the state and changes nothing; `commit` changes the state and cannot fail. The same commands in
/// the same order give the same tree, the same deltas and the same effects on every machine. No clock, no random
/// bits, no order of a hash table is in here.
package struct Engine: Sendable {
    /// The tree. A copy is a snapshot.
    package private(set) var root: Node
    package var access: Access
    var listeners = ListenerTable()
    var sessions: [SessionID: SessionState] = [:]

    package init(root: Node = .empty, access: Access) {
        self.root = root
        self.access = access
    }

    /// Decides and commits at once.
    package mutating func run(_ command: Command) -> (Delta, Effects) {
        let delta = decide(command)
        return (delta, commit(delta))
    }

    /// True when the session has onDisconnect writes queued.
    package func hasQueue(_ session: SessionID) -> Bool {
        sessions[session]?.queue.isEmpty == false
    }

    /// Sessions with queued onDisconnect writes, in ascending order: after a crash, all of them have ended.
    package var sessionsWithQueue: [SessionID] {
        sessions.filter { !$0.value.queue.isEmpty }.keys.sorted { $0.rawValue < $1.rawValue }
    }

    /// Does what the delta says, and tells who must hear of it. O(changes × depth + listeners told).
    package mutating func commit(_ delta: Delta) -> Effects {
        var effects = Effects(reply: delta.reply)
        switch delta.kind {
        case .nothing: break
        case .write(let base, let changes): effects.pushes = write(changes, base: base)
        case .listen(let listen): effects.pushes = begin(listen, for: delta.session)
        case .unlisten(let path, let query, let tag):
            end(path, query, tag, for: delta.session)
        case .queue(let writes, let credential):
            sessions[delta.session, default: SessionState()].queue.add(writes, as: credential)
        case .unqueue(let path):
            sessions[delta.session]?.queue.cancel(at: path)
        case .endSession(let changes):
            // Listens first: the dead are told nothing.
            endAllListens(of: delta.session)
            sessions[delta.session] = nil
            effects.pushes = write(changes, base: .root)
        }
        return effects
    }

    private mutating func write(_ changes: [Change], base: Path) -> [Push] {
        let watch = listeners.watch(changes, in: root)
        var olds: [Node] = []
        olds.reserveCapacity(changes.count)
        for change in changes { olds.append(root.apply(change)) }
        return listeners.pushes(for: changes, olds: olds, base: base, watch: watch, root: root)
    }

    /// Takes a tree as it was written down. Listeners are not told: there are none yet.
    mutating func restore(_ change: Change) {
        root.apply(change)
    }
}

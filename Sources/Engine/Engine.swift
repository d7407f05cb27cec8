import PandoBytes
import PandoRules
import PandoTree

/// One database as a deterministic state machine that decides, then commits.
///
///     Command ── decide ──▶ Delta ── commit ──▶ Effects
///                reads        │      changes
///                             └─ records for the journal
///
/// `decide` reads the state and changes nothing; `commit` changes the state and cannot fail. The same commands in
/// the same order give the same tree, the same deltas and the same effects on every machine: nothing here depends
/// on a clock, on random bits or on the order of a hash table.
///
/// An engine cannot be copied. A copy would retain every part of it for each question, and the next change would
/// copy the listens of all sessions. For a snapshot copy ``root``.
package struct Engine: ~Copyable, Sendable {
    /// The tree. A copy is a snapshot. O(1).
    package private(set) var root: Node
    package var access: Access { didSet { indexes.declare(IndexDeclarations(access)) } }
    var listens = ListenRegistry()
    var queues = DisconnectQueues()
    var hashes = HashCache()
    let indexes = IndexCatalog()
    /// Of live aggregates that other threads have computed.
    var scanPushes: [Push] = []
    /// A window that was made for the next listen.
    var preparedWindow: PreparedWindow?
    /// What was done before for the next write; nil mostly.
    package internal(set) var preparedWrite: PreparedWrite?
    /// Of a prepared merge: its location's data when it is done.
    var mergeResult: Node?
    /// Listens of one session, at most ``largestListenLimit``.
    package var listenLimit = SessionListens.limit
    /// Paths with onDisconnect writes of one session, at most ``largestDisconnectLimit``.
    package var disconnectLimit = DisconnectQueue.capacity
    package static let largestListenLimit = SessionListens.limit
    package static let largestDisconnectLimit = DisconnectQueue.capacity
    /// Large nodes that commits have removed from the tree: see ``removeReplacedNodes()``.
    var replaced = ReplacedNodes()

    package init(root: Node = .empty, access: Access) {
        self.root = root
        self.access = access
        indexes.declare(IndexDeclarations(access))
    }

    /// Decides and commits one command.
    package mutating func execute(_ command: Command) -> (Delta, Effects) {
        let delta = decide(copy command)
        return (delta, commit(copy delta))
    }

    /// Whether the session has onDisconnect writes queued. O(1).
    package func hasQueue(_ session: SessionID) -> Bool {
        queues.contains(session)
    }

    /// The data of the session's queued writes, in the order in which its end writes them. O(queue).
    package func queuedNodes(of session: SessionID) -> [Node] { queues[session]?.nodes ?? [] }

    /// Sessions with queued onDisconnect writes, in ascending order. After a crash all of them have ended.
    /// O(sessions).
    package var sessionsWithQueue: [SessionID] {
        queues.sessions.sorted { $0.rawValue < $1.rawValue }
    }

    /// Does what the delta says.
    /// - Parameter delta: Decided by this engine, with no commit in between.
    /// - Complexity: O(changes × depth × log n + listeners that get a push).
    package mutating func commit(_ delta: consuming Delta) -> Effects {
        let session = delta.session
        var effects = Effects(result: delta.result.take())
        // Moved out, so that no reference is counted.
        let kind = exchange(&delta.kind, with: .nothing)
        switch consume kind {
        case .nothing, .denied: break
        case .put(let change):
            hashes.invalidate(change.path)
            effects.isRedundant = !put(consume change, &effects)
        case .write(let base, let changes):
            if let result = mergeResult, let merge = preparedWrite?.merge {
                write(merge, result, &effects)
            } else {
                hashes.invalidate(changes)
                write(changes, base: base, &effects)
            }
        case .listen(let listen): effects.pushes = begin(listen, for: session)
        case .unlisten(let path, let query, let tag): end(path, query, tag, for: session)
        case .queue(let writes, let author): queues.add(writes, by: [author], to: session)
        case .unqueue(let paths): for path in paths { queues.cancel(at: path, of: session) }
        case .endSession(let changes, _):
            // Listens first: the closed connection gets no push of its own writes.
            endAllListens(of: session)
            queues.removeAll(of: session)
            hashes.invalidate(changes)
            write(changes, base: .root, &effects)
        }
        return effects
    }

    /// Removes and returns the large nodes that commits have taken out of the tree since the last call; nil for
    /// none. To free a million children takes a tenth of a second, which a host may leave to another thread.
    package mutating func removeReplacedNodes() -> [Node]? { replaced.removeAll() }

    /// Whether the delta is a put of a value that its location holds already: what its commit would report as
    /// ``Effects/isRedundant``. O(depth + size of the value).
    package func isRedundant(_ delta: Delta) -> Bool {
        if case .put(let change) = delta.kind { isPresent(change) } else { false }
    }

    /// Whether the tree holds the value already. For a priority always false: the decision has compared it.
    private func isPresent(_ change: Change) -> Bool {
        !change.path.namesPriority && root.holds(change.node, at: change.path)
    }

    /// Does the change of a put, and makes its pushes.
    /// - Returns: false when the location held the value already.
    private mutating func put(_ change: consuming Change, _ effects: inout Effects) -> Bool {
        if listens.table.isEmpty, indexes.ignoresWrites {
            var old = Node.empty
            guard root.update(with: change, replaced: &old) else { return false }
            replaced.store(consume old)
            return true
        }
        if isPresent(change) { return false }
        write(change, &effects)
        return true
    }

    /// Does one change that changes something, and makes its pushes.
    private mutating func write(_ change: consuming Change, _ effects: inout Effects) {
        if change.path.namesPriority {
            let whole = change.path.parent
            return effects.pushes = write([change], pushing: [whole], base: .root)
        }
        listens.table.capturePreimages(at: change.path, in: root)
        let old = perform(copy change)
        effects.pushes = listens.table.pushes(for: change, old: old, in: root, indexes)
        replaced.store(consume old)
    }

    /// Does several changes, and makes their pushes.
    private mutating func write(_ changes: [Change], base: Path, _ effects: inout Effects) {
        guard !listens.table.isEmpty else {
            guard indexes.ignoresWrites else {
                for old in perform(changes) { replaced.store(old) }
                return
            }
            for change in changes {
                if change.path.namesPriority {
                    root.apply(change)
                } else {
                    replaced.store(root.exchange(change))
                }
            }
            return
        }
        if changes.count == 1 { return write(changes[0], &effects) }
        if let locations = root.locationsToPush(of: changes) {
            return effects.pushes = write(changes, pushing: locations, base: base)
        }
        for change in changes { listens.table.capturePreimages(at: change.path, in: root) }
        let olds = perform(changes)
        effects.pushes = listens.table.pushes(for: changes, olds: olds, base: base, in: root, indexes)
        for old in olds { replaced.store(old) }
    }

    /// Does several changes whose pushes are not the changes themselves but the new values of `paths`.
    private mutating func write(_ changes: [Change], pushing paths: [Path], base: Path) -> [Push] {
        let olds = paths.map { root[$0] }
        for path in paths { listens.table.capturePreimages(at: path, in: root) }
        for old in perform(changes) { replaced.store(old) }
        // The old values hold what was replaced; it is freed with them.
        defer { for old in olds { replaced.store(old) } }
        let pushed = paths.map { Change(path: $0, node: root[$0]) }
        if pushed.count == 1 { return listens.table.pushes(for: pushed[0], old: olds[0], in: root, indexes) }
        return listens.table.pushes(for: pushed, olds: olds, base: base, in: root, indexes)
    }

    /// Does one change that names no priority, in the tree and in its indexes.
    /// - Returns: The previous value.
    mutating func perform(_ change: consuming Change) -> Node {
        if indexes.ignoresWrites { return root.exchange(change) }
        indexes.capture(change.path, in: root)
        let old = root.exchange(copy change)
        indexes.follow(in: root)
        indexes.replace(at: change.path, old, with: change.node)
        indexes.noteGrowth(by: change.path, change.node, in: root)
        indexes.evictBeyondLimit()
        return old
    }

    /// Does changes, in the tree and in its indexes.
    /// - Returns: The previous values; `.empty` for a priority.
    private mutating func perform(_ changes: [Change]) -> [Node] {
        let ignoresWrites = indexes.ignoresWrites
        if !ignoresWrites { for change in changes { indexes.capture(change.path, in: root) } }
        var olds: [Node] = []
        olds.reserveCapacity(changes.count)
        for change in changes {
            if change.path.namesPriority {
                root.apply(change)
                olds.append(.empty)
            } else {
                olds.append(root.exchange(change))
            }
        }
        guard !ignoresWrites else { return olds }
        indexes.follow(in: root)
        for (change, old) in zip(changes, olds) {
            indexes.replace(at: change.path, old, with: change.node)
            indexes.noteGrowth(by: change.path, change.node, in: root)
        }
        indexes.evictBeyondLimit()
        return olds
    }

    /// Does a change that a journal or an import holds. There are no listeners yet, so there are no pushes.
    package mutating func restore(_ change: Change) {
        root.apply(change)
    }

    /// Adds a part of a tree that a checkpoint holds.
    /// - Throws: For children that do not follow those of an earlier part.
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

    // MARK: Invariants

    /// Counts the nodes of the listener trie (the root included) and the sessions that have listens or queued writes;
    /// for tests. Traps when any state is left that nothing needs, or an index is wrong. O(listens × depth + queues +
    /// children of indexed locations).
    package func checkInvariants() -> (nodes: Int, sessions: Int) {
        queues.checkInvariants()
        indexes.checkInvariants(of: root)
        return (listens.checkInvariants(), Set(listens.sessions).union(queues.sessions).count)
    }
}

import PandoBytes
import PandoRules
import PandoTree

/// One database as a deterministic state machine that decides, then commits.
///
///     Command ── decide ──▶ Delta ── commit ──▶ Effects
///                reads        │      changes
///                             └─ records for the journal
///
/// `decide` reads the state and changes nothing; `commit` changes the state and cannot fail. The same
/// commands in the same order give the same tree, the same deltas and the same effects on every machine:
/// nothing here depends on a clock, on random bits or on the order of a hash table.
///
/// What it has to say about the data itself (indexes, windows, hashes, listens) is in ``tree``.
package struct Engine: ~Copyable, Sendable {
    /// The data, with its indexes, hashes and listens.
    package var tree: LiveTree
    package var access: Access { didSet { tree.declareIndexes(of: access) } }
    var queues = DisconnectQueues()
    /// What was done before for the next write; nil mostly.
    package internal(set) var preparedWrite: PreparedWrite?
    /// What the rules of one command may cost.
    let ruleStepBudget = RuleStepBudget()
    /// Queues of sessions that have ended, as far as they take long to free.
    private var endedQueues: [DisconnectQueue] = []
    /// Of a prepared merge: its location's data when it is done.
    var mergeResult: JoinedChanges.Result?
    /// Listens of one session, at most ``largestListenLimit``.
    package var listenLimit = SessionListens.limit
    /// Paths with onDisconnect writes of one session, at most ``largestDisconnectLimit``.
    package var disconnectLimit = DisconnectQueue.capacity
    /// Bytes that the listens of one session may take, at most ``largestListenByteLimit``.
    package var listenByteLimit: Int {
        get { tree.listens.byteLimit }
        set { tree.listens.byteLimit = newValue }
    }
    /// Never read: see ``PassedByAddress``.
    private let passing = PassedByAddress()
    package static let largestListenByteLimit = SessionListens.byteLimit
    package static let largestListenLimit = SessionListens.limit
    package static let largestDisconnectLimit = DisconnectQueue.capacity

    package init(root: Node = .empty, access: Access) {
        tree = LiveTree(root: root)
        self.access = access
        tree.declareIndexes(of: access)
    }

    /// From now on the rules of one command take no more steps than a thread may take that others wait for:
    /// what takes more, the caller has another thread decide (``takeExhaustion()``).
    package func limitRuleSteps() {
        ruleStepBudget.writeStepCount = RulesLimits.stepsAtOnce
        ruleStepBudget.readStepCount = RulesLimits.readStepCount
    }

    /// Removes and returns the large queues of sessions that have ended since the last call; nil for none.
    package mutating func removeEndedQueues() -> [DisconnectQueue]? {
        endedQueues.isEmpty ? nil : exchange(&endedQueues, with: [])
    }

    /// The data. A copy is a snapshot. O(1).
    package var root: Node { tree.root }

    /// Decides and commits one command.
    package mutating func execute(_ command: Command) -> (Delta, Effects) {
        let delta = decide(copy command)
        return (delta, commit(copy delta))
    }

    /// Whether the session has onDisconnect writes queued. O(1).
    package func hasQueue(_ session: SessionID) -> Bool {
        queues.contains(session)
    }

    /// About the bytes of memory that the session's listens and queued writes take. O(1).
    package func heldByteCount(of session: SessionID) -> Int {
        tree.listenByteCount(of: session) + (queues[session]?.heldByteCount ?? 0)
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
        if let change = delta.kind.extractPut() {
            if let pushes = tree.put(consume change) {
                effects.pushes = pushes
                tree.chargeResizedWindows()
            } else {
                effects.isRedundant = true
            }
            return effects
        }
        switch exchange(&delta.kind, with: .nothing) {
        case .nothing, .denied, .put: break
        case .write(let base, let changes):
            if let result = mergeResult, let merge = preparedWrite?.merge {
                effects.pushes = tree.write(merge.joined, as: result)
            } else {
                effects.pushes = tree.write(changes, base: base)
            }
        case .listen(let listen): effects.pushes = tree.begin(listen, for: session)
        case .unlisten(let path, let query, let tag): tree.end(path, query, tag, for: session)
        case .queue(let writes, let author): queues.add(writes, by: [author], to: session)
        case .unqueue(let paths): for path in paths { queues.cancel(at: path, of: session) }
        case .endSession(let changes, _):
            // Listens first: the closed connection gets no push of its own writes.
            tree.endAllListens(of: session)
            let end = preparedEnd(of: session)
            if let queue = queues.removeAll(of: session), queue.count > Self.judgedQueueCountAtOnce {
                endedQueues.append(queue)
            }
            if end != nil, !changes.isEmpty, let result = mergeResult, let merge = preparedWrite?.merge {
                effects.pushes = tree.write(merge.joined, as: result)
            } else {
                effects.pushes = tree.write(changes, base: nil)
            }
        }
        tree.chargeResizedWindows()
        return effects
    }

    /// Whether the delta is a put of a value that its location holds already: what its commit would report as
    /// ``Effects/isRedundant``. O(depth + size of the value).
    package func isRedundant(_ delta: Delta) -> Bool {
        if case .put(let change) = delta.kind { tree.isPresent(change) } else { false }
    }

    // MARK: Invariants

    /// Counts the nodes of the listener trie (the root included) and the sessions that have listens or queued
    /// writes; for tests. Traps when any state is left that nothing needs, or an index is wrong. O(listens ×
    /// depth + queues + children of indexed locations).
    package func checkInvariants() -> (nodes: Int, sessions: Int) {
        queues.checkInvariants()
        return (tree.checkInvariants(), Set(tree.listens.sessions).union(queues.sessions).count)
    }
}

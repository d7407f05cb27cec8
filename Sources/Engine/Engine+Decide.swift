import PandoBytes
import PandoRules
import PandoTree

extension Engine {
    /// Decides what a command does to the tree as it is now. Changes nothing.
    /// - Complexity: O(depth) and what the rules cost, for a put; O(size of the location) for a transaction
    ///   whose hash is not known (``nodeToHash(at:comparedWith:)``).
    package func decide(_ command: consuming Command) -> Delta {
        // Moved out: the parts of a put move on into its delta, so that no reference is counted.
        let operation = exchange(&command.operation, with: .endSession)
        let command = command
        switch consume operation {
        case .listen(let listen):
            return decideListen(command, listen)
        case .unlisten(let path, let query, let tag):
            return delta(command, .unlisten(path, query, tag: tag), .ok)
        case .get(let path, let query):
            guard mayRead(path, query, as: command.credential, at: command.time)
            else { return denial(command, .get(path, query)) }
            return delta(command, .nothing, read(path, query))
        case .put(let write):
            guard mayPut(write, command) else { return denial(command, .put(write)) }
            return decideSet(command, write)
        case .transaction(let write, let expectedHash, let wantsCurrentValue):
            return decideTransaction(command, write, expectedHash, wantsCurrentValue)
        case .merge(let base, let writes):
            return decideMerge(command, base, writes)
        case .onDisconnect(let writes, let signIn):
            return decideQueueing(command, writes, signIn)
        case .cancelOnDisconnect(let path):
            guard hasQueue(command.session) else { return delta(command, .nothing, .ok) }
            return delta(command, .unqueue([path]), .ok)
        case .revokeOnDisconnect(let signIns):
            let paths = queues[command.session]?.paths(by: signIns) ?? []
            return Delta(session: command.session, kind: paths.isEmpty ? .nothing : .unqueue(paths))
        case .endSession:
            let (changes, runs) =
                preparedEnd(of: command.session).map { ($0.changes, $0.runs) }
                ?? queuedChanges(of: command.session, at: command.time)
            return Delta(session: command.session, kind: .endSession(changes, runs))
        }
    }

    private func decideListen(_ command: Command, _ listen: Listen) -> Delta {
        guard mayRead(listen.path, Self.visible(listen.query), as: command.credential, at: command.time)
        else { return denial(command, .listen(listen)) }
        guard (listen.query == nil) == (listen.tag == nil) else {
            return failure(command, "A query and a tag belong together")
        }
        let own = tree.listens[command.session]
        guard (own?.count ?? 0) < min(listenLimit, SessionListens.limit) else {
            return excess(command, .listens)
        }
        let byteLimit = min(listenByteLimit, SessionListens.byteLimit)
        guard (own?.byteCount ?? 0) + ListenCost.bytes(of: listen) <= byteLimit else {
            return excess(command, .listenBytes)
        }
        if let query = listen.query {
            guard (own?.filteredCounts[listen.path] ?? 0) < SessionListens.filteredLimit,
                own?.hasSpace(forWindowOf: query, at: listen.path) != false
            else { return excess(command, .filteredListens) }
            if let tag = listen.tag {
                let hasSpace = tree.listens.table.hasSpace(
                    forTag: tag, of: query, at: listen.path, in: command.session)
                guard hasSpace else { return excess(command, .filteredListens) }
            }
            if !query.aggregates.isEmpty, let refusal = refusal(of: query, listen, command) {
                return refusal
            }
        }
        return delta(command, .listen(listen), .listening)
    }

    /// - Parameter signIn: See ``DisconnectQueue/Author``.
    private func decideQueueing(_ command: Command, _ writes: [Write], _ signIn: UInt32) -> Delta {
        guard writes.isEmpty || mayWrite(command, writes, changes(of: writes, at: command.time))
        else { return denial(command, .onDisconnect(writes, signIn: signIn)) }
        guard writes.allSatisfy(\.isPriorityValid) else { return failure(command, Self.invalidPriority) }
        let author = DisconnectQueue.Author(credential: command.credential, signIn: signIn)
        guard queues.canAdd(writes, by: author, to: command.session),
            disconnectLimit >= DisconnectQueue.capacity
                || (queues[command.session]?.count ?? 0) + writes.count <= disconnectLimit
        else { return excess(command, .onDisconnects) }
        return delta(command, writes.isEmpty ? .nothing : .queue(writes, author), .ok)
    }

    /// Why a live aggregate has no place; nil where it has.
    private func refusal(of query: Query, _ listen: Listen, _ command: Command) -> Delta? {
        if let own = tree.listens[command.session], own.aggregateCount >= SessionListens.aggregateLimit {
            return excess(command, .aggregates)
        }
        return tree.listens.table.hasSpace(forAggregate: query, at: listen.path)
            ? nil : failure(command, "Too many different live aggregates at this location")
    }

    private func delta(_ command: Command, _ kind: Delta.Kind, _ result: CommandResult) -> Delta {
        Delta(session: command.session, kind: kind, result: result)
    }

    private func denial(_ command: Command, _ operation: Operation) -> Delta {
        delta(command, .denied(operation), .permissionDenied)
    }

    private func failure(_ command: Command, _ reason: StaticString) -> Delta {
        delta(command, .nothing, .failed(reason))
    }

    private func excess(_ command: Command, _ limit: SessionLimit) -> Delta {
        delta(command, .nothing, .limitExceeded(limit))
    }

    private static let invalidPriority: StaticString = "A priority must be null, a number or a string"
    private static let missingNode: StaticString = "A priority can't be set on a location without data"

    /// The data of a location, or the result of a query (§4.4, §7.4). A query that visits many children is
    /// left to the caller.
    private func read(_ path: Path, _ query: Query?) -> CommandResult {
        let node = tree.root[path]
        guard let query, !query.loadsAllData else { return .data(node) }
        let indexed = tree.indexed(query, at: path)
        if indexed.visits(moreThan: LiveTree.inlineQueryChildCount, of: node) {
            return .filtered(node, indexed)
        }
        return .data(indexed.result(over: node))
    }

    // MARK: Writes

    private func decideTransaction(
        _ command: Command, _ write: consuming Write, _ expectedHash: Text, _ wantsCurrentValue: Bool
    ) -> Delta {
        // Permission first, hash second. In the other order a client without permission could test guesses.
        guard mayPut(write, command) else {
            return denial(
                command, .transaction(write, expectedHash: expectedHash, wantsCurrentValue: wantsCurrentValue)
            )
        }
        let path = write.target.fullPath
        let current = tree.root.value(at: path)
        let (isEqual, hash) = compare(current, at: path, with: expectedHash)
        guard isEqual else {
            let stale = staleResult(
                current, hash: hash, at: write.target, wantsCurrentValue: wantsCurrentValue,
                for: command.session, as: command.credential, at: command.time)
            return delta(command, .nothing, stale)
        }
        return decideSet(command, write)
    }

    /// Decides a write of one location that is permitted.
    private func decideSet(_ command: Command, _ write: consuming Write) -> Delta {
        guard write.isPriorityValid else { return failure(command, Self.invalidPriority) }
        if write.target.isPriority {
            let current = tree.root[write.target.path]
            let change = resolve(write, at: command.time)
            guard !current.isEmpty else { return failure(command, Self.missingNode) }
            guard Priority(change.node) != current.priority else { return delta(command, .nothing, .ok) }
            return delta(command, .put(change), .ok)
        }
        // Whether the location holds the value already is left to the commit: to compare here would cost half
        // of what the commit costs.
        return delta(command, .put(resolve(write, at: command.time)), .ok)
    }

    /// Whether a location holds the value that a hash stands for. The empty hash stands for no data.
    /// - Returns: Also the location's hash, unless it is unknown and was not needed.
    private func compare(_ node: Node, at path: Path, with expectedHash: Text) -> (
        isEqual: Bool, hash: String?
    ) {
        if expectedHash.utf8Count == 0 { return (node.isEmpty, tree.hashes[path]) }
        let hash = tree.hashes[path] ?? node.hash
        return (Text(hash) == expectedHash, hash)
    }

    /// The result of a transaction whose location changed while its hash was computed: its comparison would
    /// fail with the value of then or with the value of now.
    package func staleResult(
        at target: Target, wantsCurrentValue: Bool, for session: SessionID, as credential: Credential,
        at time: Int64
    ) -> CommandResult {
        staleResult(
            tree.root.value(at: target.fullPath), hash: nil, at: target, wantsCurrentValue: wantsCurrentValue,
            for: session, as: credential, at: time)
    }

    /// The result of a transaction whose location does not hold the value that it started from. The current
    /// value comes with it only if the client may read it, and either asked for it or has no listen that
    /// covers the location.
    /// - Parameters:
    ///   - node: The current value.
    ///   - hash: Of the node; nil where it is unknown. Then it is computed when the result is printed.
    private func staleResult(
        _ node: Node, hash: String?, at target: Target, wantsCurrentValue: Bool, for session: SessionID,
        as credential: Credential, at time: Int64
    ) -> CommandResult {
        let maySend =
            mayRead(target.path, nil, as: credential, at: time)
            && (wantsCurrentValue || !tree.hasListen(covering: target.path, of: session))
        return .dataStale(current: maySend ? .init(node: node, knownHash: hash) : nil)
    }

    private func mayPut(_ write: Write, _ command: Command) -> Bool {
        mayPut(write, as: command.credential, at: command.time)
    }

    /// Whether the rules permit this put. ``decide(_:)`` asks them again.
    package func mayPut(_ write: Write, as credential: Credential, at time: Int64) -> Bool {
        mayWrite(
            [write.target.path], write.isPriorityValid ? [resolve(write, at: time)] : [], as: credential,
            at: time)
    }

    private func decideMerge(_ command: Command, _ base: Path, _ writes: [Write]) -> Delta {
        if isDenied(base, writes.count) { return denial(command, .merge(base: base, writes)) }
        if let merge = preparedMerge(base, writes.count),
            let isAllowed = preparedWrite?.isAllowed ?? access.decisionWithoutRules(for: command.credential)
        {
            guard isAllowed else { return denial(command, .merge(base: base, writes)) }
            return delta(
                command, merge.joined.changes.isEmpty ? .nothing : .write(base: base, merge.joined.changes),
                .ok)
        }
        let changes = changes(of: preparedWrite?.resolved(writes) ?? writes, at: command.time)
        // A merge without entries succeeds and does nothing, whatever the rules say (§4.6).
        guard writes.isEmpty || mayWrite(command, writes, changes) else {
            return denial(command, .merge(base: base, writes))
        }
        guard writes.allSatisfy(\.isPriorityValid) else { return failure(command, Self.invalidPriority) }
        return delta(command, changes.isEmpty ? .nothing : .write(base: base, changes), .ok)
    }

    /// The changes of these writes to the tree as it is now (``Node/changes(of:at:)``).
    func changes(of writes: [Write], at time: Int64) -> [Change] { tree.root.changes(of: writes, at: time) }

    /// Resolves the server values of a write (§10).
    private func resolve(_ write: consuming Write, at time: Int64) -> Change {
        if write.draft.placeholders.isEmpty, !write.target.isPriority {
            // Moved, so that no reference is counted.
            return Change(
                path: exchange(&write.target.path, with: Path()),
                node: exchange(&write.draft.node, with: .empty))
        }
        if let preparedWrite, let known = preparedWrite.resolved([copy write])?.first {
            return tree.root.resolving(known, at: time)
        }
        return tree.root.resolving(write, at: time)
    }

    /// The changes of the session's onDisconnect queue: one atomic write at one instant (§12.3). Writes that
    /// their credential no longer permits are dropped, and so is a priority of a node that does not exist.
    /// - Returns: Also who has queued them: of a write with several authors the first.
    private func queuedChanges(of session: SessionID, at time: Int64) -> ([Change], [AuthoredRun]) {
        guard let queue = queues[session] else { return ([], []) }
        var writes = QueuedWrites(access: access, root: tree.root, at: time, isTracking: false)
        let entries = writes.permitted(queue.pending)
        let changes = changes(of: entries.map(\.write), at: time)
        return (changes, QueuedWrites.runs(of: changes, entries))
    }

    private func mayWrite(_ command: Command, _ writes: [Write], _ changes: @autoclosure () -> [Change])
        -> Bool
    {
        mayWrite(writes.map(\.target.path), changes(), as: command.credential, at: command.time)
    }
}

extension Write {
    /// False when the write is for a priority and its value cannot be one (§8.2).
    var isPriorityValid: Bool {
        !target.isPriority || draft.node.isEmpty || Priority(draft.node) != nil
    }
}

extension Target {
    /// The path, with the pseudo-key at its end when the target is a priority.
    package var fullPath: Path {
        isPriority ? path.appending(Path.priorityKey) : path
    }
}

extension Node {
    /// Resolves the server values of writes, all at one instant, and drops writes that change nothing.
    ///
    /// The changes are in the order in which they must be done. Values come first: otherwise an ancestor
    /// could be without children for a moment, and would vanish together with its priority. Removals follow,
    /// then priorities, so that a write can set the priority of a node that it creates.
    ///
    /// A priority for a node that the write leaves without data has no effect (§8.4). Alone such a write
    /// fails (§4.5); in a merge it succeeds, as recorded traffic of the JavaScript SDK expects.
    /// - Parameter writes: None at or above another.
    func changes(of writes: [Write], at time: Int64) -> [Change] {
        var (changes, removals, priorities): ([Change], [Change], [Change]) = ([], [], [])
        // Of all writes together, as of one.
        var left = Node.comparedNodeLimit
        for write in writes {
            let change = resolving(write, at: time)
            if write.target.isPriority {
                priorities.append(change)
            } else if !holds(change.node, at: change.path, visiting: &left) {
                if change.node.isEmpty { removals.append(change) } else { changes.append(change) }
            }
        }
        if !removals.isEmpty { changes += removals }
        guard !priorities.isEmpty else { return changes }
        // A priority applies to the node as the other changes leave it, and is compared with that.
        var after = self
        for change in changes { after.apply(change) }
        for change in priorities {
            let node = after[change.path.parent]
            if !node.isEmpty, node.priority != Priority(change.node) { changes.append(change) }
        }
        return changes
    }

    /// Resolves the server values of a write to this tree (§10).
    func resolving(_ write: Write, at time: Int64) -> Change {
        let path = write.target.fullPath
        if write.draft.placeholders.isEmpty { return Change(path: path, node: write.draft.node) }
        return Change(path: path, node: write.draft.resolved(current: value(at: path), milliseconds: time))
    }
}

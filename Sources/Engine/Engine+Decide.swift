import PandoBytes
import PandoRules
import PandoTree

extension Engine {
    /// What the command comes to on the tree as it is now. Changes nothing.
    package func decide(_ command: consuming Command) -> Delta {
        // Taken out: what a put brings moves on into its delta, and nothing of it is counted anew.
        var operation = Operation.endSession
        swap(&operation, &command.operation)
        let command = command
        switch consume operation {
        case .listen(let listen):
            guard mayRead(listen.path, Self.visible(listen.query), as: command.credential, at: command.time)
            else { return denial(command, .listen(listen)) }
            guard (listen.query == nil) == (listen.tag == nil) else {
                return refusal(command, "A query and a tag belong together")
            }
            guard (sessions[command.session]?.listenCount ?? 0) < SessionState.listenLimit else {
                return refusal(command, "Too many listens on this connection")
            }
            if listen.query != nil,
                (sessions[command.session]?.filteredCounts[listen.path] ?? 0)
                    >= SessionState.filteredListenLimit
            {
                return refusal(command, "Too many listens with a query at this location on this connection")
            }
            return delta(command, .listen(listen), .listening)
        case .unlisten(let path, let query, let tag):
            return delta(command, .unlisten(path, query, tag: tag), .ok)
        case .get(let path, let query):
            guard mayRead(path, query, as: command.credential, at: command.time)
            else { return denial(command, .get(path, query)) }
            return delta(command, .nothing, read(path, query))
        case .put(let write, let expectedHash, let wantsCurrentValue):
            return decidePut(command, write, expectedHash, wantsCurrentValue)
        case .merge(let base, let writes):
            return decideMerge(command, base, writes)
        case .onDisconnect(let writes, let signIn):
            guard writes.isEmpty || mayWrite(command, writes, changes(of: writes, at: command.time))
            else { return denial(command, .onDisconnect(writes, signIn: signIn)) }
            guard writes.allSatisfy(\.isPriorityValid) else { return refusal(command, Self.invalidPriority) }
            let author = DisconnectQueue.Author(credential: command.credential, signIn: signIn)
            guard canQueue(writes, by: author, for: command.session) else {
                return refusal(command, "Too many onDisconnect operations are pending")
            }
            return delta(command, writes.isEmpty ? .nothing : .queue(writes, author), .ok)
        case .cancelOnDisconnect(let path):
            guard hasQueue(command.session) else { return delta(command, .nothing, .ok) }
            return delta(command, .unqueue([path]), .ok)
        case .revokeOnDisconnect(let signIns):
            let paths = sessions[command.session]?.queue.paths(by: signIns) ?? []
            return Delta(session: command.session, kind: paths.isEmpty ? .nothing : .unqueue(paths))
        case .endSession:
            return Delta(
                session: command.session,
                kind: .endSession(queuedChanges(of: command.session, at: command.time)))
        }
    }

    private func delta(_ command: Command, _ kind: Delta.Kind, _ reply: Reply) -> Delta {
        Delta(session: command.session, kind: kind, reply: reply)
    }

    private func denial(_ command: Command, _ operation: Operation) -> Delta {
        delta(command, .denied(operation), .permissionDenied)
    }

    private func refusal(_ command: Command, _ reason: StaticString) -> Delta {
        delta(command, .nothing, .failed(reason))
    }

    private static let invalidPriority: StaticString = "A priority must be null, a number or a string"
    private static let missingNode: StaticString = "A priority can't be set on a location without data"

    /// The data of a location, through a query when it filters (§4.4, §7.4); left to be done where the query
    /// looks at many children.
    private func read(_ path: Path, _ query: Query?) -> Reply {
        let node = root[path]
        guard let query, !query.loadsAllData else { return .data(node) }
        if query.visits(moreThan: Self.inlineQueryChildCount, of: node) { return .filtered(node, query) }
        return .data(Window(query, over: node).node)
    }

    /// Children up to which a query is answered at once: some ten microseconds.
    package static let inlineQueryChildCount = 256

    // MARK: Writes

    private func decidePut(
        _ command: Command, _ write: consuming Write, _ expectedHash: Text?, _ wantsCurrentValue: Bool
    ) -> Delta {
        // Permission first, hash second: the other way round leaks whether a guess is right.
        guard mayPut(write, command) else {
            return denial(
                command, .put(write, expectedHash: expectedHash, wantsCurrentValue: wantsCurrentValue))
        }
        if let expectedHash {
            let current = root.value(at: write.target.fullPath)
            let (isEqual, hash) = compare(current, at: write.target.fullPath, with: expectedHash)
            guard isEqual else {
                return delta(
                    command, .nothing,
                    staleReply(
                        current, hash: hash, at: write.target, wantsCurrentValue, command.session,
                        command.credential,
                        command.time))
            }
        }
        guard write.isPriorityValid else { return refusal(command, Self.invalidPriority) }
        if write.target.isPriority {
            let current = root[write.target.path]
            let change = resolve(write, at: command.time)
            guard !current.isEmpty else { return refusal(command, Self.missingNode) }
            guard Priority(change.node) != current.priority else { return delta(command, .nothing, .ok) }
            return delta(command, .put(change), .ok)
        }
        // Whether it is there already, its commit sees: to look for it here would be half of what the commit
        // costs.
        return delta(command, .put(resolve(write, at: command.time)), .ok)
    }

    /// Whether a location holds what a hash stands for. That of nothing is empty, and needs no look at what
    /// is there.
    /// - Returns: Its hash too, unless it was not needed.
    private func compare(_ node: Node, at path: Path, with expectedHash: Text) -> (
        isEqual: Bool, hash: String?
    ) {
        if expectedHash.utf8Count == 0 { return (node.isEmpty, hashes[path]) }
        let hash = hashes[path] ?? node.hash
        return (Text(hash) == expectedHash, hash)
    }

    private func mayPut(_ write: Write, _ command: Command) -> Bool {
        mayPut(write, as: command.credential, at: command.time)
    }

    /// May this be put, by the rules? They are asked once more when it is done.
    package func mayPut(_ write: Write, as credential: Credential, at time: Int64) -> Bool {
        mayWrite(
            [write.target.path], write.isPriorityValid ? [resolve(write, at: time)] : [], as: credential,
            at: time)
    }

    private func decideMerge(_ command: Command, _ base: Path, _ writes: [Write]) -> Delta {
        let changes = changes(of: writes, at: command.time)
        // An empty one is a no-op that succeeds, whatever the rules say (§4.6).
        guard writes.isEmpty || mayWrite(command, writes, changes) else {
            return denial(command, .merge(base: base, writes))
        }
        guard writes.allSatisfy(\.isPriorityValid) else { return refusal(command, Self.invalidPriority) }
        return delta(command, changes.isEmpty ? .nothing : .write(base: base, changes), .ok)
    }

    /// Resolves writes that lie beside one another against the tree as it is, all at one instant, and drops
    /// those that change nothing.
    ///
    /// In the order in which they are to be done: first what brings data, so that no ancestor is without
    /// children for a moment and vanishes with its priority; then removals; then priorities, so that one may
    /// be set on a node that the same write makes.
    ///
    /// A priority for a node that the write leaves without data has no effect (§8.4). Alone it is refused
    /// (§4.5); among others it is let pass, as recorded traffic of the JavaScript SDK expects.
    func changes(of writes: [Write], at time: Int64) -> [Change] {
        var (changes, removals, priorities): ([Change], [Change], [Change]) = ([], [], [])
        for write in writes {
            let change = resolve(write, at: time)
            if write.target.isPriority {
                priorities.append(change)
            } else if !root.holds(change.node, at: change.path) {
                if change.node.isEmpty { removals.append(change) } else { changes.append(change) }
            }
        }
        if !removals.isEmpty { changes += removals }
        guard !priorities.isEmpty else { return changes }
        // A priority counts where a node will be; what the nodes above it bring is what it is compared with.
        var after = root
        for change in changes { after.apply(change) }
        for change in priorities {
            let node = after[change.path.parent]
            if !node.isEmpty, node.priority != Priority(change.node) { changes.append(change) }
        }
        return changes
    }

    /// Puts server values in place (§10).
    private func resolve(_ write: consuming Write, at time: Int64) -> Change {
        if write.draft.placeholders.isEmpty, !write.target.isPriority {
            // Moved, not counted anew.
            var change = Change(path: Path(), node: .empty)
            swap(&change.path, &write.target.path)
            swap(&change.node, &write.draft.node)
            return change
        }
        let path = write.target.fullPath
        return Change(
            path: path, node: write.draft.resolved(current: root.value(at: path), milliseconds: time))
    }

    /// What the session's onDisconnect queue comes to now: one atomic write, one instant (§12.3). An
    /// operation that its credential may no longer do is dropped, and so is a priority for a node that is not
    /// there.
    private func queuedChanges(of session: SessionID, at time: Int64) -> [Change] {
        guard let queue = sessions[session]?.queue, !queue.isEmpty else { return [] }
        return changes(of: runnable(queue.pending, at: time), at: time)
    }

    private func mayWrite(_ command: Command, _ writes: [Write], _ changes: @autoclosure () -> [Change])
        -> Bool
    {
        mayWrite(writes.map(\.target.path), changes(), as: command.credential, at: command.time)
    }
}

extension Write {
    /// False when the write is for a priority and its value cannot be one (§8.2).
    fileprivate var isPriorityValid: Bool {
        !target.isPriority || draft.node.isEmpty || Priority(draft.node) != nil
    }
}

extension Target {
    /// The path, with the pseudo-key at its end when the target is a priority.
    package var fullPath: Path {
        isPriority ? path.appending(Path.priorityKey) : path
    }
}

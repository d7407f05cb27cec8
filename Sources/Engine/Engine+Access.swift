import PandoBytes
import PandoRules
import PandoTree

// How commands are authorised (rules §2). Where the rules do not decide (no rules are loaded, or an
// administrator asks), nothing is computed for them either.

extension Engine {
    /// The access that this command needs; nil for none. O(size of the writes).
    package func question(of command: Command) -> RuleQuestion? {
        func write(_ writes: [Write]) -> RuleQuestion {
            let changes = changes(of: writes, at: command.time)
            return .write(writes.map(\.target.path), after: tree.root.applying(changes))
        }
        switch command.operation {
        case .listen(let listen): return .read(listen.path, Self.visible(listen.query))
        case .get(let path, let query): return .read(path, query.flatMap(\.withoutAggregates))
        case .put(let one), .transaction(let one, _, _): return write([one])
        case .merge(_, let writes), .onDisconnect(let writes, _): return writes.isEmpty ? nil : write(writes)
        case .unlisten, .cancelOnDisconnect, .revokeOnDisconnect, .endSession: return nil
        }
    }

    /// The query of a listen as rules see it: an empty query is none (rules §3.2). Clients do not spell
    /// the default order, so a query with that order alone is empty.
    static func visible(_ query: Query?) -> Query? {
        query == Query() ? nil : query.flatMap(\.withoutAggregates)
    }

    /// Why the rules deny the command; nil when they do not. Far slower than ``decide(_:)``. Rules that take
    /// more steps than a read may are explained by that.
    package func explainDenial(of command: Command) -> Denial? {
        let scope = RuleScope(credential: command.credential, milliseconds: command.time, root: tree.root)
        return switch question(of: command) {
        case .read(let path, let query)?:
            access.explainRead(at: path, query: query, in: scope, stepLimit: RulesLimits.readStepCount)
        case .write(let paths, let after)?:
            access.explainWrite(at: paths, after: after, in: scope, stepLimit: RulesLimits.readStepCount)
        case nil: nil
        }
    }

    /// Whether the location may be read, whole or through the query.
    /// - Parameters:
    ///   - query: Nil for none. A query that only names the default order is not none.
    ///   - time: `now`, for the rules.
    package func mayRead(_ path: Path, _ query: Query?, as credential: Credential, at time: Int64) -> Bool {
        var left = readStepCount
        return mayRead(path, query, as: credential, at: time, spending: &left)
    }

    /// The same where several reads have one limit of steps together.
    /// - Parameter left: The steps that there are, at first ``readStepCount``; what is left of them
    ///   afterwards, negative where they did not suffice: then it may not be read.
    package func mayRead(
        _ path: Path, _ query: Query?, as credential: Credential, at time: Int64, spending left: inout Int
    ) -> Bool {
        let given = left
        defer { ruleStepBudget.spentCount += given - left }
        return isReadable(path, query, as: credential, at: time, spending: &left)
    }

    /// The steps that the rules of one read may take.
    package var readStepCount: Int { ruleStepBudget.readStepCount }

    private func isReadable(
        _ path: Path, _ query: Query?, as credential: Credential, at time: Int64, spending left: inout Int
    ) -> Bool {
        access.decisionWithoutRules(for: credential)
            ?? access.allowsRead(
                at: path, query: query.flatMap(\.withoutAggregates),
                in: RuleScope(credential: credential, milliseconds: time, root: tree.root), spending: &left)
    }

    /// Whether a listen at the location is permitted, as ``decide(_:)`` finds out.
    package func mayListen(_ path: Path, _ query: Query?, as credential: Credential, at time: Int64) -> Bool {
        mayRead(path, Self.visible(query), as: credential, at: time)
    }

    /// The session's listens that a credential may not read, as far as they are checked by this call, by
    /// path. After a change of the credential or of the rules the caller sends the client that they are
    /// revoked (§5.4), and ends them. Their hashes are nil.
    /// - Parameters:
    ///   - time: `now`, for the rules.
    ///   - cursor: Where the check goes on; it is moved.
    ///   - count: Listens that are checked at most; fewer are where many of them are denied, or rules take
    ///     long.
    /// - Complexity: O(listens checked × cost of the rules).
    package func listens(
        of session: SessionID, deniedTo credential: Credential, at time: Int64,
        from cursor: inout ListenCursor,
        atMost count: Int
    ) -> [Listen] {
        guard let own = tree.listens[session] else {
            cursor = ListenCursor()
            return []
        }
        var denied: [Listen] = []
        var (left, work, steps) = (count, Self.deniedWorkLimit, ruleStepBudget.writeStepCount)
        while left > 0, work > 0, steps > 0, let listen = cursor.next(of: own) {
            left -= 1
            var stepsLeft = ruleStepBudget.readStepCount
            let isAllowed = isReadable(
                listen.path, Self.visible(listen.query), as: credential, at: time, spending: &stepsLeft)
            steps -= ruleStepBudget.readStepCount - stepsLeft
            if isAllowed { continue }
            work -=
                listen.query == nil
                ? ListenCost.work(at: listen.path) : ListenCost.work(ofFilteredAt: listen.path)
            denied.append(listen)
        }
        // At one path the default listen comes first. Tags are distinct.
        return denied.sorted { $0.path != $1.path ? $0.path < $1.path : $0.tag ?? .min < $1.tag ?? .min }
    }

    /// All listens of the session, to be checked.
    package func listensToCheck(of session: SessionID) -> ListenCursor {
        tree.listens[session].map { ListenCursor($0) } ?? ListenCursor()
    }

    /// The work to end the listens that one call finds to be denied (``ListenCost/work(at:)``).
    private static let deniedWorkLimit = 2000

    /// Whether all of this may be written, as one write.
    /// - Parameter changes: The resolved changes. Evaluated only when the rules decide.
    func mayWrite(
        _ targets: @autoclosure () -> [Path], _ changes: @autoclosure () -> [Change],
        as credential: Credential,
        at time: Int64
    ) -> Bool {
        if let isAllowed = access.decisionWithoutRules(for: credential) { return isAllowed }
        if let preparedWrite, let isAllowed = preparedWrite.decision(about: targets(), as: credential) {
            return isAllowed
        }
        let scope = RuleScope(credential: credential, milliseconds: time, root: tree.root)
        var left = ruleStepBudget.writeStepCount
        let isAllowed = access.allowsWrite(
            at: targets(), after: tree.root.applying(changes()), in: scope, spending: &left)
        if left < 0, !isAllowed { ruleStepBudget.isExhausted = true }
        ruleStepBudget.spentCount += ruleStepBudget.writeStepCount - left
        return isAllowed
    }

    /// Steps of about a nanosecond that the rules of commands have taken since the last call.
    package func takeRuleStepCount() -> Int {
        defer { ruleStepBudget.spentCount = 0 }
        return ruleStepBudget.spentCount
    }

    /// Whether a write counts as denied, since the last call, because its rules would have taken more steps
    /// than there are at once: whether it is permitted, another thread has to find out.
    package func takeExhaustion() -> Bool {
        guard ruleStepBudget.isExhausted else { return false }
        ruleStepBudget.isExhausted = false
        return true
    }
}

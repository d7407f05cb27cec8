import PandoBytes
import PandoRules
import PandoTree

// Asking the rules (rules §2). Where nobody has to be asked (no rules, an administrator) nothing
// is made for the question either.

/// What a command asks of the rules.
package enum RuleQuestion: Sendable {
    case read(Path, Query?)
    /// - Parameter after: The tree as the write would leave it.
    case write([Path], after: Node)
}

extension Engine {
    /// What the rules are asked for this command; nil for one that everybody may do.
    package func question(of command: Command) -> RuleQuestion? {
        func write(_ writes: [Write]) -> RuleQuestion {
            let changes = changes(of: writes, at: command.time)
            return .write(writes.map(\.target.path), after: root.applying(changes))
        }
        switch command.operation {
        case .listen(let listen): return .read(listen.path, Self.visible(listen.query))
        case .get(let path, let query): return .read(path, query)
        case .put(let one, _, _): return write([one])
        case .merge(_, let writes), .onDisconnect(let writes, _): return writes.isEmpty ? nil : write(writes)
        case .unlisten, .cancelOnDisconnect, .revokeOnDisconnect, .endSession: return nil
        }
    }

    /// What rules see of a listen's query: one that asks for nothing is none (rules §3.2).
    /// Clients do not spell the default order, so it is the same as no query.
    static func visible(_ query: Query?) -> Query? { query == Query() ? nil : query }

    /// Why the rules deny the command; nil when they do not. Far slower than asking them.
    package func explainDenial(of command: Command) -> Denial? {
        let scope = RuleScope(credential: command.credential, milliseconds: command.time, root: root)
        return switch question(of: command) {
        case .read(let path, let query)?: access.explainRead(at: path, query: query, in: scope)
        case .write(let paths, let after)?: access.explainWrite(at: paths, after: after, in: scope)
        case nil: nil
        }
    }

    /// May the location be read, whole or through the query?
    /// - Parameters:
    ///   - query: Nil for none; one that only names the default order is one.
    ///   - time: `now`, for the rules.
    package func mayRead(_ path: Path, _ query: Query?, as credential: Credential, at time: Int64) -> Bool {
        access.verdict(on: credential)
            ?? access.allowsRead(
                at: path, query: query, in: RuleScope(credential: credential, milliseconds: time, root: root))
    }

    /// May the location be listened to through the query? As ``decide(_:)`` asks.
    package func mayListen(_ path: Path, _ query: Query?, as credential: Credential, at time: Int64) -> Bool {
        mayRead(path, Self.visible(query), as: credential, at: time)
    }

    /// May all of this be written, as one write?
    /// - Parameter changes: What it comes to on the tree as it is. Asked for only when rules look at it.
    func mayWrite(
        _ targets: @autoclosure () -> [Path], _ changes: @autoclosure () -> [Change],
        as credential: Credential,
        at time: Int64
    ) -> Bool {
        if let verdict = access.verdict(on: credential) { return verdict }
        let scope = RuleScope(credential: credential, milliseconds: time, root: root)
        return access.allowsWrite(at: targets(), after: root.applying(changes()), in: scope)
    }

    /// Those of the queued writes that may run, together, at this moment: each as whoever queued it, all
    /// against the tree as the ones that run leave it. One that may not run is dropped by itself
    /// (realtime §12.3); that changes what the others are looked at with, so they are asked again.
    func runnable(_ queued: [DisconnectQueue.Entry], at time: Int64) -> [Write] {
        // Writes that lean on one another in a long row are left out; then whoever stands alone goes on.
        let settled =
            settle(queued, at: time) ?? settle(queued.filter { mayRun($0, with: [$0], at: time) }, at: time)
        return (settled ?? []).map(\.write)
    }

    /// Drops what may not run until nothing more is dropped.
    /// - Returns: Nil when that takes too many rounds.
    private func settle(_ queued: [DisconnectQueue.Entry], at time: Int64) -> [DisconnectQueue.Entry]? {
        var remaining = queued
        for _ in 0..<Self.runRoundLimit {
            let asksRules = remaining.contains {
                $0.authors.contains { access.verdict(on: $0.credential) == nil }
            }
            let after = asksRules ? root.applying(changes(of: remaining.map(\.write), at: time)) : root
            let allowed = remaining.filter { mayRun($0, leaving: after, at: time) }
            if allowed.count == remaining.count { return remaining }
            remaining = allowed
        }
        return nil
    }

    /// How often the writes of one queue are looked at together: a row of writes each of which needs the one
    /// before it must not cost the square of its length.
    private static let runRoundLimit = 16

    private func mayRun(_ entry: DisconnectQueue.Entry, with all: [DisconnectQueue.Entry], at time: Int64)
        -> Bool
    {
        mayRun(entry, leaving: root.applying(changes(of: all.map(\.write), at: time)), at: time)
    }

    private func mayRun(_ entry: DisconnectQueue.Entry, leaving after: Node, at time: Int64) -> Bool {
        entry.credentials.allSatisfy { credential in
            let scope = RuleScope(credential: credential, milliseconds: time, root: root)
            return access.verdict(on: credential)
                ?? access.allowsWrite(at: [entry.write.target.path], after: after, in: scope)
        }
    }
}

extension Node {
    /// The tree with all of the changes done.
    fileprivate func applying(_ changes: [Change]) -> Node {
        var node = self
        for change in changes { node.apply(change) }
        return node
    }
}

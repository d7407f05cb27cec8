import PandoRules
import PandoTree

/// Decides which queued onDisconnect writes are permitted, and what they change: at the end of a session, or
/// before it on a snapshot (``PreparedEnd``).
struct QueuedWrites {
    private let access: Access
    private let root: Node
    /// `now`, for the rules and for server values: milliseconds since 1970.
    private let time: Int64
    /// Steps that the rules may take for all writes together.
    private var stepsLeft: Int
    /// Whether they would have taken more, so that writes count as not permitted for that reason.
    private(set) var isExhausted = false
    /// Notes what rules read.
    private let isTracking: Bool
    private var reads = ReadLocations()
    /// Whether rules were asked.
    private var askedRules = false

    /// How often the writes of one queue are checked together. A chain of writes, of which each needs the one
    /// before, must not cost the square of its length.
    private static let roundLimit = 16

    init(
        access: Access, root: Node, at time: Int64, isTracking: Bool,
        stepCount: Int = RulesLimits.queueStepCount
    ) {
        stepsLeft = stepCount
        self.access = access
        self.root = root
        self.time = time
        self.isTracking = isTracking
    }

    /// What the decision depends on; nil where rules were not asked, or ``isTracking`` is false.
    var decision: RuleDecision? {
        askedRules && isTracking ? RuleDecision(isAllowed: true, reads: reads) : nil
    }

    /// The queued writes that are permitted now, together: each with the credentials that queued it, and
    /// against the tree that all permitted ones leave. A write that is not permitted is dropped alone
    /// (realtime §12.3). That changes the resulting tree, so the others are then checked again.
    mutating func permitted(_ queued: [DisconnectQueue.Entry]) -> [DisconnectQueue.Entry] {
        if let permitted = permittedTogether(queued) { return permitted }
        // Where writes depend on one another in a long chain, only those remain that are permitted alone.
        var alone: [DisconnectQueue.Entry] = []
        for entry in queued where mayRun(entry, leaving: after([entry])) { alone.append(entry) }
        return permittedTogether(alone) ?? []
    }

    /// Drops writes that are not permitted, until all remaining ones are.
    /// - Returns: Nil when that takes too many rounds.
    private mutating func permittedTogether(
        _ queued: [DisconnectQueue.Entry]
    ) -> [DisconnectQueue.Entry]? {
        var remaining = queued
        for _ in 0..<Self.roundLimit {
            let asksRules = remaining.contains {
                $0.authors.contains { access.decisionWithoutRules(for: $0.credential) == nil }
            }
            let after = asksRules ? after(remaining) : root
            var allowed: [DisconnectQueue.Entry] = []
            for entry in remaining where mayRun(entry, leaving: after) { allowed.append(entry) }
            if allowed.count == remaining.count { return remaining }
            remaining = allowed
        }
        return nil
    }

    private func after(_ entries: [DisconnectQueue.Entry]) -> Node {
        root.applying(root.changes(of: entries.map(\.write), at: time))
    }

    private mutating func mayRun(_ entry: DisconnectQueue.Entry, leaving after: Node) -> Bool {
        for credential in entry.credentials {
            if let isAllowed = access.decisionWithoutRules(for: credential) {
                if isAllowed { continue }
                return false
            }
            askedRules = true
            guard mayRun([entry.write.target.path], credential, leaving: after) else { return false }
        }
        return true
    }

    /// Asks the rules.
    private mutating func mayRun(_ paths: [Path], _ credential: Credential, leaving after: Node) -> Bool {
        let scope = RuleScope(credential: credential, milliseconds: time, root: root)
        let given = min(stepsLeft, RulesLimits.requestStepCount)
        var left = given
        defer {
            stepsLeft -= given - max(0, left)
            if left < 0 { isExhausted = true }
        }
        guard isTracking else {
            return access.allowsWrite(at: paths, after: after, in: scope, spending: &left)
        }
        let decision = access.decision(ofWritingAt: paths, after: after, in: scope, spending: &left)
        reads.formUnion(decision.reads)
        return decision.isAllowed
    }

    /// Who has queued these changes: of a write with several authors the first.
    /// - Parameter changes: Those of the entries.
    static func runs(of changes: [Change], _ entries: [DisconnectQueue.Entry]) -> [AuthoredRun] {
        guard let first = entries.first?.authors.first?.credential, !changes.isEmpty else { return [] }
        if entries.allSatisfy({ $0.authors.first?.credential == first }) {
            return [AuthoredRun(end: changes.count, credential: first)]
        }
        var credentials: [Path: Credential] = [:]
        for entry in entries { credentials[entry.write.target.fullPath] = entry.authors.first?.credential }
        var runs: [AuthoredRun] = []
        for (index, change) in changes.enumerated() {
            let credential = credentials[change.path] ?? first
            if runs.last?.credential == credential {
                runs[runs.count - 1].end = index + 1
            } else {
                runs.append(AuthoredRun(end: index + 1, credential: credential))
            }
        }
        return runs
    }
}

/// The end of a session with many onDisconnect writes, decided on a snapshot: a part of a ``PreparedWrite``.
struct PreparedEnd: Sendable {
    let session: SessionID
    /// The queue's when it was decided: see ``DisconnectQueue/revision``.
    let revision: Int
    /// The locations that it writes, also where they held the value already.
    let targets: [Path]
    /// Those of writes that were not permitted: had they other data, the writes might be.
    let droppedTargets: [Path]
    let changes: [Change]
    let runs: [AuthoredRun]
}

/// What is queued for the end of a session, to be decided on a snapshot.
struct QueuedEnd: Sendable {
    let session: SessionID
    let queue: DisconnectQueue
}

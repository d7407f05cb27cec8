import PandoRules
import PandoTree

/// What is to be done before a write is executed.
package final class WritePreparation: Sendable {
    /// An index that data needs.
    struct Build: Sendable {
        let path: Path
        let order: ChildOrder
        /// The data that is written; of a merge the data that is there.
        let node: Node
        /// Its index, where that is known.
        var index: KeptIndex?
    }

    /// A write of a client.
    struct Request: Sendable {
        var writes: [Write]
        /// The base of a merge of many paths.
        var mergeBase: Path?
        var credential: Credential
        /// Bytes that the replaced data may have, about; nil for any number.
        var replacedByteLimit: Int?
        /// Locations that are noted one by one where rules read them.
        var readLimit = ReadLocations.standardLimit
    }

    /// The database that a write is prepared for, as it was.
    struct Snapshot: Sendable {
        /// The tree.
        let root: Node
        let access: Access
        /// `now`, for the rules and for server values.
        let time: Int64
    }

    /// Without writes where it is the end of a session.
    let request: Request
    /// What is queued, for the end of a session.
    let queuedEnd: QueuedEnd?
    let snapshot: Snapshot
    let builds: [Build]
    /// What was prepared for the same write over an earlier snapshot; nil the first time.
    private let former: PreparedWrite.Parts?

    init(_ request: Request, in snapshot: Snapshot, _ builds: [Build], following former: PreparedWrite?) {
        self.request = request
        queuedEnd = nil
        self.snapshot = snapshot
        self.builds = builds
        self.former = former?.parts
    }

    /// - Parameter builds: At the locations on the way to one of the queued writes.
    init(of end: QueuedEnd, in snapshot: Snapshot, _ builds: [Build]) {
        request = Request(writes: [], mergeBase: .root, credential: .anonymous)
        queuedEnd = end
        self.snapshot = snapshot
        self.builds = builds
        former = nil
    }

    /// The session whose end it is; nil for a write of a client.
    package var endedSession: SessionID? { queuedEnd?.session }

    /// Does it. O(size of the writes), and O(n log n) for an index. Of what was done over an earlier snapshot
    /// only what others have changed since is done again: O(changes × log n), where rules have read nothing
    /// of that.
    package func perform() -> PreparedWrite {
        if let queuedEnd { return perform(queuedEnd) }
        let (writes, root, access) = (request.writes, snapshot.root, snapshot.access)
        let asksRules = access.decisionWithoutRules(for: request.credential) == nil
        let followed = former.flatMap { former in
            former.merge?.following(to: root, replacing: former.ruleDecision == nil)
        }
        let holds = followed == nil && former?.holds(in: root, under: access, for: writes) == true
        let time = followed == nil && !holds ? snapshot.time : former?.time ?? snapshot.time
        let merge =
            followed ?? request.mergeBase.flatMap { PreparedMerge(writes, base: $0, in: root, at: time) }
        var values: PreparedValues?
        if merge == nil {
            values = holds ? former?.values : nil
            if values == nil {
                values = PreparedValues(writes, in: root, at: time, keepsSent: asksRules)
            }
        }
        var ruleDecision: RuleDecision?
        if asksRules {
            if let former, let known = former.ruleDecision,
                holds || followed != nil && former.rulesHold(in: root, under: access, for: writes)
            {
                ruleDecision = known
            } else {
                // The rules are asked about sums, which must be those that are stored: increments are added
                // again when the write is executed. A merge that was done notices changed numbers itself.
                var reads = ReadLocations(limit: request.readLimit)
                if merge == nil { reads.insertNumbers(ofIncrementsIn: writes) }
                ruleDecision = access.decision(
                    ofWritingAt: writes.map(\.target.path),
                    after: root.applying(
                        merge?.joined.changes ?? root.changes(of: values?.writes ?? writes, at: time)),
                    in: RuleScope(credential: request.credential, milliseconds: time, root: root),
                    noting: reads)
            }
        }
        return PreparedWrite(
            self, at: time, ruleDecision, merge, values, builds.compactMap { index(of: $0, merge, values) })
    }

    private func perform(_ queued: QueuedEnd) -> PreparedWrite {
        let (root, time) = (snapshot.root, snapshot.time)
        var judged = QueuedWrites(access: snapshot.access, root: root, at: time, isTracking: true)
        let pending = queued.queue.pending
        let entries = judged.permitted(pending)
        let writes = entries.map(\.write)
        var dropped: [Path] = []
        if entries.count < pending.count {
            let permitted = Set(writes.map(\.target))
            dropped = pending.map(\.write.target).filter { !permitted.contains($0) }.map(\.path)
        }
        // The base of its pushes: listens there and above share one.
        let merge = PreparedMerge(
            writes, base: PreparedMerge.location(above: writes), in: root, at: time)
        let changes = merge?.joined.changes ?? root.changes(of: writes, at: time)
        let end = PreparedEnd(
            session: queued.session, revision: queued.queue.revision,
            targets: writes.map(\.target.path), droppedTargets: dropped, changes: changes,
            runs: QueuedWrites.runs(of: changes, entries))
        return PreparedWrite(
            self, at: time, judged.decision, merge, nil, builds.compactMap { index(of: $0, merge, nil) },
            end: end)
    }

    private func index(of build: Build, _ merge: PreparedMerge?, _ values: PreparedValues?) -> PreparedIndex?
    {
        var node = values?.node(at: build.path) ?? build.node
        if request.mergeBase != nil {
            guard let merge, merge.location == build.path else { return nil }
            node = merge.new
        }
        let known = former?.indexes.first { $0.path == build.path && $0.index.order == build.order }
        let index =
            known.flatMap { $0.index.following($0.node, to: node, atMost: .max) }
            ?? build.index?.following(build.node, to: node, atMost: .max)
            ?? KeptIndex(ordering: node.children, by: build.order)
        return PreparedIndex(path: build.path, node: node, index: index)
    }
}

extension PreparedWrite.Parts {
    /// Whether all that was found out about a write that is no merge of many paths is the same in a later
    /// snapshot. O(changes × log n).
    func holds(in now: Node, under access: Access, for writes: [Write]) -> Bool {
        merge == nil && values?.reads.areUnchanged(from: root, to: now, visitingAtMost: .max) ?? true
            && (ruleDecision == nil || rulesHold(in: now, under: access, for: writes))
    }

    /// Whether rules were asked, and decide the same in a later snapshot. O(changes × log n).
    func rulesHold(in now: Node, under access: Access, for writes: [Write]) -> Bool {
        guard let ruleDecision, self.access.isSame(as: access) else { return false }
        return ruleDecision.holds(for: writes, from: root, to: now, visitingAtMost: .max)
    }
}

extension RuleDecision {
    /// Whether the rules decide the same about a write in a later snapshot.
    /// - Complexity: O(changes × log n), bounded by the limit, and O(priorities that are written).
    func holds(
        for writes: [Write], from before: Node, to now: Node,
        visitingAtMost visitLimit: Int = ReadLocations.visitLimit
    ) -> Bool {
        reads.areUnchanged(from: before, to: now, visitingAtMost: visitLimit)
            // What is written is the data that is there, with another priority.
            && writes.allSatisfy { !$0.target.isPriority || before.isUnchanged($0.target.path, in: now) }
    }
}

extension Node {
    /// Whether a location is the same in a later snapshot: not written, or an equal leaf.
    func isUnchanged(_ path: Path, in now: Node) -> Bool {
        let (old, new) = (self[path], now[path])
        return old.isSameSnapshot(as: new) || old.isLeaf && old == new
    }
}

/// The result of a ``WritePreparation``.
package final class PreparedWrite: Sendable {
    let preparation: WritePreparation
    let ruleDecision: RuleDecision?
    /// A merge of many paths, done.
    let merge: PreparedMerge?
    /// Its server values; nil where they are few, and of such a merge.
    let values: PreparedValues?
    let indexes: [PreparedIndex]
    /// The end of a session; nil for a write of a client.
    let end: PreparedEnd?
    /// `now` for the write, and its timestamp: milliseconds since 1970.
    package let time: Int64

    /// What a later preparation of the same write begins with.
    struct Parts: Sendable {
        let ruleDecision: RuleDecision?
        let merge: PreparedMerge?
        let values: PreparedValues?
        let indexes: [PreparedIndex]
        let time: Int64
        let root: Node
        let access: Access
    }

    var parts: Parts {
        Parts(
            ruleDecision: ruleDecision, merge: merge, values: values, indexes: indexes, time: time,
            root: preparation.snapshot.root, access: preparation.snapshot.access)
    }

    init(
        _ preparation: WritePreparation, at time: Int64, _ ruleDecision: RuleDecision?,
        _ merge: PreparedMerge?, _ values: PreparedValues?, _ indexes: [PreparedIndex],
        end: PreparedEnd? = nil
    ) {
        self.end = end
        self.preparation = preparation
        self.time = time
        self.ruleDecision = ruleDecision
        self.merge = merge
        self.values = values
        self.indexes = indexes
        replacesTooMuch = preparation.request.replacedByteLimit.map { limit in
            var left = limit
            return preparation.request.writes.contains {
                preparation.snapshot.root.value(at: $0.target.fullPath).weigh(&left)
            }
        }
    }

    /// What the journal needs of a merge of many paths, or of data with many server values, printed.
    /// Nil for the end of a session to which writes of several credentials are queued: each has a record.
    package var printed: PrintedNodes? {
        if let end, end.runs.count != 1 { return nil }
        guard let merge else { return values?.printed }
        return merge.joined.changes.isEmpty ? nil : PrintedNodes(record: merge.record)
    }

    /// Whether the replaced data had more bytes than it may have; nil where that was not asked. It may have
    /// changed a little since.
    package let replacesTooMuch: Bool?

    /// What the rules decide; nil where they were not asked.
    var isAllowed: Bool? { ruleDecision?.isAllowed }

    /// Paths that it writes.
    package var pathCount: Int { preparation.request.writes.count }

    /// The session whose end it is; nil for a write of a client.
    package var endedSession: SessionID? { preparation.endedSession }

    /// Whether it was found out how much data is replaced, since that is much.
    package var wasWeighed: Bool { preparation.request.replacedByteLimit != nil }

    /// The value of a single write with many server values, as it was sent; nil where it was not prepared.
    package var sentValue: Node? { values?.sent }

    /// Whether the rules deny it; false where they were not asked.
    package var isDenied: Bool { ruleDecision.map { !$0.isAllowed } ?? false }

    /// The decision of the rules about a write; nil where it is another write, or they were not asked.
    func decision(about paths: [Path], as credential: Credential) -> Bool? {
        guard let ruleDecision, credential == preparation.request.credential,
            paths.count == preparation.request.writes.count,
            zip(paths, preparation.request.writes).allSatisfy({ $0 == $1.target.path })
        else { return nil }
        return ruleDecision.isAllowed
    }

    /// The writes with their server values resolved; nil where these are others, or it was not prepared.
    func resolved(_ writes: [Write]) -> [Write]? {
        guard let values, writes.count == values.writes.count,
            zip(writes, values.writes).allSatisfy({ $0.target == $1.target })
        else { return nil }
        return values.writes
    }
}

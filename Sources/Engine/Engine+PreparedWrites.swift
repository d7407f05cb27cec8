import PandoRules
import PandoTree

// Large writes. Rules visit all of the data that is written, which takes up to half a second, server
// values are resolved, and indexes and windows of the location order it. Before the caller executes such a
// write it may have another thread do that, on a snapshot:
//
//     preparation(for:as:at:) ──▶ perform()  ──▶ adopt(_:) ──▶ execute ──▶ discardPreparedWrite()
//                                 elsewhere        └─ false: what it depends on has changed since; prepare it again, from
//                                                     where it is: each time less is to be done, and less changes meanwhile
//
// The result is that of a write at the time when it was adopted, with one difference: `now`, and timestamps
// in its data, are of the time when it was prepared. Increments are added to the numbers of that time: where
// one has changed since, the write is prepared again, so the rules have seen the sum that is stored. A
// denied write changes nothing, so its denial holds as of then (``Engine/adoptDenial(_:)``), whatever has
// changed since.

extension Engine {
    /// Paths of a merge from which on it is prepared: fewer take two milliseconds.
    package static let largeMergeCount = PreparedMerge.leastCount

    /// What another thread should do before this write is executed; nil where that is nothing.
    /// - Parameters:
    ///   - writes: Large ones, or many.
    ///   - mergeBase: The base of a merge; nil for other writes.
    ///   - replacedByteLimit: Bytes that the data may have which they replace, if another thread is to find
    ///     that out.
    ///   - time: `now`, for the rules.
    ///   - former: What was prepared for it over an earlier snapshot.
    ///   - leastMergeCount: A merge of no more paths is done when it is executed.
    ///   - readLimit: Locations that are noted one by one where rules read them.
    /// - Complexity: O(large writes + listens and indexes below them).
    package func preparation(
        for writes: [Write], replacing replacedByteLimit: Int? = nil, mergeBase: Path? = nil,
        as credential: Credential, at time: Int64, following former: PreparedWrite? = nil,
        mergingMoreThan leastMergeCount: Int = Engine.largeMergeCount,
        notingAtMost readLimit: Int = ReadLocations.standardLimit
    ) -> WritePreparation? {
        let mergeBase = writes.count > leastMergeCount ? mergeBase : nil
        let builds = indexBuilds(for: writes, mergeBase)
        guard
            mergeBase != nil || replacedByteLimit != nil || !builds.isEmpty
                || PreparedValues.areNeeded(for: writes)
                || access.decisionWithoutRules(for: credential) == nil
        else { return nil }
        let request = WritePreparation.Request(
            writes: writes, mergeBase: mergeBase, credential: credential,
            replacedByteLimit: replacedByteLimit, readLimit: readLimit)
        return WritePreparation(
            request, in: WritePreparation.Snapshot(root: tree.root, access: access, time: time), builds,
            following: former)
    }

    /// Stores the result for the write that is executed next.
    /// - Returns: false, and nothing is stored, where something has changed since that it depends on.
    /// - Complexity: O(writes) and O(what others have changed), bounded.
    package mutating func adopt(_ prepared: PreparedWrite) -> Bool {
        let preparation = prepared.preparation
        var result: JoinedChanges.Result?
        if let end = prepared.end {
            guard queues[end.session]?.revision == end.revision,
                isUnchanged(at: end.droppedTargets, since: preparation)
            else { return false }
            result = mergeResult(of: prepared)
            if result == nil, !isUnchanged(at: end.targets, since: preparation) { return false }
        } else if let merge = prepared.merge {
            // What rules have seen of a child is not there any more where that has changed.
            result = merge.result(over: tree.root, replacing: prepared.ruleDecision == nil)
            if result == nil { return false }
        }
        let (before, now) = (preparation.snapshot.root, tree.root)
        if let values = prepared.values, !values.reads.areUnchanged(from: before, to: now) { return false }
        if let ruleDecision = prepared.ruleDecision {
            guard access.isSame(as: preparation.snapshot.access),
                // Priorities in a merge that was done are those of its children: it has found out itself.
                ruleDecision.holds(
                    for: result == nil ? preparation.request.writes : [], from: before, to: now)
            else { return false }
        }
        var known: [Path: Set<ChildOrder>] = [:]
        for build in preparation.builds { known[build.path, default: []].insert(build.order) }
        let needed =
            preparation.queuedEnd.map { indexBuilds(onTheWayTo: $0.queue.firstPath) }
            ?? indexBuilds(for: preparation.request.writes, preparation.request.mergeBase)
        for build in needed where known[build.path]?.contains(build.order) != true {
            return false
        }
        preparedWrite = prepared
        mergeResult = result
        tree.indexes.prepared = prepared.indexes
        return true
    }

    /// The data that the end of a session leaves at the location that all of its writes are below; nil where
    /// its changes have to be done one by one. So it is where others listen below that location: they would
    /// get whole values in place of changes.
    private func mergeResult(of prepared: PreparedWrite) -> JoinedChanges.Result? {
        guard let merge = prepared.merge,
            tree.listens.table.node(at: merge.location).map({ !$0.hasChildren }) ?? true
        else { return nil }
        return merge.result(over: tree.root, replacing: prepared.ruleDecision == nil)
    }

    /// Whether locations hold what they held when a write was prepared. O(locations × depth).
    private func isUnchanged(at locations: [Path], since preparation: WritePreparation) -> Bool {
        let (before, now) = (preparation.snapshot.root, tree.root)
        return before.isSameSnapshot(as: now) || locations.allSatisfy { before.isUnchanged($0, in: now) }
    }

    /// Stores the denial of the write that is executed next.
    /// - Precondition: ``PreparedWrite/isDenied``.
    package mutating func adoptDenial(_ prepared: PreparedWrite) {
        precondition(prepared.isDenied)
        preparedWrite = prepared
        mergeResult = nil
    }

    /// Whether it is this merge of many paths that was denied when it was prepared. O(1).
    func isDenied(_ base: Path, _ writeCount: Int) -> Bool {
        guard let preparedWrite, preparedWrite.isDenied else { return false }
        return preparedWrite.preparation.request.mergeBase == base && preparedWrite.pathCount == writeCount
    }

    /// Removes it, after the write was executed or has failed.
    package mutating func discardPreparedWrite() {
        preparedWrite = nil
        mergeResult = nil
        if !tree.indexes.prepared.isEmpty { tree.indexes.prepared = [] }
    }

    /// The merge that was prepared, if it is this one, with its result.
    func preparedMerge(_ base: Path, _ writeCount: Int) -> PreparedMerge? {
        guard mergeResult != nil, let merge = preparedWrite?.merge, merge.joined.base == base,
            merge.writeCount == writeCount
        else { return nil }
        return merge
    }

    /// The indexes that data of these writes needs, at locations that have indexes or windows and get many
    /// children; of a merge of many paths those at its base and below, on the way to its first path: one of
    /// these locations is the one that all paths are below.
    /// - Complexity: O(large writes + listens and indexes below them); for a merge O(depth + listens and
    ///   indexes on the way).
    func indexBuilds(for writes: [Write], _ mergeBase: Path?) -> [WritePreparation.Build] {
        guard tree.indexes.hasIndexes || !tree.listens.table.isEmpty else { return [] }
        var builds: [WritePreparation.Build] = []
        var known: [Path: Set<ChildOrder>] = [:]
        func add(_ order: ChildOrder, _ path: Path, _ node: Node) {
            guard order != .key, known[path, default: []].insert(order).inserted else { return }
            var build = WritePreparation.Build(path: path, order: order, node: node)
            if mergeBase != nil { build.index = tree.indexes.readyIndex(order, at: path) }
            builds.append(build)
        }
        if let mergeBase, let first = writes.first {
            let path = first.target.path
            let last = Path(Array(path.keys.dropLast()))
            tree.listens.table.forEachOrder(from: mergeBase, to: last, in: tree.root, add)
            tree.indexes.forEachOrder(from: mergeBase, to: last, in: tree.root, add)
            return builds
        }
        for write in writes where !write.target.isPriority {
            let node = write.draft.node
            guard node.isHeavier(than: Self.preparedByteCount) else { continue }
            tree.listens.forEachOrder(
                at: write.target.path, over: node, ofMoreThan: LiveTree.inlineWindowChildCount, add)
            tree.indexes.forEachOrder(
                at: write.target.path, over: node, ofMoreThan: LiveTree.inlineWindowChildCount, add)
        }
        return builds
    }

    /// The indexes that the end of a session needs, as a merge of many paths does.
    func indexBuilds(onTheWayTo path: Path) -> [WritePreparation.Build] {
        indexBuilds(for: [Write(Target(path), Draft(.empty))], .root)
    }

    /// Data that prints to no more bytes is ordered at once.
    private static let preparedByteCount = 16 << 10
}

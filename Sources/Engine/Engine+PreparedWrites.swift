import PandoRules
import PandoTree

// Large writes. Rules visit all of the data that is written, which takes up to a tenth of a second, and indexes and
// windows of the location order it. Before the host executes such a write it may have another thread do that, on a
// snapshot:
//
//     preparation(for:as:at:) ──▶ perform()  ──▶ adopt(_:) ──▶ execute ──▶ discardPreparedWrite()
//                                 elsewhere        └─ false: what it depends on has changed since; prepare it anew
//
// The result is that of a write at the time when it was adopted, with one difference: `now`, and timestamps in its data,
// are of the time when it was prepared.

/// What is to be done before a write is executed.
package final class WritePreparation: Sendable {
    /// An index that data needs.
    struct Build: Sendable {
        let path: Path
        let order: Index
        /// The data that is written; of a merge the data that is there.
        let node: Node
        /// Its index, where that is known.
        var index: KeptIndex?
    }

    fileprivate let writes: [Write]
    /// The base of a merge of many paths.
    fileprivate let mergeBase: Path?
    fileprivate let credential: Credential
    fileprivate let time: Int64
    /// The tree.
    fileprivate let root: Node
    fileprivate let access: Access
    fileprivate let builds: [Build]
    /// Bytes that the replaced data may have, about; nil for any number.
    fileprivate let replacedByteLimit: Int?

    fileprivate init(
        _ writes: [Write], replacing replacedByteLimit: Int?, mergeBase: Path?, _ credential: Credential,
        _ time: Int64, _ root: Node, _ access: Access, _ builds: [Build]
    ) {
        self.writes = writes
        self.replacedByteLimit = replacedByteLimit
        self.mergeBase = mergeBase
        self.credential = credential
        self.time = time
        self.root = root
        self.access = access
        self.builds = builds
    }

    /// Does it. O(size of the writes), and O(n log n) for an index.
    package func perform() -> PreparedWrite {
        let merge = mergeBase.flatMap { PreparedMerge(writes, base: $0, in: root, at: time) }
        var verdict: WriteVerdict?
        if access.decisionWithoutRules(for: credential) == nil {
            verdict = access.verdict(
                ofWritingAt: writes.map(\.target.path),
                after: root.applying(merge?.changes ?? root.changes(of: writes, at: time)),
                in: RuleScope(credential: credential, milliseconds: time, root: root))
        }
        return PreparedWrite(self, verdict, merge, builds.compactMap { index(of: $0, merge) })
    }

    private func index(of build: Build, _ merge: PreparedMerge?) -> PreparedIndex? {
        guard mergeBase != nil else {
            let index = KeptIndex(ordering: build.node.children, by: build.order)
            return PreparedIndex(path: build.path, node: build.node, index: index)
        }
        guard let merge, merge.location == build.path else { return nil }
        let index =
            build.index?.following(build.node, to: merge.new, atMost: .max)
            ?? KeptIndex(ordering: merge.new.children, by: build.order)
        return PreparedIndex(path: build.path, node: merge.new, index: index)
    }
}

/// The result of a ``WritePreparation``.
package final class PreparedWrite: Sendable {
    fileprivate let preparation: WritePreparation
    fileprivate let verdict: WriteVerdict?
    /// A merge of many paths, done.
    let merge: PreparedMerge?
    let indexes: [PreparedIndex]

    fileprivate init(
        _ preparation: WritePreparation, _ verdict: WriteVerdict?, _ merge: PreparedMerge?,
        _ indexes: [PreparedIndex]
    ) {
        self.preparation = preparation
        self.verdict = verdict
        self.merge = merge
        self.indexes = indexes
        replacesTooMuch = preparation.replacedByteLimit.map { limit in
            var left = limit
            return preparation.writes.contains {
                preparation.root.value(at: $0.target.fullPath).weigh(&left)
            }
        }
    }

    /// What the log needs of a merge of many paths, printed.
    package var printedRecord: PrintedNodes? {
        merge.flatMap { $0.changes.isEmpty ? nil : PrintedNodes(record: $0.record) }
    }

    /// Whether the replaced data had more bytes than it may have; nil where that was not asked. It may have changed a
    /// little since.
    package let replacesTooMuch: Bool?

    /// What the rules decide; nil where they were not asked.
    var isAllowed: Bool? { verdict?.isAllowed }

    /// `now` for the write, and its timestamp: milliseconds since 1970.
    package var time: Int64 { preparation.time }

    /// Whether the rules deny it; false where they were not asked.
    package var isDenied: Bool { verdict.map { !$0.isAllowed } ?? false }

    /// The decision of the rules about a write; nil where it is another write, or they were not asked.
    func decision(about paths: [Path], as credential: Credential) -> Bool? {
        guard let verdict, credential == preparation.credential, paths.count == preparation.writes.count,
            zip(paths, preparation.writes).allSatisfy({ $0 == $1.target.path })
        else { return nil }
        return verdict.isAllowed
    }
}

/// An index of data that is about to be written.
struct PreparedIndex: Sendable {
    let path: Path
    let node: Node
    let index: KeptIndex
    /// Bytes that it takes.
    let byteCount: Int

    init(path: Path, node: Node, index: KeptIndex) {
        self.path = path
        self.node = node
        self.index = index
        byteCount = index.byteCount
    }
}

extension Engine {
    /// Paths of a merge from which on it is prepared: fewer take two milliseconds.
    package static let largeMergeCount = PreparedMerge.leastCount

    /// What another thread should do before this write is executed; nil where that is nothing.
    /// - Parameters:
    ///   - writes: Large ones, or many.
    ///   - mergeBase: The base of a merge; nil for other writes.
    ///   - replacedByteLimit: Bytes that the data may have which they replace, if another thread is to find that out.
    ///   - time: `now`, for the rules.
    /// - Complexity: O(large writes + listens and indexes below them).
    package func preparation(
        for writes: [Write], replacing replacedByteLimit: Int? = nil, mergeBase: Path? = nil,
        as credential: Credential, at time: Int64
    ) -> WritePreparation? {
        let mergeBase = writes.count > PreparedMerge.leastCount ? mergeBase : nil
        let builds = indexBuilds(for: writes, mergeBase)
        guard
            mergeBase != nil || replacedByteLimit != nil || !builds.isEmpty
                || access.decisionWithoutRules(for: credential) == nil
        else { return nil }
        return WritePreparation(
            writes, replacing: replacedByteLimit, mergeBase: mergeBase, credential, time, root, access, builds
        )
    }

    /// Stores the result for the write that is executed next.
    /// - Returns: false, and nothing is stored, where something has changed since that it depends on.
    /// - Complexity: O(writes × depth); for a merge of many paths O(what others have changed), bounded.
    package mutating func adopt(_ prepared: PreparedWrite) -> Bool {
        let preparation = prepared.preparation
        var result: Node?
        if let merge = prepared.merge {
            result = merge.result(over: root)
            if result == nil { return false }
        }
        if let verdict = prepared.verdict {
            guard access.isSame(as: preparation.access) else { return false }
            if !root.isSameSnapshot(as: preparation.root) {
                guard let reads = verdict.reads, reads.allSatisfy({ isUnchanged($0, preparation.root) }),
                    // A merge has found out itself.
                    result != nil
                        || preparation.writes.allSatisfy({ isUnchanged($0.target.path, preparation.root) })
                else { return false }
            }
        }
        let known = preparation.builds
        for build in indexBuilds(for: preparation.writes, preparation.mergeBase)
        where !known.contains(where: { $0.path == build.path && $0.order == build.order }) {
            return false
        }
        preparedWrite = prepared
        mergeResult = result
        indexes.prepared = prepared.indexes
        return true
    }

    /// Removes it, after the write was executed or has failed.
    package mutating func discardPreparedWrite() {
        preparedWrite = nil
        mergeResult = nil
        if !indexes.prepared.isEmpty { indexes.prepared = [] }
    }

    /// Whether a location is as it was: the same snapshot, or an equal leaf.
    private func isUnchanged(_ path: Path, _ before: Node) -> Bool {
        let (old, new) = (before[path], root[path])
        if old.isEmpty || new.isEmpty { return old.isEmpty && new.isEmpty }
        return old.isSameSnapshot(as: new) || old.isLeaf && old == new
    }

    /// The merge that was prepared, if it is this one, with its result.
    func preparedMerge(_ base: Path, _ writeCount: Int) -> PreparedMerge? {
        guard mergeResult != nil, let merge = preparedWrite?.merge, merge.base == base,
            merge.writeCount == writeCount
        else { return nil }
        return merge
    }

    /// Does a prepared merge: one change of its location.
    mutating func write(_ merge: PreparedMerge, _ result: Node, _ effects: inout Effects) {
        hashes.invalidate(merge.location)
        let change = Change(path: merge.location, node: result)
        if !listens.table.isEmpty { listens.table.capturePreimages(at: change.path, in: root) }
        let old = perform(copy change)
        if !listens.table.isEmpty {
            effects.pushes = listens.table.pushes(for: merge, change, old: old, in: root, indexes)
        }
        replaced.store(old)
    }

    /// The indexes that data of these writes needs, at locations that have indexes or windows and get many children; of
    /// a merge of many paths those that there are at its base and below.
    private func indexBuilds(for writes: [Write], _ mergeBase: Path?) -> [WritePreparation.Build] {
        guard indexes.hasIndexes || !listens.table.isEmpty else { return [] }
        var builds: [WritePreparation.Build] = []
        if let mergeBase {
            func add(_ order: Index, _ path: Path, _ node: Node) {
                guard order != .key, !builds.contains(where: { $0.path == path && $0.order == order }) else {
                    return
                }
                builds.append(
                    .init(path: path, order: order, node: node, index: indexes.index(order, at: path)))
            }
            listens.table.forEachOrder(at: mergeBase, over: root[mergeBase], ofMoreThan: -1, add)
            indexes.forEachOrder(at: mergeBase, over: root[mergeBase], ofMoreThan: -1, add)
            return builds
        }
        func add(_ order: Index, _ path: Path, _ node: Node) {
            guard order != .key, !builds.contains(where: { $0.path == path && $0.order == order }) else {
                return
            }
            builds.append(.init(path: path, order: order, node: node))
        }
        for write in writes where !write.target.isPriority {
            let node = write.draft.node
            guard node.isHeavier(than: Self.preparedByteCount) else { continue }
            listens.table.forEachOrder(
                at: write.target.path, over: node, ofMoreThan: Self.inlineWindowChildCount, add)
            indexes.forEachOrder(
                at: write.target.path, over: node, ofMoreThan: Self.inlineWindowChildCount, add)
        }
        return builds
    }

    /// Data that prints to no more bytes is ordered at once.
    private static let preparedByteCount = 16 << 10
}

extension ListenerTable {
    /// Calls `body` for each order of windows at a location and below, where a new value has many children.
    /// - Complexity: O(listens there).
    func forEachOrder(
        at path: Path, over node: Node, ofMoreThan childCount: Int, _ body: (Index, Path, Node) -> Void
    ) {
        guard viewCount > 0 else { return }
        var location = root
        for key in path.keys {
            guard let next = location.children[key] else { return }
            location = next
        }
        func visit(_ location: TrieNode, _ node: Node) {
            if !location.views.isEmpty, node.children.count > childCount {
                for view in location.views { body(view.query.index, location.path, node) }
            }
            for (key, child) in location.children {
                let node = node[key]
                if !node.isEmpty { visit(child, node) }
            }
        }
        visit(location, node)
    }
}

extension IndexCatalog {
    /// Calls `body` for each order of indexes at a location and below, where a new value has many children.
    /// - Complexity: O(indexes there).
    func forEachOrder(
        at path: Path, over node: Node, ofMoreThan childCount: Int, _ body: (Index, Path, Node) -> Void
    ) {
        guard hasIndexes, let location = location(at: path) else { return }
        func visit(_ location: Location, _ node: Node) {
            if node.children.count > childCount {
                for slot in location.slots { body(slot.order, location.path, node) }
            }
            for (key, child) in location.children {
                let node = node[key]
                if !node.isEmpty { visit(child, node) }
            }
        }
        visit(location, node)
    }

    /// The index of a location's new data that was made before the write; nil where there is none.
    /// - Complexity: O(changes between the two × log n), bounded: server values are in the written data only.
    func preparedIndex(_ order: Index, at path: Path, over node: Node) -> KeptIndex? {
        guard let found = prepared.first(where: { $0.index.order == order && $0.path == path }) else {
            return nil
        }
        return found.index.following(found.node, to: node, atMost: Self.preparedDifferenceLimit)
    }

    private static let preparedDifferenceLimit = 8192

    /// The index of a location after a write that has replaced it, for a window. O(depth).
    func indexAfterReplacement(_ order: Index, at path: Path, over node: Node) -> KeptIndex? {
        index(order, at: path) ?? (prepared.isEmpty ? nil : preparedIndex(order, at: path, over: node))
    }
}

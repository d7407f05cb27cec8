import PandoTree

/// A merge of many paths, done on a snapshot. Path by path, to decide, record and do one takes half a
/// microsecond to a microsecond for each. When it is prepared, it is one change of the location that all
/// paths are below:
///
///     snapshot   location ─ a b c d         the merge writes b and d
///     prepared   location ─ a b′ c d′
///     now        location ─ a′ b c d e      others have written a and e since: taken over
///                location ─ a′ b′ c d′ e    if they have written b or d: not adopted, unless no rules were asked and the
///                                           merge replaces the whole child, whatever that is
struct PreparedMerge: Sendable {
    /// What the merge changes, resolved; no changes where it changes nothing.
    let joined: JoinedChanges
    let writeCount: Int
    /// The location that all paths are below.
    let location: Path
    /// The database's root before.
    private var snapshot: Node
    /// The location's data after.
    private(set) var new: Node
    /// The location's data with only the removals applied; nil unless the merge both removes and sets.
    private var afterRemovals: Node?
    /// The children of it that are written, or have something below that is.
    private let keys: Set<Key>
    /// Those of them whose whole value is replaced by one that does not depend on it.
    private let replacedKeys: Set<Key>
    /// The record of the journal.
    let record: [UInt8]

    /// A merge of no more paths is done at once.
    static let leastCount = 2048
    /// Children that others may have written since: a few milliseconds.
    static let differenceLimit = 4096

    /// Does a merge on a snapshot. O(paths).
    /// - Returns: Nil for one that has to be decided path by path: it would fail, sets the priority of its
    ///   base, or temporarily removes all children of the location, which would then lose its priority.
    init?(_ writes: [Write], base: Path, in root: Node, at time: Int64) {
        guard writes.count > 1,
            writes.allSatisfy({ $0.isPriorityValid && $0.target.path.count > base.count })
        else { return nil }
        let changes = root.changes(of: writes, at: time)
        writeCount = writes.count
        location = Self.location(above: writes)
        let count = location.count
        keys = Set(writes.map { $0.target.path[count] })
        var replaced: Set<Key> = []
        for change in changes where change.path.count == count + 1 && !change.node.isEmpty {
            replaced.insert(change.path[count])
        }
        for write in writes where !write.draft.placeholders.isEmpty {
            replaced.remove(write.target.path[count])
        }
        let locations = root.locationsToPush(of: changes)
        // What is pushed has whole nodes then, and is right only while nothing else has written there.
        replacedKeys = locations == nil ? replaced : []
        guard locations?.allSatisfy({ $0.count > count }) ?? true else { return nil }
        snapshot = root
        let after = root.applying(changes)
        new = after[location]
        // All paths are below the base, and one is not at or below another.
        joined = JoinedChanges(
            base: base, changes: changes,
            pushed: locations?.map { Change(path: $0, node: after[$0]) } ?? changes)
        let removals = joined.pushed.filter(\.node.isEmpty)
        if !removals.isEmpty, removals.count < joined.pushed.count {
            afterRemovals = root.applying(removals)[location]
        }
        record = changes.isEmpty ? [] : EngineRecord.delta(changes).payload
    }

    /// The deepest location that all of the writes are strictly below; the root for none. O(writes).
    static func location(above writes: [Write]) -> Path {
        guard let first = writes.first?.target.path else { return .root }
        var count = max(0, first.count - 1)
        for write in writes {
            count = min(count, max(0, write.target.path.count - 1))
            while count > 0, write.target.path.keys[..<count] != first.keys[..<count] { count -= 1 }
        }
        return Path(Array(first.keys[..<count]))
    }

    /// The same merge over a later snapshot, with the times of this one; nil where others have changed what
    /// it changes.
    /// - Parameter replaces: As of ``result(over:replacing:atMost:)``.
    /// - Complexity: O(children that others have changed × log n).
    func following(to root: Node, replacing replaces: Bool) -> PreparedMerge? {
        guard let result = result(over: root, replacing: replaces, atMost: .max) else { return nil }
        var merge = self
        merge.snapshot = root
        merge.new = result.change.node
        merge.afterRemovals = result.afterRemovals?.node
        return merge
    }

    /// What the merge makes of the location when it is done now; nil where others have changed what it
    /// changes.
    /// - Parameters:
    ///   - replaces: Whether children may have changed whose whole value the merge replaces.
    ///   - differenceLimit: Most children that others may have changed.
    /// - Complexity: O(children that others have changed × log n), bounded.
    func result(
        over root: Node, replacing replaces: Bool, atMost differenceLimit: Int = differenceLimit
    ) -> JoinedChanges.Result? {
        func makeResult(_ node: Node, _ afterRemovals: Node?) -> JoinedChanges.Result {
            JoinedChanges.Result(
                change: Change(path: location, node: node),
                afterRemovals: afterRemovals.map { Change(path: location, node: $0) }, keys: keys)
        }
        let (old, current) = (snapshot[location], root[location])
        // How removals are pushed depends on the priorities above them.
        for count in 0..<location.count
        where snapshot.priority(at: location, count) != root.priority(at: location, count) {
            return nil
        }
        if current.isSameSnapshot(as: old) { return makeResult(new, afterRemovals) }
        guard case .object(let before) = old.withoutPriority,
            case .object(let now) = current.withoutPriority,
            old.priority == current.priority,
            let differences = now.differences(from: before, atMost: differenceLimit)
        else { return nil }
        // With its last child a location loses its priority; with those of others it keeps it.
        if new.isEmpty, !differences.isEmpty { return nil }
        var (after, removed) = (new, afterRemovals)
        for difference in differences {
            removed?.set(difference.new, at: Path([difference.key]))
            if keys.contains(difference.key) {
                guard replaces, replacedKeys.contains(difference.key) else { return nil }
                continue
            }
            after.set(difference.new, at: Path([difference.key]))
        }
        return makeResult(after, removed)
    }
}

extension Node {
    /// The priority of the node at the first keys of a path.
    fileprivate func priority(at path: Path, _ count: Int) -> Priority? {
        self[Path(Array(path.keys[..<count]))].priority
    }
}

import PandoTree

/// A merge of many paths, done on a snapshot. To decide, log and do one takes half a microsecond to a microsecond for each
/// path; so prepared, it is one change of the location that all paths are below:
///
///     snapshot   location ─ a b c d         the merge writes b and d
///     prepared   location ─ a b′ c d′
///     now        location ─ a′ b c d e      others have written a and e since: taken over
///                location ─ a′ b′ c d′ e    if they have written b or d: not adopted
struct PreparedMerge: Sendable {
    /// The location that the writer named. A shared push is relative to it.
    let base: Path
    let writeCount: Int
    /// What the merge changes, resolved. Empty where it changes nothing.
    let changes: [Change]
    /// The location that all paths are below.
    let location: Path
    /// The tree before.
    private let snapshot: Node
    /// Its data after.
    let new: Node
    /// The children of it that are written, or have something below that is.
    private let keys: Set<Key>
    /// For listens at the base and above.
    let body: Push.Body
    /// The record of the log.
    let record: [UInt8]

    /// A merge of no more paths is done at once.
    static let leastCount = 2048
    /// Children that others may have written since.
    private static let differenceLimit = 4096

    /// Does a merge on a snapshot. O(paths).
    /// - Returns: Nil for one that has to be decided path by path: it sets priorities, or would fail.
    init?(_ writes: [Write], base: Path, in root: Node, at time: Int64) {
        guard writes.count > 1, writes.allSatisfy({ !$0.target.isPriority }) else { return nil }
        changes = root.changes(of: writes, at: time)
        guard changes.count < 2 || root.locationsToPush(of: changes) == nil else { return nil }
        self.base = base
        writeCount = writes.count
        var count = writes[0].target.path.count - 1
        for write in writes {
            count = min(count, write.target.path.count - 1)
            while count > 0, write.target.path.keys[..<count] != writes[0].target.path.keys[..<count] {
                count -= 1
            }
        }
        location = Path(Array(writes[0].target.path.keys[..<count]))
        keys = Set(writes.map { $0.target.path[count] })
        snapshot = root
        new = root.applying(changes)[location]
        // All paths are below the base, and one is not at or below another.
        body = .merge(base, changes.map { Push.Entry(path: base.relative($0.path), node: $0.node) })
        record = changes.isEmpty ? [] : LogRecord.delta(changes).payload
    }

    /// The location's data after the merge is done now; nil where others have changed what it changes.
    /// - Complexity: O(children that others have changed × log n), bounded.
    func result(over root: Node) -> Node? {
        let (old, current) = (snapshot[location], root[location])
        // How removals are pushed depends on the priorities above them.
        for count in 0..<location.count
        where snapshot.priority(at: location, count) != root.priority(at: location, count) {
            return nil
        }
        if current.isSameSnapshot(as: old) || current.isEmpty && old.isEmpty { return new }
        guard case .object(let before) = old.withoutPriority,
            case .object(let after) = current.withoutPriority,
            old.priority == current.priority,
            let differences = after.differences(from: before, atMost: Self.differenceLimit)
        else { return nil }
        // With its last child a location loses its priority; with those of others it keeps it.
        if new.isEmpty, !differences.isEmpty { return nil }
        var result = new
        for difference in differences {
            guard !keys.contains(difference.key) else { return nil }
            result.set(difference.new, at: Path([difference.key]))
        }
        return result
    }
}

extension Node {
    /// The priority of the node at the first keys of a path.
    fileprivate func priority(at path: Path, _ count: Int) -> Priority? {
        self[Path(Array(path.keys[..<count]))].priority
    }
}

extension ListenerTable {
    /// The pushes of a prepared merge that was just done: the merge itself for listens at its base and above, and new
    /// values for listens below the location. Order: as for one change.
    /// - Parameters:
    ///   - change: The location, with its data after the merge.
    ///   - old: Its data before.
    /// - Complexity: O(listens that get a push), and O(changes) where there are listens between base and location.
    func pushes(
        for merge: PreparedMerge, _ change: Change, old: Node, in tree: Node, _ indexes: IndexCatalog
    ) -> [Push] {
        var pushes: [Push] = []
        var shared = Push(body: merge.body)
        if merge.changes.count == 1 { shared.body = .overwrite(merge.changes[0].path, merge.changes[0].node) }
        var node = root
        var depth = 0
        while true {
            if !node.defaults.isEmpty {
                if depth <= merge.base.count {
                    shared.recipients.append(node.defaults.members)
                } else {
                    pushes.append(
                        Push(
                            body: message(merge.changes, base: node.path), recipients: [node.defaults.members]
                        ))
                }
            }
            if !node.views.isEmpty {
                updateViews(
                    of: node, inside: [change], isWhole: depth == change.path.count, tree, indexes, &pushes)
            }
            guard depth < change.path.count, let next = node.children[change.path[depth]] else { break }
            node = next
            depth += 1
        }
        if depth == change.path.count {
            visitListeners(below: node, old: old, new: change.node) { node, value in
                pushWhole(Change(path: node.path, node: value), to: node, tree, indexes, &pushes)
            }
        }
        return shared.recipients.isEmpty ? pushes : [shared] + pushes
    }
}

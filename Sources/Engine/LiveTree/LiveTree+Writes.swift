import PandoTree

// What writes change, and the pushes that they cause (`FanOut.swift`). Without listens and indexes, a write
// is one walk from the root to its location.

/// Several changes that are done as one change of a location above all of them.
struct JoinedChanges: Sendable {
    /// The location that the writer named. A shared push is relative to it.
    let base: Path
    /// None at or below another.
    let changes: [Change]
    /// What is pushed in their place (`PushLocations.swift`): mostly the changes themselves.
    let pushed: [Change]
    /// The push for listens at the base and above.
    let body: Push.Body

    init(base: Path, changes: [Change], pushed: [Change]) {
        self.base = base
        self.changes = changes
        self.pushed = pushed
        body =
            pushed.count == 1
            ? .overwrite(pushed[0].path, pushed[0].node)
            : .merge(base, pushed.map { Push.Entry(path: base.relative($0.path), node: $0.node) })
    }

    /// What joined changes make of the location above all of them.
    struct Result: Sendable {
        /// The location, with its data afterwards.
        let change: Change
        /// The location, with its data where only the removals are applied; nil unless the changes both
        /// remove and set.
        let afterRemovals: Change?
        /// Its children that are written, or have something below that is.
        let keys: Set<Key>
    }
}

extension LiveTree {
    /// Whether the tree holds the value already. For a priority always false: the decision has compared it.
    func isPresent(_ change: Change) -> Bool {
        !change.path.namesPriority && root.holds(change.node, at: change.path)
    }

    /// Does one change.
    /// - Returns: Its pushes; nil when the location held the value already.
    /// - Complexity: O(depth × log n + listeners that get a push).
    mutating func put(_ change: consuming Change) -> [Push]? {
        // Without this check every write would retain the path in order to ask an empty cache.
        if !hashes.isEmpty { hashes.invalidate(change.path) }
        if listens.table.isEmpty, indexes.ignoresWrites {
            var old = Node.empty
            guard root.update(with: change, replaced: &old) else { return nil }
            replaced.store(consume old)
            return []
        }
        if isPresent(change) { return nil }
        return write(change)
    }

    /// Does one change that changes something.
    /// - Parameter mergeBase: The location that the writer of a merge named; nil for another write.
    private mutating func write(_ change: consuming Change, mergeBase: Path? = nil) -> [Push] {
        if change.path.namesPriority {
            let whole = change.path.parent
            return write([change], pushing: [whole], base: .root)
        }
        listens.table.capturePreimages(at: change.path, in: root)
        let old = perform(copy change)
        let pushes = listens.pushes(
            for: change, mergeBase: mergeBase, old: old, in: root, updater)
        replaced.store(consume old)
        return pushes
    }

    /// Does several changes as one write.
    /// - Parameters:
    ///   - changes: Each changes something; none at or below another.
    ///   - base: The location that the writer named, a shared push is relative to it; nil where the changes
    ///     are no merge.
    /// - Complexity: O(changes × depth × log n + listeners that get a push).
    mutating func write(_ changes: [Change], base: Path?) -> [Push] {
        hashes.invalidate(changes)
        guard !listens.table.isEmpty else {
            guard indexes.ignoresWrites else {
                for old in perform(changes) { replaced.store(old) }
                return []
            }
            for change in changes {
                if change.path.namesPriority {
                    root.apply(change)
                } else {
                    replaced.store(root.exchange(change))
                }
            }
            return []
        }
        if changes.count == 1 { return write(changes[0], mergeBase: base) }
        let pushBase = base ?? .root
        if let locations = root.locationsToPush(of: changes) {
            return write(changes, pushing: locations, base: pushBase)
        }
        for change in changes { listens.table.capturePreimages(at: change.path, in: root) }
        let olds = perform(changes)
        let pushes = listens.pushes(for: changes, olds: olds, base: pushBase, in: root, updater)
        for old in olds { replaced.store(old) }
        return pushes
    }

    /// Does several changes whose pushes are not the changes themselves but the new values of `paths`.
    private mutating func write(_ changes: [Change], pushing paths: [Path], base: Path) -> [Push] {
        let olds = paths.map { root[$0] }
        for path in paths { listens.table.capturePreimages(at: path, in: root) }
        for old in perform(changes) { replaced.store(old) }
        // The old values hold what was replaced; it is freed with them.
        defer { for old in olds { replaced.store(old) } }
        let pushed = paths.map { Change(path: $0, node: root[$0]) }
        if pushed.count == 1 { return listens.pushes(for: pushed[0], old: olds[0], in: root, updater) }
        return listens.pushes(for: pushed, olds: olds, base: base, in: root, updater)
    }

    /// Does changes whose result is known: the data of a location above all of them.
    mutating func write(_ joined: JoinedChanges, as result: JoinedChanges.Result) -> [Push] {
        let change = result.change
        hashes.invalidate(change.path)
        let isObserved = !listens.table.isEmpty
        if isObserved { listens.table.capturePreimages(at: change.path, in: root) }
        let old = perform(copy change)
        defer { replaced.store(old) }
        return isObserved ? listens.pushes(for: joined, result, old: old, in: root, updater) : []
    }

    /// Does one change that names no priority, in the data and in its indexes.
    /// - Returns: The previous value.
    private mutating func perform(_ change: consuming Change) -> Node {
        if indexes.ignoresWrites { return root.exchange(change) }
        indexes.capture(change.path, in: root)
        let old = root.exchange(copy change)
        indexes.follow(in: root)
        indexes.replace(at: change.path, old, with: change.node)
        indexes.noteGrowth(by: change.path, change.node, in: root)
        indexes.evictBeyondLimit()
        return old
    }

    /// Does changes, in the data and in its indexes.
    /// - Returns: The previous values; `.empty` for a priority.
    private mutating func perform(_ changes: [Change]) -> [Node] {
        let ignoresWrites = indexes.ignoresWrites
        if !ignoresWrites { for change in changes { indexes.capture(change.path, in: root) } }
        var olds: [Node] = []
        olds.reserveCapacity(changes.count)
        for change in changes {
            if change.path.namesPriority {
                root.apply(change)
                olds.append(.empty)
            } else {
                olds.append(root.exchange(change))
            }
        }
        guard !ignoresWrites else { return olds }
        indexes.follow(in: root)
        for (change, old) in zip(changes, olds) {
            indexes.replace(at: change.path, old, with: change.node)
            indexes.noteGrowth(by: change.path, change.node, in: root)
        }
        indexes.evictBeyondLimit()
        return olds
    }
}

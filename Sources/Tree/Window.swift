/// The children that a query selects, in the query's order (realtime §7.4).
package struct Window: Sendable {
    /// One child.
    package struct Entry: Sendable {
        /// The value by which the query orders the child.
        package let value: Node
        package let key: Key
        package let node: Node
    }

    package let query: Query
    /// Ascending in the query's order; at most its limit.
    package private(set) var entries: [Entry] = []
    /// Whether the limit excludes children that are in the query's range.
    private var hidesChildren = false

    /// The window of `query` over `node`'s children.
    /// - Complexity: O(log n + window) under the key index; O(n + window × log window) otherwise.
    package init(_ query: Query, over node: Node) {
        self.query = query
        fill(from: node.children)
    }

    /// The query's result: an object of these children, without the node's own priority (§7.4). O(window ×
    /// log window).
    package var node: Node {
        let children = entries.map { Children.Entry(key: $0.key, node: $0.node) }
        return .children(
            Children(ascending: query.index == .key ? children : children.sorted { $0.key < $1.key }))
    }

    /// Whether no child is selected.
    package var isEmpty: Bool { entries.isEmpty }

    /// Checks all invariants, for tests. Traps if one is violated. O(window).
    package func checkInvariants() {
        for (left, right) in zip(entries, entries.dropFirst()) {
            precondition(precedes(left, right), "entries do not ascend")
        }
        for entry in entries {
            precondition(!entry.node.isEmpty, "there is an empty entry")
            precondition(query.indexValue(of: entry.node) == entry.value, "an entry has a wrong index value")
            precondition(query.contains(value: entry.value, key: entry.key), "an entry is not in the range")
        }
        if let limit = query.limit {
            precondition(entries.count <= limit.count, "there are too many entries")
        }
        if hidesChildren {
            precondition(query.limit?.count == entries.count, "children are excluded without need")
        }
    }

    private func precedes(_ left: Entry, _ right: Entry) -> Bool {
        query.compare((left.value, left.key), (right.value, right.key)) < 0
    }

    /// The index of an entry, or where it would be inserted.
    private func position(of value: Node, _ key: Key) -> (index: Int, isPresent: Bool) {
        var (low, high) = (0, entries.count)
        while low < high {
            let middle = (low + high) / 2
            let order = query.compare((entries[middle].value, entries[middle].key), (value, key))
            if order == 0 { return (middle, true) }
            if order < 0 { low = middle + 1 } else { high = middle }
        }
        return (low, false)
    }

    // MARK: Filling

    private mutating func fill(from children: Children) {
        entries.removeAll(keepingCapacity: true)
        hidesChildren = false
        if query.index == .key { fillInKeyOrder(children) } else { fillInIndexOrder(children) }
    }

    private mutating func fillInKeyOrder(_ children: Children) {
        let limit = query.limit?.count ?? .max
        let isReversed = query.limit?.anchor == .last
        var selected: [Entry] = []
        var hides = false
        let query = query
        // Visiting starts at one end of the range, and stops behind the other.
        func add(_ key: Key, _ node: Node) -> Bool {
            guard query.contains(value: .empty, key: key) else { return isBefore(key, reversed: isReversed) }
            if selected.count == limit {
                hides = true
                return false
            }
            selected.append(Entry(value: .empty, key: key, node: node))
            return true
        }
        let near = isReversed ? query.end?.key : query.start?.key
        if case .key(let key)? = near {
            if isReversed {
                children.forEachReversed(from: key, add)
            } else {
                children.forEach(from: key, add)
            }
        } else if isReversed {
            children.forEachReversed(add)
        } else {
            children.forEach(add)
        }
        entries = isReversed ? selected.reversed() : selected
        hidesChildren = hides
    }

    /// Whether a key outside the range is before it in the order of the visit: then others may be in the
    /// range.
    private func isBefore(_ key: Key, reversed: Bool) -> Bool {
        let near = reversed ? query.end : query.start
        guard let near else { return false }
        let order = BoundKey.compare(.key(key), near.key)
        return reversed ? order >= 0 : order <= 0
    }

    private mutating func fillInIndexOrder(_ children: Children) {
        let limit = query.limit
        // Sorted only when as many entries were added as the limit keeps, so that sorting costs O(log limit)
        // for each entry.
        let bufferCount = limit.map { 2 * $0.count + 64 } ?? .max
        children.forEach { key, node in
            let value = query.indexValue(of: node)
            guard query.contains(value: value, key: key) else { return true }
            entries.append(Entry(value: value, key: key, node: node))
            if let limit, entries.count == bufferCount { sortAndTrim(to: limit) }
            return true
        }
        sortAndTrim(to: limit)
    }

    private mutating func sortAndTrim(to limit: Query.Limit?) {
        let query = query
        entries.sort { query.compare(($0.value, $0.key), ($1.value, $1.key)) < 0 }
        if let limit { _ = trim(to: limit) }
    }
}

// MARK: - Following writes

extension Window {
    /// How a write has changed a window, by child.
    package struct Update: Sendable {
        /// Keys of children that are not in the window any more.
        package var left: [Key] = []
        /// Children that are in the window now.
        package var entered: [Entry] = []
        /// Children that were in the window, and have another value now.
        package var changed: [Entry] = []

        /// Whether the window has not changed.
        package var isEmpty: Bool { left.isEmpty && entered.isEmpty && changed.isEmpty }
    }

    /// Whether a child with this index value is in the window, or would enter it. false for most children of
    /// a large node: they can change without an update of the window. O(1) comparisons.
    package func admits(_ value: Node, _ key: Key) -> Bool {
        guard query.contains(value: value, key: key) else { return false }
        guard hidesChildren, let frontier = farEnd else { return true }
        let order = query.compare((value, key), (frontier.value, frontier.key))
        return query.limit?.anchor == .last ? order >= 0 : order <= 0
    }

    /// Updates the window after some children have changed.
    /// - Parameters:
    ///   - changes: Every child that differs, once.
    ///   - node: The queried node after the write.
    /// - Returns: How the window has changed.
    /// - Complexity: O(changes × (log window + memmove)); that of ``init(_:over:)`` when children leave a
    ///   window with a limit, and others must be found to fill it.
    package mutating func update(_ changes: [ChildChange], in node: Node) -> Update {
        // Excluded children are beyond the frontier. A changed child that is there now may be behind any of
        // them.
        let frontier = hidesChildren ? farEnd : nil
        var result = Update()
        // The changed children that were in the window, with their old values.
        var removed: [Entry] = []
        for change in changes {
            let old = remove(change.key, change.old)
            if let old { removed.append(old) }
            guard let entry = entry(change.key, change.new), frontier.map({ !isBeyond(entry, $0) }) ?? true
            else {
                if old != nil { result.left.append(change.key) }
                continue
            }
            entries.insert(entry, at: position(of: entry.value, entry.key).index)
            if let old {
                if old.node != entry.node { result.changed.append(entry) }
            } else {
                result.entered.append(entry)
            }
        }
        guard let limit = query.limit else { return result }
        if entries.count > limit.count {
            result.evict(trim(to: limit))
        } else if entries.count < limit.count, hidesChildren {
            var before = nodesByKey
            for entry in result.entered { before[entry.key] = nil }
            for entry in removed { before[entry.key] = entry.node }
            fill(from: node.children)
            return difference(from: before)
        }
        return result
    }

    /// Removes a child from the window, if it is there.
    private mutating func remove(_ key: Key, _ node: Node) -> Entry? {
        guard !node.isEmpty, case let (index, isPresent) = position(of: query.indexValue(of: node), key),
            isPresent
        else { return nil }
        return entries.remove(at: index)
    }

    /// A child as an entry, if it is in the query's range.
    private func entry(_ key: Key, _ node: Node) -> Entry? {
        guard !node.isEmpty else { return nil }
        let value = query.indexValue(of: node)
        return query.contains(value: value, key: key) ? Entry(value: value, key: key, node: node) : nil
    }

    /// Replaces the queried node by another one.
    /// - Returns: How the window has changed. Complexity as of ``init(_:over:)``.
    package mutating func replace(with node: Node) -> Update {
        let before = nodesByKey
        fill(from: node.children)
        return difference(from: before)
    }

    /// The child that is excluded first when another enters.
    private var farEnd: Entry? {
        query.limit?.anchor == .last ? entries.first : entries.last
    }

    private func isBeyond(_ entry: Entry, _ frontier: Entry) -> Bool {
        query.limit?.anchor == .last ? precedes(entry, frontier) : precedes(frontier, entry)
    }

    /// Removes and returns the entries above the limit.
    private mutating func trim(to limit: Query.Limit) -> [Entry] {
        guard entries.count > limit.count else { return [] }
        hidesChildren = true
        let excess = limit.anchor == .first ? limit.count..<entries.count : 0..<(entries.count - limit.count)
        let evicted = Array(entries[excess])
        entries.removeSubrange(excess)
        return evicted
    }

    private var nodesByKey: [Key: Node] {
        Dictionary(uniqueKeysWithValues: entries.map { ($0.key, $0.node) })
    }

    private func difference(from before: [Key: Node]) -> Update {
        var change = Update()
        var unseen = before
        for entry in entries {
            guard let node = unseen.removeValue(forKey: entry.key) else {
                change.entered.append(entry)
                continue
            }
            if node != entry.node { change.changed.append(entry) }
        }
        // Sorted: the order of a hash table differs from process to process.
        change.left = unseen.keys.sorted()
        return change
    }
}

extension Window.Update {
    /// Accounts for entries that were removed because of the limit.
    fileprivate mutating func evict(_ evicted: [Window.Entry]) {
        let keys = Set(evicted.map(\.key))
        let came = Set(entered.lazy.map(\.key).filter(keys.contains))
        entered.removeAll { keys.contains($0.key) }
        changed.removeAll { keys.contains($0.key) }
        left += evicted.lazy.map(\.key).filter { !came.contains($0) }
    }
}

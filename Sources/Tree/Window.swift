/// The children that a query lets through, in the query's order (realtime §7.4).
package struct Window: Sendable {
    package struct Entry: Sendable {
        /// What the query orders the child by.
        package let value: Node
        package let key: Key
        package let node: Node
    }

    package let query: Query
    /// Ascending in the query's order; at most its limit.
    package private(set) var entries: [Entry] = []
    /// True when the limit keeps some children of the range out.
    private var hidesChildren = false

    /// The window of `query` over `node`'s children.
    /// - Complexity: O(log n + window) under the key index; O(n + window × log window) otherwise.
    package init(_ query: Query, over node: Node) {
        self.query = query
        fill(from: node.children)
    }

    /// The query's result: an object of these children, without the node's own priority (§7.4).
    package var node: Node {
        let children = entries.map { Children.Entry(key: $0.key, node: $0.node) }
        return .children(
            Children(ascending: query.index == .key ? children : children.sorted { $0.key < $1.key }))
    }

    package var isEmpty: Bool { entries.isEmpty }

    private func precedes(_ left: Entry, _ right: Entry) -> Bool {
        query.compare((left.value, left.key), (right.value, right.key)) < 0
    }

    /// Where an entry is, or would be inserted.
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
        var taken: [Entry] = []
        var hides = false
        let query = query
        // One end is where the walk starts; beyond the other it stops.
        func take(_ key: Key, _ node: Node) -> Bool {
            guard query.contains(value: .empty, key: key) else { return isBefore(key, reversed: isReversed) }
            if taken.count == limit {
                hides = true
                return false
            }
            taken.append(Entry(value: .empty, key: key, node: node))
            return true
        }
        let near = isReversed ? query.end?.key : query.start?.key
        if case .key(let key)? = near {
            if isReversed {
                children.forEachReversed(from: key, take)
            } else {
                children.forEach(from: key, take)
            }
        } else if isReversed {
            children.forEachReversed(take)
        } else {
            children.forEach(take)
        }
        entries = isReversed ? taken.reversed() : taken
        hidesChildren = hides
    }

    /// True when a key outside the range lies on the side the walk comes from: it may still enter.
    private func isBefore(_ key: Key, reversed: Bool) -> Bool {
        let near = reversed ? query.end : query.start
        guard let near else { return false }
        let order = BoundKey.compare(.key(key), near.key)
        return reversed ? order >= 0 : order <= 0
    }

    private mutating func fillInIndexOrder(_ children: Children) {
        let limit = query.limit
        // Room for as many again, so that sorting is paid for by what came since.
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
    /// One child of the queried node before and after a write.
    package struct ChildChange: Sendable {
        package let key: Key
        package let old: Node
        package let new: Node

        package init(key: Key, old: Node, new: Node) {
            self.key = key
            self.old = old
            self.new = new
        }
    }

    /// How a write changed a window, child by child.
    package struct Change: Sendable {
        /// Keys that left.
        package var left: [Key] = []
        /// Children that entered, whole.
        package var entered: [Entry] = []
        /// Children that stayed and are not what they were.
        package var changed: [Entry] = []

        package var isEmpty: Bool { left.isEmpty && entered.isEmpty && changed.isEmpty }
    }

    /// Whether a child with this index value is in the window, or would have to be: false for most children
    /// of a large node, which change without the window being touched. O(1) comparisons.
    package func admits(_ value: Node, _ key: Key) -> Bool {
        guard query.contains(value: value, key: key) else { return false }
        guard hidesChildren, let frontier = farEnd else { return true }
        let order = query.compare((value, key), (frontier.value, frontier.key))
        return query.limit?.anchor == .last ? order >= 0 : order <= 0
    }

    /// Brings the window up to date after some children changed.
    /// - Parameters:
    ///   - changes: Every child that differs, each once.
    ///   - node: The queried node after the write.
    /// - Complexity: O(changes × (log window + memmove)); as `init` when a limit must look for children to
    ///   move up.
    package mutating func update(_ changes: [ChildChange], in node: Node) -> Change {
        // Hidden children lie beyond the frontier; a child that lands there may have any of them before it.
        let frontier = hidesChildren ? farEnd : nil
        var result = Change()
        /// What changed children were in the window before.
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

    /// Takes a child out of the window, if it is there.
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

    /// Takes another node altogether.
    package mutating func replace(with node: Node) -> Change {
        let before = nodesByKey
        fill(from: node.children)
        return difference(from: before)
    }

    /// The child that leaves first when another enters.
    private var farEnd: Entry? {
        query.limit?.anchor == .last ? entries.first : entries.last
    }

    private func isBeyond(_ entry: Entry, _ frontier: Entry) -> Bool {
        query.limit?.anchor == .last ? precedes(entry, frontier) : precedes(frontier, entry)
    }

    /// Cuts off what is over the limit, and gives it.
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

    private func difference(from before: [Key: Node]) -> Change {
        var change = Change()
        var unseen = before
        for entry in entries {
            guard let node = unseen.removeValue(forKey: entry.key) else {
                change.entered.append(entry)
                continue
            }
            if node != entry.node { change.changed.append(entry) }
        }
        // Not in the order of a hash table, which would be another one in each process.
        change.left = unseen.keys.sorted()
        return change
    }
}

extension Window.Change {
    /// Takes out again what a limit had no room for.
    fileprivate mutating func evict(_ evicted: [Window.Entry]) {
        let keys = Set(evicted.map(\.key))
        let came = Set(entered.lazy.map(\.key).filter(keys.contains))
        entered.removeAll { keys.contains($0.key) }
        changed.removeAll { keys.contains($0.key) }
        left += evicted.lazy.map(\.key).filter { !came.contains($0) }
    }
}

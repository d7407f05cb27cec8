/// The children that a query lets through, in the query's order (wire-protocol §7.4).
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
        return .children(Children(ascending: query.index == .key ? children : children.sorted { $0.key < $1.key }))
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
            if isReversed { children.forEachReversed(from: key, take) } else { children.forEach(from: key, take) }
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
        var all: [Entry] = []
        children.forEach { key, node in
            let value = query.indexValue(of: node)
            if query.contains(value: value, key: key) { all.append(Entry(value: value, key: key, node: node)) }
            return true
        }
        all.sort(by: precedes)
        entries = all
        if let limit = query.limit, entries.count > limit.count {
            hidesChildren = true
            trim(to: limit)
        }
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

    /// Brings the window up to date after some children changed.
    /// - Parameters:
    ///   - changes: Every child that differs, each once.
    ///   - node: The queried node after the write.
    /// - Complexity: O(changes × (log window + memmove)); as `init` when a limit must look for children to move up.
    package mutating func update(_ changes: [ChildChange], in node: Node) -> Change {
        let before = entries
        let frontier = hidesChildren ? farEnd : nil
        var isTouched = false
        for change in changes {
            let oldValue = query.indexValue(of: change.old)
            if !change.old.isEmpty {
                let (index, isPresent) = position(of: oldValue, change.key)
                if isPresent {
                    entries.remove(at: index)
                    isTouched = true
                }
            }
            guard !change.new.isEmpty else { continue }
            let value = query.indexValue(of: change.new)
            guard query.contains(value: value, key: change.key) else { continue }
            let entry = Entry(value: value, key: change.key, node: change.new)
            // Hidden children lie beyond the frontier; one that lands there may have any of them before it.
            if let frontier, isBeyond(entry, frontier) { continue }
            entries.insert(entry, at: position(of: value, change.key).index)
            isTouched = true
        }
        guard isTouched else { return Change() }
        if let limit = query.limit {
            if entries.count > limit.count {
                hidesChildren = true
                trim(to: limit)
            } else if entries.count < limit.count, hidesChildren {
                fill(from: node.children)
            }
        }
        return difference(from: before)
    }

    /// Takes another node altogether.
    package mutating func replace(with node: Node) -> Change {
        let before = entries
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

    private mutating func trim(to limit: Query.Limit) {
        switch limit.anchor {
        case .first: entries.removeSubrange(limit.count...)
        case .last: entries.removeSubrange(..<(entries.count - limit.count))
        }
    }

    private func difference(from before: [Entry]) -> Change {
        var change = Change()
        var unseen: [Key: Node] = [:]
        for entry in before { unseen[entry.key] = entry.node }
        for entry in entries {
            guard let node = unseen.removeValue(forKey: entry.key) else {
                change.entered.append(entry)
                continue
            }
            if node != entry.node { change.changed.append(entry) }
        }
        for entry in before where unseen[entry.key] != nil { change.left.append(entry.key) }
        return change
    }
}

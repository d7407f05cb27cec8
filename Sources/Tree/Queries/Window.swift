/// The children that a query selects, in the query's order (realtime §7.4).
package struct Window: Sendable {
    package let query: Query
    /// Ascending in the query's order; at most its limit.
    package private(set) var entries = WindowEntries() {
        didSet { identity = nil }
    }
    /// What copies of the window have in common until one of them changes; nil where none was asked for
    /// (``identify()``) since the last change.
    package private(set) var identity: Identity?
    /// Whether the limit excludes children that are in the query's range.
    private var hidesChildren = false
    /// Where the window ended when it began to lack children; nil while it lacks none. It still has all
    /// children of the range up to there.
    private var shortageEnd: WindowEntry?
    /// Whether it has fewer children than its limit though there are more: they are to be found, and then to
    /// be given to ``complete(from:)``.
    package var lacksChildren: Bool { shortageEnd != nil }

    /// The window of `query` over `node`'s children.
    /// - Complexity: O(log n + window) under the key index; O(n + window × log window) otherwise.
    package init(_ query: Query, over node: Node) { self.init(IndexedQuery(query), over: node) }

    /// The window of a query over `node`'s children.
    /// - Complexity: O(window × log n) with an index; that of ``init(_:over:)-(Query,_)`` without.
    package init(_ indexed: IndexedQuery, over node: Node) {
        query = indexed.query
        fill(from: node.children, by: indexed.index)
    }

    /// See ``identity``. An object: while it is held, no other window has the same.
    package final class Identity: Sendable {
        fileprivate init() {}
    }

    /// Sets ``identity``, unless it is set. O(1).
    package mutating func identify() {
        if identity == nil { identity = Identity() }
    }

    /// The query's result: an object of these children, without the node's own priority (§7.4). O(window ×
    /// log window).
    package var node: Node {
        let children = entries.map { Children.Entry(key: $0.key, node: $0.node) }
        return .children(
            Children(ascending: query.order == .key ? children : children.sorted { $0.key < $1.key }))
    }

    /// Whether no child is selected.
    package var isEmpty: Bool { entries.isEmpty }

    /// The place of the last child of a page, in the direction of the limit.
    package struct PageEnd: Sendable {
        /// By what the query orders the child.
        package let value: Node
        package let key: Key
    }

    /// Where the limit cuts the range; nil where the window has all children of the range.
    package var endOfPage: PageEnd? {
        hidesChildren ? farEnd.map { PageEnd(value: $0.value, key: $0.key) } : nil
    }

    /// Checks all invariants, for tests. Traps if one is violated. O(window).
    package func checkInvariants() {
        entries.checkInvariants()
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
            precondition(
                lacksChildren != (query.limit?.count == entries.count), "children are excluded without need")
        } else {
            precondition(!lacksChildren, "children are lacking where none is excluded")
        }
        if let shortageEnd {
            precondition(
                entries.allSatisfy { !isBeyond($0, shortageEnd) }, "an entry is beyond the known children")
        }
    }

    private func precedes(_ left: WindowEntry, _ right: WindowEntry) -> Bool {
        query.compare((left.value, left.key), (right.value, right.key)) < 0
    }

    /// Where an entry is, or would be inserted. O(log window) comparisons.
    private func position(of value: Node, _ key: Key) -> WindowEntries.Position {
        entries.position { query.compare(($0.value, $0.key), (value, key)) }
    }

    // MARK: Filling

    private mutating func fill(from children: Children, by index: KeptIndex?) {
        entries = WindowEntries()
        hidesChildren = false
        shortageEnd = nil
        switch index {
        case nil:
            if query.order == .key { fillInKeyOrder(children, query) } else { fillInIndexOrder(children) }
        case .withoutValues?: fillInKeyOrder(children, query.orderedByKey)
        case .ordered(let index)?: fill(from: children, by: index)
        }
    }

    private mutating func fill(from children: Children, by index: OrderedIndex) {
        let all = index.range(of: query, in: children)
        let selected = query.limit.map { all.limited(to: $0.count, from: $0.anchor) } ?? all
        hidesChildren = selected.count < all.count
        entries = WindowEntries(self.entries(at: selected, of: index, in: children))
    }

    /// The children with these ranks. O(ranks × log n).
    private func entries(at ranks: Range<Int>, of index: OrderedIndex, in children: Children) -> [WindowEntry]
    {
        var found: [WindowEntry] = []
        found.reserveCapacity(ranks.count)
        index.forEach(in: ranks) { key in
            let node = children[key]
            found.append(WindowEntry(value: query.indexValue(of: node), key: key, node: node))
        }
        return found
    }

    /// - Parameter query: The window's query, or one by key that selects the same children.
    private mutating func fillInKeyOrder(_ children: Children, _ query: Query) {
        let limit = query.limit?.count ?? .max
        let isReversed = query.limit?.anchor == .last
        var selected: [WindowEntry] = []
        var hides = false
        // Visiting starts at one end of the range, and stops behind the other.
        func add(_ key: Key, _ node: Node) -> Bool {
            guard query.contains(value: .empty, key: key) else {
                return isBefore(key, query, reversed: isReversed)
            }
            if selected.count == limit {
                hides = true
                return false
            }
            selected.append(WindowEntry(value: .empty, key: key, node: node))
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
        entries = WindowEntries(isReversed ? selected.reversed() : selected)
        hidesChildren = hides
    }

    /// Whether a key outside the range is before it in the order of the visit: then others may be in the
    /// range.
    private func isBefore(_ key: Key, _ query: Query, reversed: Bool) -> Bool {
        let near = reversed ? query.end : query.start
        guard let near else { return false }
        let order = BoundKey.compare(.key(key), near.key)
        return reversed ? order >= 0 : order <= 0
    }

    private mutating func fillInIndexOrder(_ children: Children) {
        let limit = query.limit
        var selected: [WindowEntry] = []
        // Sorted only when as many entries were added as the limit keeps, so that sorting costs O(log limit)
        // for each entry.
        let bufferCount = limit.map { 2 * $0.count + 64 } ?? .max
        children.forEach { key, node in
            let value = query.indexValue(of: node)
            guard query.contains(value: value, key: key) else { return true }
            selected.append(WindowEntry(value: value, key: key, node: node))
            if selected.count == bufferCount { sortAndTrim(&selected) }
            return true
        }
        sortAndTrim(&selected)
        entries = WindowEntries(selected)
    }

    private mutating func sortAndTrim(_ selected: inout [WindowEntry]) {
        let query = query
        selected.sort { query.compare(($0.value, $0.key), ($1.value, $1.key)) < 0 }
        guard let limit = query.limit, selected.count > limit.count else { return }
        hidesChildren = true
        let excess = selected.count - limit.count
        if limit.anchor == .first { selected.removeLast(excess) } else { selected.removeFirst(excess) }
    }
}

// MARK: - Following writes

extension Window {
    /// How a write has changed a window, by child.
    package struct Update: Sendable {
        /// Keys of children that are not in the window any more.
        package var left: [Key] = []
        /// Children that are in the window now.
        package var entered: [WindowEntry] = []
        /// Children that were in the window, and have another value now.
        package var changed: [WindowEntry] = []

        /// Whether the window has not changed.
        package var isEmpty: Bool { left.isEmpty && entered.isEmpty && changed.isEmpty }
    }

    /// Whether a child with this index value is in the window, or would enter it. false for most children of
    /// a large node: they can change without an update of the window. O(1) comparisons.
    package func admits(_ value: Node, _ key: Key) -> Bool {
        guard query.contains(value: value, key: key) else { return false }
        guard let frontier else { return true }
        let order = query.compare((value, key), (frontier.value, frontier.key))
        return query.limit?.anchor == .last ? order >= 0 : order <= 0
    }

    /// The places between which a child is in the window, or would enter it, both included; nil for no end on
    /// that side. Everything that ``admits(_:_:)`` is true of is there, and little else. O(1).
    package var reach: (low: IndexPlace?, high: IndexPlace?) {
        func place(_ bound: Bound) -> IndexPlace {
            IndexPlace(query.order == .key ? .empty : bound.value, bound.key)
        }
        var (low, high) = (query.start.map(place), query.end.map(place))
        if let frontier {
            let end = IndexPlace(frontier.value, .key(frontier.key))
            if query.limit?.anchor == .last { low = end } else { high = end }
        }
        return (low, high)
    }

    /// Updates the window after some children have changed.
    /// - Parameters:
    ///   - changes: Every child that differs, once.
    ///   - node: The queried node after the write.
    ///   - index: Its index in the query's order, after the write; nil where there is none. Asked for when
    ///     children have left a window with a limit, and others must be found to fill it.
    ///   - visitedCount: Children up to which all are visited to find them without an index. Among more, the
    ///     window ``lacksChildren`` afterwards.
    /// - Returns: How the window has changed.
    /// - Complexity: O(changes × log window); where others must be found, O(log n) for each with an
    ///   index, and that of ``init(_:over:)-(Query,_)`` without.
    package mutating func update(
        _ changes: [ChildChange], in node: Node, by index: @autoclosure () -> KeptIndex? = nil,
        visitingAtMost visitedCount: Int = .max
    ) -> Update {
        // A changed child that is beyond the frontier now may be behind any of the excluded ones.
        let frontier = frontier
        var result = Update()
        // The changed children that were in the window, with their old values.
        var removed: [WindowEntry] = []
        for change in changes {
            let old = remove(change.key, change.old)
            if let old { removed.append(old) }
            guard let entry = entry(change.key, change.new), frontier.map({ !isBeyond(entry, $0) }) ?? true
            else {
                if old != nil { result.left.append(change.key) }
                continue
            }
            entries.insert(entry, at: position(of: entry.value, entry.key))
            if let old {
                if old.node != entry.node { result.changed.append(entry) }
            } else {
                result.entered.append(entry)
            }
        }
        guard let limit = query.limit else { return result }
        if entries.count > limit.count {
            shortageEnd = nil
            result.evict(trim(to: limit))
        } else if entries.count == limit.count {
            shortageEnd = nil
        } else if hidesChildren {
            let index = index()
            if index == nil, query.order != .key, query.visits(moreThan: visitedCount, of: node) {
                shortageEnd = frontier
                return result
            }
            shortageEnd = nil
            if case .ordered(let index)? = index {
                refill(to: limit, from: node.children, by: index, removed, &result)
                return result
            }
            if query.order == .key, let frontier {
                refillInKeyOrder(to: limit, from: node.children, behind: frontier.key, &result)
                return result
            }
            var before = nodesByKey
            for entry in result.entered { before[entry.key] = nil }
            for entry in removed { before[entry.key] = entry.node }
            fill(from: node.children, by: index)
            return difference(from: before)
        }
        return result
    }

    /// The window over another snapshot of its data; nil where it has to be made from nothing, since children
    /// have left it and only a visit of all of them, or an index, finds the next ones.
    /// - Parameter old: The data that this is the window over.
    /// - Complexity: O(changes between the two × log window).
    package consuming func following(_ old: Node, to node: Node) -> Window? {
        guard let differences = node.children.differences(from: old.children, atMost: .max) else {
            return nil
        }
        _ = update(differences, in: node, visitingAtMost: 0)
        return lacksChildren ? nil : self
    }

    /// Adds the children that come next. The window has all of the range up to where it ended before.
    /// - Parameter removed: The changed children that were in the window, with their old values.
    private mutating func refill(
        to limit: Query.Limit, from children: Children, by index: OrderedIndex, _ removed: [WindowEntry],
        _ result: inout Update
    ) {
        let all = index.range(of: query, in: children)
        let isLast = limit.anchor == .last
        let held = all.limited(to: entries.count, from: limit.anchor)
        let hidden = isLast ? all.lowerBound..<held.lowerBound : held.upperBound..<all.upperBound
        let drawn = hidden.limited(to: limit.count - entries.count, from: limit.anchor)
        hidesChildren = drawn.count < hidden.count
        let entering = entries(at: drawn, of: index, in: children)
        if isLast { entries.prepend(contentsOf: entering) } else { entries.append(contentsOf: entering) }
        // A changed child may have gone beyond the window's end, and be the next one there.
        var before: [Key: Node] = [:]
        for entry in removed { before[entry.key] = entry.node }
        var returned: Set<Key> = []
        for entry in entering {
            guard let old = before[entry.key] else {
                result.entered.append(entry)
                continue
            }
            returned.insert(entry.key)
            if old != entry.node { result.changed.append(entry) }
        }
        if !returned.isEmpty { result.left.removeAll { returned.contains($0) } }
    }

    /// The same in the order of keys, in which no change moves a child.
    /// - Parameter key: That of the frontier. All children of the range up to there are in the window.
    /// - Complexity: O(log n + children that are added).
    private mutating func refillInKeyOrder(
        to limit: Query.Limit, from children: Children, behind key: Key, _ result: inout Update
    ) {
        let isLast = limit.anchor == .last
        let missingCount = limit.count - entries.count
        var entering: [WindowEntry] = []
        var hides = false
        func add(_ next: Key, _ node: Node) -> Bool {
            if next == key { return true }
            guard query.contains(value: .empty, key: next) else { return false }
            if entering.count == missingCount {
                hides = true
                return false
            }
            entering.append(WindowEntry(value: .empty, key: next, node: node))
            return true
        }
        if isLast { children.forEachReversed(from: key, add) } else { children.forEach(from: key, add) }
        hidesChildren = hides
        result.entered += entering
        if isLast {
            entries.prepend(contentsOf: entering.reversed())
        } else {
            entries.append(contentsOf: entering)
        }
    }

    /// Removes a child from the window, if it is there.
    private mutating func remove(_ key: Key, _ node: Node) -> WindowEntry? {
        guard !node.isEmpty else { return nil }
        let position = position(of: query.indexValue(of: node), key)
        return position.isPresent ? entries.remove(at: position) : nil
    }

    /// A child as an entry, if it is in the query's range.
    private func entry(_ key: Key, _ node: Node) -> WindowEntry? {
        guard !node.isEmpty else { return nil }
        let value = query.indexValue(of: node)
        return query.contains(value: value, key: key) ? WindowEntry(value: value, key: key, node: node) : nil
    }

    /// Replaces the queried node by another one.
    /// - Parameter index: The new node's index in the query's order; nil where there is none.
    /// - Returns: How the window has changed. Complexity as of ``init(_:over:)-(IndexedQuery,_)``.
    package mutating func replace(with node: Node, by index: KeptIndex? = nil) -> Update {
        let before = nodesByKey
        fill(from: node.children, by: index)
        return difference(from: before)
    }

    /// Takes the children that the window lacks.
    /// - Parameter window: The window over the data as it is now.
    /// - Returns: How this window has changed. O(window).
    package mutating func complete(from window: Window) -> Update {
        let before = nodesByKey
        self = window
        return difference(from: before)
    }

    /// Excluded children are beyond this one; nil where none is excluded.
    private var frontier: WindowEntry? { hidesChildren ? shortageEnd ?? farEnd : nil }

    /// The child that is excluded first when another enters.
    private var farEnd: WindowEntry? {
        query.limit?.anchor == .last ? entries.first : entries.last
    }

    private func isBeyond(_ entry: WindowEntry, _ frontier: WindowEntry) -> Bool {
        query.limit?.anchor == .last ? precedes(entry, frontier) : precedes(frontier, entry)
    }

    /// Removes and returns the entries beyond the limit.
    private mutating func trim(to limit: Query.Limit) -> [WindowEntry] {
        guard entries.count > limit.count else { return [] }
        hidesChildren = true
        let excess = entries.count - limit.count
        return limit.anchor == .first ? entries.removeLast(excess) : entries.removeFirst(excess)
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
    fileprivate mutating func evict(_ evicted: [WindowEntry]) {
        let keys = Set(evicted.map(\.key))
        let came = Set(entered.lazy.map(\.key).filter(keys.contains))
        entered.removeAll { keys.contains($0.key) }
        changed.removeAll { keys.contains($0.key) }
        left += evicted.lazy.map(\.key).filter { !came.contains($0) }
    }
}

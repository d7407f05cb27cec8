import PandoTree

/// Who listens where: a trie of the paths that have listens on them or below them.
///
///     root ─ "rooms" ─ "a"   default listens: sessions, in the order they came
///                            filtered listens: one per distinct query, with its window and the (session,
///                            tag)s
///
/// A write walks from the root to its path (everybody there hears of it) and then into the listens below
/// (whose value may have changed). Cost follows the listens that are told, not those that exist.
///
/// A class tree inside a struct: the table belongs to one engine, which belongs to one thread. A copy of the
/// engine would share the points with it, so whoever keeps a snapshot keeps ``Engine/root``, not the engine.
/// `@unchecked Sendable`: whoever owns the engine owns the points; they are never handed out.
struct ListenerTable: @unchecked Sendable {
    final class Point {
        let path: Path
        var children: [Key: Point] = [:]
        /// Sessions with a default listen here that no wider listen of theirs covers.
        var defaults = SessionSet()
        /// Default listens here that are covered. Counted so that the point stays while they do.
        var coveredCount = 0
        /// One per distinct query.
        var filtered: [Filtered] = []
        /// Where each query stands in ``filtered``; kept beyond ``indexedCount`` of them.
        private var positions: [Query: Int] = [:]
        private static let indexedCount = 8

        // What a write in progress notes here; empty between writes.

        /// Children that the write is about to change, as they are before it.
        var watched: [(key: Key, old: Node)] = []
        /// This point's place among the reports of the write.
        var reportIndex: Int?

        init(path: Path) {
            self.path = path
        }

        var isEmpty: Bool {
            children.isEmpty && defaults.isEmpty && coveredCount == 0 && filtered.isEmpty
        }

        var hears: Bool { !defaults.isEmpty || !filtered.isEmpty }

        func position(of query: Query) -> Int? {
            positions.isEmpty ? filtered.firstIndex { $0.query == query } : positions[query]
        }

        func append(_ new: Filtered) {
            filtered.append(new)
            if !positions.isEmpty {
                positions[new.query] = filtered.count - 1
            } else if filtered.count > Self.indexedCount {
                for (index, filtered) in filtered.enumerated() { positions[filtered.query] = index }
            }
        }

        /// The last one moves into the gap.
        func removeFiltered(at index: Int) {
            positions[filtered[index].query] = nil
            let last = filtered.removeLast()
            if index < filtered.count {
                filtered[index] = last
                if !positions.isEmpty { positions[last.query] = index }
            }
            if filtered.isEmpty { positions = [:] }
        }
    }

    /// One distinct query at one location, however many sessions ask it.
    final class Filtered {
        let query: Query
        var window: Window
        var recipients = MemberSet<[Push.TaggedRecipient]>()

        init(query: Query, window: Window) {
            self.query = query
            self.window = window
        }
    }

    private(set) var root = Point(path: .root)
    /// Distinct filtered listens; while it is zero, writes need not look at what was there before.
    private(set) var filteredCount = 0

    init() {}

    /// Nobody listens. Kept, since every write asks.
    private(set) var isEmpty = true

    // MARK: Adding and removing

    mutating func addDefault(_ session: SessionID, at path: Path, isCovered: Bool) {
        let point = makePoint(at: path)
        if isCovered { point.coveredCount += 1 } else { point.defaults.insert(session) }
        isEmpty = false
    }

    mutating func removeDefault(_ session: SessionID, at path: Path, isCovered: Bool) {
        withPoint(at: path) { point in
            if isCovered { point.coveredCount -= 1 } else { point.defaults.remove(session) }
        }
        isEmpty = root.isEmpty
    }

    /// Moves a default listen between heard and covered.
    mutating func setCovered(_ isCovered: Bool, _ session: SessionID, at path: Path) {
        let point = makePoint(at: path)
        if isCovered {
            point.defaults.remove(session)
            point.coveredCount += 1
        } else {
            point.coveredCount -= 1
            point.defaults.insert(session)
        }
        isEmpty = root.isEmpty
    }

    /// Adds a recipient to the window of a query, which is made over `node` when it is the first.
    /// - Parameter prepared: The window as it is over `node`, if it is known.
    mutating func addFiltered(
        _ key: FilteredListenKey, _ session: SessionID, over node: Node, prepared: Window? = nil
    ) -> Window {
        let point = makePoint(at: key.path)
        let filtered: Filtered
        if let index = point.position(of: key.query) {
            filtered = point.filtered[index]
        } else {
            filtered = Filtered(query: key.query, window: prepared ?? Window(key.query, over: node))
            point.append(filtered)
            filteredCount += 1
        }
        filtered.recipients.insert(Push.TaggedRecipient(session: session, tag: key.tag))
        isEmpty = false
        return filtered.window
    }

    mutating func removeFiltered(_ key: FilteredListenKey, _ session: SessionID) {
        var gone = 0
        withPoint(at: key.path) { point in
            guard let index = point.position(of: key.query) else { return }
            point.filtered[index].recipients.remove(Push.TaggedRecipient(session: session, tag: key.tag))
            guard point.filtered[index].recipients.isEmpty else { return }
            point.removeFiltered(at: index)
            gone = 1
        }
        filteredCount -= gone
        isEmpty = root.isEmpty
    }

    /// The window of a filtered listen; nil when there is none.
    func window(of key: FilteredListenKey) -> Window? { filtered(key.query, at: key.path)?.window }

    /// Whether a session listens through the query.
    func hasWindow(of query: Query, at path: Path) -> Bool { filtered(query, at: path) != nil }

    private func filtered(_ query: Query, at path: Path) -> Filtered? {
        var point = root
        for key in path.keys {
            guard let next = point.children[key] else { return nil }
            point = next
        }
        return point.position(of: query).map { point.filtered[$0] }
    }

    /// The points strictly below the path, in no order; nil when there are more than `count`. O(depth +
    /// count).
    func paths(below path: Path, atMost count: Int) -> [Path]? {
        var point = root
        for key in path.keys {
            guard let next = point.children[key] else { return [] }
            point = next
        }
        var found: [Path] = []
        var remaining = [point]
        while let point = remaining.popLast() {
            guard found.count + remaining.count + point.children.count <= count else { return nil }
            for child in point.children.values {
                found.append(child.path)
                if !child.children.isEmpty { remaining.append(child) }
            }
        }
        return found
    }

    private func makePoint(at path: Path) -> Point {
        var point = root
        for (depth, key) in path.keys.enumerated() {
            if let next = point.children[key] {
                point = next
            } else {
                let next = Point(path: Path(Array(path.keys[...depth])))
                point.children[key] = next
                point = next
            }
        }
        return point
    }

    /// Changes the point at a path, if there is one, and drops points that nobody needs any more.
    private func withPoint(at path: Path, _ body: (Point) -> Void) {
        var way = [root]
        for key in path.keys {
            guard let next = way[way.count - 1].children[key] else { return }
            way.append(next)
        }
        body(way[way.count - 1])
        while way.count > 1, let last = way.popLast(), last.isEmpty {
            way[way.count - 1].children[path[way.count - 1]] = nil
        }
    }

    // MARK: Invariants

    /// Points in the trie, the root included; for tests. Traps when a point is left that nobody needs, or
    /// when a write left its notes behind. O(points).
    func checkInvariants() -> Int {
        var filteredTotal = 0
        func check(_ point: Point) -> Int {
            precondition(point === root || !point.isEmpty, "a point was left behind at \(point.path)")
            precondition(
                point.watched.isEmpty && point.reportIndex == nil, "notes were left behind at \(point.path)")
            precondition(point.coveredCount >= 0)
            for (index, filtered) in point.filtered.enumerated() {
                precondition(
                    point.position(of: filtered.query) == index, "a query lost its place at \(point.path)")
                precondition(!filtered.recipients.isEmpty, "a window was left behind at \(point.path)")
            }
            filteredTotal += point.filtered.count
            return point.children.values.reduce(1) { $0 + check($1) }
        }
        let count = check(root)
        precondition(filteredTotal == filteredCount, "filtered listens are miscounted")
        precondition(isEmpty == root.isEmpty, "whether anybody listens was noted wrong")
        return count
    }
}

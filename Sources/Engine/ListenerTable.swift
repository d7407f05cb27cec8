import PandoTree

/// Who listens where: a trie of the paths that have listens on them or below them.
///
///     root ─ "rooms" ─ "a"   default listens: sessions, in the order they came
///                            filtered listens: one per distinct query, with its window and the (session, tag)s
///
/// A write walks from the root to its path (everybody there hears of it) and then into the listens below (whose
/// value may have changed). Cost follows the listens that are told, not those that exist.
///
/// A class tree inside a struct: the table belongs to one engine, which belongs to one thread.
/// `@unchecked Sendable`: whoever owns the engine owns the points; they are never handed out.
struct ListenerTable: @unchecked Sendable {
    final class Point {
        let path: Path
        var children: [Key: Point] = [:]
        /// Sessions with a default listen here that no wider listen of theirs covers.
        var defaults = SessionSet()
        /// Default listens here that are covered. Counted so that the point stays while they do.
        var coveredCount = 0
        var filtered: [Filtered] = []

        init(path: Path) {
            self.path = path
        }

        var isEmpty: Bool {
            children.isEmpty && defaults.isEmpty && coveredCount == 0 && filtered.isEmpty
        }

        var hears: Bool { !defaults.isEmpty || !filtered.isEmpty }
    }

    /// One distinct query at one location, however many sessions ask it.
    final class Filtered {
        let query: Query
        var window: Window
        var recipients: [Push.TaggedRecipient] = []

        init(query: Query, over node: Node) {
            self.query = query
            window = Window(query, over: node)
        }
    }

    private(set) var root = Point(path: .root)
    /// Distinct filtered listens; while it is zero, writes need not look at what was there before.
    private(set) var filteredCount = 0

    init() {}

    // MARK: Adding and removing

    mutating func addDefault(_ session: SessionID, at path: Path, isCovered: Bool) {
        let point = makePoint(at: path)
        if isCovered { point.coveredCount += 1 } else { point.defaults.insert(session) }
    }

    mutating func removeDefault(_ session: SessionID, at path: Path, isCovered: Bool) {
        withPoint(at: path) { point in
            if isCovered { point.coveredCount -= 1 } else { point.defaults.remove(session) }
        }
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
    }

    /// Adds a recipient to the window of a query, which is made over `node` when it is the first.
    mutating func addFiltered(_ key: FilteredListenKey, _ session: SessionID, over node: Node) -> Window {
        let point = makePoint(at: key.path)
        let filtered: Filtered
        if let found = point.filtered.first(where: { $0.query == key.query }) {
            filtered = found
        } else {
            filtered = Filtered(query: key.query, over: node)
            point.filtered.append(filtered)
            filteredCount += 1
        }
        let recipient = Push.TaggedRecipient(session: session, tag: key.tag)
        if !filtered.recipients.contains(recipient) { filtered.recipients.append(recipient) }
        return filtered.window
    }

    mutating func removeFiltered(_ key: FilteredListenKey, _ session: SessionID) {
        var gone = 0
        withPoint(at: key.path) { point in
            guard let index = point.filtered.firstIndex(where: { $0.query == key.query }) else { return }
            let recipient = Push.TaggedRecipient(session: session, tag: key.tag)
            point.filtered[index].recipients.removeAll { $0 == recipient }
            if point.filtered[index].recipients.isEmpty {
                point.filtered.remove(at: index)
                gone = 1
            }
        }
        filteredCount -= gone
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
}

/// Sessions in a fixed order, with O(1) insertion and removal.
///
/// The members are one array that a push shares without a copy.
struct SessionSet: Sendable {
    private(set) var members: ContiguousArray<SessionID> = []
    /// Where each member stands; kept from ``indexedCount`` members on, since a short array is searched faster.
    private var positions: [SessionID: Int] = [:]
    private static let indexedCount = 16

    var isEmpty: Bool { members.isEmpty }

    mutating func insert(_ session: SessionID) {
        guard position(of: session) == nil else { return }
        members.append(session)
        if members.count > Self.indexedCount {
            if positions.isEmpty {
                for (index, member) in members.enumerated() { positions[member] = index }
            } else {
                positions[session] = members.count - 1
            }
        }
    }

    mutating func remove(_ session: SessionID) {
        guard let index = position(of: session) else { return }
        let last = members.removeLast()
        positions[session] = nil
        if index < members.count {
            members[index] = last
            if !positions.isEmpty { positions[last] = index }
        }
        if members.count <= Self.indexedCount { positions = [:] }
    }

    private func position(of session: SessionID) -> Int? {
        positions.isEmpty ? members.firstIndex(of: session) : positions[session]
    }
}

import PandoTree

/// All listens of a database in two indexes: by session, and by location (``ListenerTable``).
///
/// Always true: every listen of a session is in the table too. (The table may have more: ``EndingListens``.) A
/// session without listens is not in the first index. A default listen is covered if and only if its session has
/// another one above it.
struct ListenRegistry: Sendable {
    private(set) var table = ListenerTable()
    private var bySession: [SessionID: SessionListens] = [:]
    /// Listens of all sessions in the first index.
    private(set) var defaultCount = 0
    private(set) var filteredCount = 0

    /// The sessions that have listens, in no particular order.
    var sessions: some Collection<SessionID> { bySession.keys }

    /// The listens of a session; nil when it has none. O(1).
    subscript(session: SessionID) -> SessionListens? { bySession[session] }

    // MARK: Adding

    /// Adds a default listen, unless the session has it already. O(depth + listens below).
    mutating func add(defaultAt path: Path, of session: SessionID) {
        var listens = bySession.removeValue(forKey: session) ?? SessionListens()
        defer { bySession[session] = listens }
        guard listens.defaults[path] == nil else { return }
        let isCovered = listens.hasDefault(covering: path, strictly: true)
        cover(below: path, &listens, session)
        listens.defaults[path] = isCovered
        defaultCount += 1
        table.addDefault(session, at: path, isCovered: isCovered)
    }

    /// Adds a filtered listen, unless the session has it already.
    /// - Parameters:
    ///   - index: The location's index in the query's order; nil where there is none.
    ///   - node: The location's data, over which a new window is made.
    ///   - prepared: The window over that data, if it was made before.
    /// - Returns: The view of the query.
    mutating func add(
        _ key: FilteredListenKey, by index: KeptIndex?, of session: SessionID, over node: Node,
        prepared: Window?
    ) -> ListenerTable.QueryView {
        if bySession[session, default: SessionListens()].insert(key) { filteredCount += 1 }
        let view = table.addView(key, session, over: node, by: index, prepared: prepared)
        bySession[session]?.count(view.window.entries.count, of: key)
        return view
    }

    // MARK: Removing

    /// Removes a default listen, if the session has it. O(depth + listens below).
    mutating func remove(defaultAt path: Path, of session: SessionID) {
        guard var listens = bySession.removeValue(forKey: session) else { return }
        if let isCovered = listens.defaults.removeValue(forKey: path) {
            defaultCount -= 1
            table.removeDefault(session, at: path, isCovered: isCovered)
            uncover(below: path, &listens, session)
        }
        if !listens.isEmpty { bySession[session] = listens }
    }

    /// Removes a filtered listen, if the session has it. O(depth).
    mutating func remove(_ key: FilteredListenKey, of session: SessionID) {
        guard var listens = bySession.removeValue(forKey: session) else { return }
        if listens.remove(key) {
            filteredCount -= 1
            table.removeFiltered(key, session)
        }
        if !listens.isEmpty { bySession[session] = listens }
    }

    /// Removes all listens from the first index. They stay in the table until ``end(_:atMost:)`` has removed them.
    /// - Returns: Nil where the session has no listens.
    mutating func detach(_ session: SessionID) -> EndingListens? {
        guard let listens = bySession.removeValue(forKey: session) else { return nil }
        defaultCount -= listens.defaults.count
        filteredCount -= listens.filtered.count
        return EndingListens(listens, of: session)
    }

    /// Removes up to `limit` default listens and up to `limit` filtered ones from the table. O(limit × depth).
    mutating func end(_ listens: inout EndingListens, atMost limit: Int) {
        for _ in 0..<min(limit, listens.defaults.count) {
            let (path, isCovered) = listens.defaults.removeLast()
            table.removeDefault(listens.session, at: path, isCovered: isCovered)
        }
        let last = listens.firstFiltered + min(limit, listens.filtered.count - listens.firstFiltered)
        for index in listens.firstFiltered..<last {
            table.removeFiltered(listens.filtered[index], listens.session)
        }
        listens.firstFiltered = last
    }

    // MARK: Covering

    /// Marks the session's listens below `path` as covered by one at `path`, which gets their changes too.
    private mutating func cover(below path: Path, _ listens: inout SessionListens, _ session: SessionID) {
        for other in ownListens(below: path, listens) where listens.defaults[other] == false {
            listens.defaults[other] = true
            table.setCovered(true, session, at: other)
        }
    }

    /// Marks the session's listens that one at `path` covered as not covered, unless another one covers them.
    private mutating func uncover(below path: Path, _ listens: inout SessionListens, _ session: SessionID) {
        for other in ownListens(below: path, listens) where listens.defaults[other] == true {
            guard !listens.hasDefault(covering: other, strictly: true) else { continue }
            listens.defaults[other] = false
            table.setCovered(false, session, at: other)
        }
    }

    /// Locations below the path that include all listens of the session there, in no particular order, which
    /// does not matter, since each listen has a trie node of its own. These are the locations of all sessions
    /// there, or all locations of the session, whichever are fewer. So a session with fifty thousand listens
    /// beside one another does not visit all of them for each.
    private func ownListens(below path: Path, _ listens: SessionListens) -> [Path] {
        guard !listens.defaults.isEmpty else { return [] }
        return table.paths(below: path, atMost: listens.defaults.count)
            ?? listens.defaults.keys.filter { path != $0 && path.contains($0) }
    }

    // MARK: Invariants

    /// Counts the nodes of the table's trie, the root included; for tests. Traps when the two indexes contradict
    /// each other. O(listens × depth).
    func checkInvariants() -> Int {
        precondition(
            defaultCount == bySession.values.reduce(0) { $0 + $1.defaults.count }
                && filteredCount == bySession.values.reduce(0) { $0 + $1.filtered.count },
            "listens are miscounted")
        for (session, listens) in bySession {
            precondition(!listens.isEmpty, "\(session) has no listens")
            for (path, isCovered) in listens.defaults {
                precondition(listens.hasDefault(covering: path, strictly: true) == isCovered, "\(path)")
                precondition(
                    table.hasDefault(session, at: path, isCovered: isCovered), "\(path) is not in the table")
            }
            for key in listens.filtered.members {
                precondition(
                    table.hasFiltered(key, session), "a query at \(key.path) is not in the table")
            }
            let counts = Dictionary(grouping: listens.filtered.members, by: \.path).mapValues(\.count)
            precondition(counts == listens.filteredCounts, "filtered listens are miscounted")
        }
        return table.checkInvariants()
    }
}

/// The listens of a session that has ended, as far as the listener table still has them.
package struct EndingListens: Sendable {
    fileprivate let session: SessionID
    fileprivate var defaults: [(path: Path, isCovered: Bool)]
    /// Shares its storage with the listens, so it is not changed.
    fileprivate let filtered: [FilteredListenKey]
    /// The index of the first filtered listen that has not ended.
    fileprivate var firstFiltered = 0
    /// Held so that they are freed with this value, and not at once.
    private let listens: SessionListens

    fileprivate init(_ listens: SessionListens, of session: SessionID) {
        self.session = session
        self.listens = listens
        defaults = listens.defaults.map { ($0.key, $0.value) }
        filtered = listens.filtered.members
    }

    package var isEmpty: Bool { defaults.isEmpty && firstFiltered == filtered.count }
}

import PandoTree

/// All listens of a database in two indexes: by session, and by location (``ListenerTable``).
///
/// Always true: every listen of a session is in the table too. (The table may have more: ``EndingListens``.)
/// A session without listens is not in the first index.
///
/// A default listen below another one of its session is covered: it gets no pushes of its own (§6.4). One
/// that began before the listen above it is covered only if there are few below that; else it gets its
/// pushes, too, which clients take as well as once.
struct ListenRegistry: Sendable {
    private(set) var table = ListenerTable()
    private var bySession: [SessionID: SessionListens] = [:]
    /// Listens of all sessions in the first index.
    private(set) var defaultCount = 0
    private(set) var filteredCount = 0
    /// The listens of sessions that have ended with filtered ones (``detach(_:)``), until the table has none
    /// of them. Not changed, and shared with ``EndingListens``, which is freed last.
    private var ending: [SessionID: SessionListens] = [:]
    /// What one write does at once.
    var limits = Limits()
    /// Bytes that the listens of one session may take, at most ``SessionListens/byteLimit``.
    var byteLimit = SessionListens.byteLimit

    /// The sessions that have listens, in no particular order.
    var sessions: some Collection<SessionID> { bySession.keys }

    /// The listens of a session; nil when it has none. O(1).
    subscript(session: SessionID) -> SessionListens? { bySession[session] }

    // MARK: Adding

    /// Listens below a new one that become covered with it.
    private static let coveredAtOnce = 256

    /// Adds a default listen, unless the session has it already. O(bytes of the keys), and a bounded number
    /// of listens below.
    mutating func add(defaultAt path: Path, of session: SessionID) {
        var listens = bySession.removeValue(forKey: session) ?? SessionListens()
        defer { bySession[session] = listens }
        let hadOthers = !listens.defaults.isEmpty
        guard listens.insert(defaultAt: path) else { return }
        defaultCount += 1
        table.addDefault(
            session, at: path,
            isCovered: hadOthers && table.hasDefault(of: session, above: path))
        if hadOthers { coverListens(below: path, of: session, listens) }
    }

    /// Marks the session's default listens below the path as covered, where they are few, or all locations
    /// there are.
    private func coverListens(below path: Path, of session: SessionID, _ listens: SessionListens) {
        if table.cover(session, below: path, atMost: Self.coveredAtOnce) { return }
        guard listens.defaults.count <= Self.coveredAtOnce else { return }
        for other in listens.defaults.members where other != path && path.contains(other) {
            table.cover(session, at: other)
        }
    }

    /// Adds a filtered listen, unless the session has it already.
    /// - Parameters:
    ///   - index: The location's index in the query's order; nil where there is none.
    ///   - node: The location's data, over which a new window is made.
    ///   - prepared: The window over that data, if it was made before.
    ///   - sweep: The last one that a new view is up to date with (``QueryView/checkedSweep``).
    /// - Returns: The view of the query.
    mutating func add(
        _ key: FilteredListenKey, by index: KeptIndex?, of session: SessionID, over node: Node,
        prepared: Window?, sweep: Int
    ) -> QueryView {
        if bySession[session, default: SessionListens()].insert(key) { filteredCount += 1 }
        let view = table.addView(key, session, over: node, by: index, prepared: prepared, sweep: sweep)
        if view.recipients.count == 1 { view.chargedChildCount = view.window.entries.count }
        view.chargedRecipientCount = max(view.chargedRecipientCount, view.recipients.count)
        bySession[session]?.count(
            view.window.entries.count, sharedBy: view.recipients.count, of: key)
        return view
    }

    /// Charges a session with a window as it is now. O(1).
    /// - Returns: Whether the session may have it beside its other listens; nil where the session has no such
    ///   listen.
    mutating func recharge(_ key: FilteredListenKey, _ view: QueryView, of session: SessionID) -> Bool? {
        guard bySession[session]?.filtered.contains(key) == true else { return nil }
        bySession[session]?.recount(
            view.window.entries.count, sharedBy: view.recipients.count, of: key)
        return bySession[session]?.mayKeep(key, within: min(byteLimit, SessionListens.byteLimit))
    }

    // MARK: Removing

    /// Removes a default listen, if the session has it. O(depth): those below are no longer covered when the
    /// next write looks at them (``ListenerTable/uncoverListens(of:along:_:)``).
    mutating func remove(defaultAt path: Path, of session: SessionID) {
        guard var listens = bySession.removeValue(forKey: session) else { return }
        if listens.remove(defaultAt: path) {
            defaultCount -= 1
            table.removeDefault(session, at: path)
        }
        if !listens.isEmpty { bySession[session] = listens }
    }

    /// Removes a filtered listen, if the session has it. O(depth).
    /// - Returns: The view of its query, without recipients where no other listen has it; nil where the
    ///   session has no such listen.
    mutating func remove(_ key: FilteredListenKey, of session: SessionID) -> QueryView? {
        guard var listens = bySession.removeValue(forKey: session) else { return nil }
        var left: QueryView?
        if listens.remove(key) {
            filteredCount -= 1
            left = table.removeFiltered(key, session)
        }
        if !listens.isEmpty { bySession[session] = listens }
        return left
    }

    /// Removes all listens from the first index. They stay in the table until ``end(_:doing:)`` has removed
    /// them. O(1).
    /// - Returns: Nil where the session has no listens.
    mutating func detach(_ session: SessionID) -> EndingListens? {
        guard let listens = bySession.removeValue(forKey: session) else { return nil }
        defaultCount -= listens.defaults.count
        filteredCount -= listens.filtered.count
        if !listens.filtered.isEmpty { ending[session] = listens }
        return EndingListens(listens, of: session)
    }

    /// Removes listens from the table until the work is done, or all are removed.
    /// - Parameter work: As ``ListenCost/work(at:)`` counts it; one listen may exceed it.
    ///   What is done is subtracted.
    /// - Returns: The views of their queries: without recipients where no other listen has them.
    mutating func end(_ listens: inout EndingListens, doing work: inout Int) -> [QueryView] {
        var views: [QueryView] = []
        while work > 0, let next = listens.next {
            switch next {
            case .plain(let path):
                table.removeDefault(listens.session, at: path)
                work -= ListenCost.work(at: path)
            case .filtered(let key):
                if let view = table.removeFiltered(key, listens.session) { views.append(view) }
                work -= ListenCost.work(ofFilteredAt: key.path)
            }
            listens.endedCount += 1
        }
        if listens.isEmpty { ending[listens.session] = nil }
        return views
    }

    /// The filtered listens that the table has, and perhaps some that have ended, in no particular order of
    /// sessions.
    var listensInTable: some Sequence<SessionListens> { [bySession.values, ending.values].joined() }

    /// The filtered listens that the table has, by session, in the order of sessions. O(sessions × log).
    var filteredListens: [(session: SessionID, keys: [FilteredListenKey])] {
        var all: [(session: SessionID, keys: [FilteredListenKey])] = []
        for (session, listens) in bySession where !listens.filtered.isEmpty {
            all.append((session, listens.filtered.members))
        }
        for (session, listens) in ending { all.append((session, listens.filtered.members)) }
        // The order of a hash table would differ from machine to machine.
        return all.sorted { $0.session.rawValue < $1.session.rawValue }
    }

    // MARK: Invariants

    /// Counts the nodes of the table's trie, the root included; for tests. Traps when the two indexes
    /// contradict each other. O(listens × depth).
    func checkInvariants() -> Int {
        precondition(
            defaultCount == bySession.values.reduce(0) { $0 + $1.defaults.count }
                && filteredCount == bySession.values.reduce(0) { $0 + $1.filtered.count },
            "listens are miscounted")
        for (session, listens) in bySession {
            precondition(!listens.isEmpty, "\(session) has no listens")
            for path in listens.defaults.members {
                let (isCovered, isThere) = table.hasDefault(session, at: path)
                precondition(isThere, "\(path) is not in the table once")
                precondition(
                    isCovered || listens.defaults.count > Self.coveredAtOnce
                        || !table.hasDefault(of: session, above: path), "\(path) is not covered")
            }
            for key in listens.filtered.members {
                precondition(
                    table.hasFiltered(key, session), "a query at \(key.path) is not in the table")
            }
            listens.checkInvariants()
        }
        return table.checkInvariants()
    }
}

/// The listens of a session that has ended, as far as the listener table still has them.
package struct EndingListens: Sendable {
    fileprivate enum Next {
        case plain(Path)
        case filtered(FilteredListenKey)
    }

    fileprivate let session: SessionID
    /// Not changed, so that nothing is copied. Freed with this value, and not at once.
    private let listens: SessionListens
    /// Those that have ended: default listens first, each kind in its order.
    fileprivate var endedCount = 0

    fileprivate init(_ listens: SessionListens, of session: SessionID) {
        self.session = session
        self.listens = listens
    }

    package var isEmpty: Bool { endedCount == listens.count }

    /// Listens that have not ended.
    package var count: Int { listens.count - endedCount }

    /// About the bytes of memory that all of them took.
    package var byteCount: Int { listens.byteCount }

    /// The listen that ends next.
    fileprivate var next: Next? {
        let (defaults, filtered) = (listens.defaults.members, listens.filtered.members)
        if endedCount < defaults.count { return .plain(defaults[endedCount]) }
        return isEmpty ? nil : .filtered(filtered[endedCount - defaults.count])
    }
}

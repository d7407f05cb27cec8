import PandoTree

/// The listens of one session.
struct SessionListens: Sendable {
    /// The locations of default listens.
    private(set) var defaults = MemberSet<[Path]>()
    private(set) var filtered = MemberSet<[FilteredListenKey]>()
    /// The number of filtered listens, by location. Never 0.
    private(set) var filteredCounts: [Path: Int] = [:]

    /// Listens of one session; our own limit. Each costs memory, and a filtered listen that of its window.
    static let limit = 50_000

    /// Filtered listens of one session at one location; our own limit. A write there may change each of their
    /// windows, and all other commands wait meanwhile.
    static let filteredLimit = 1000

    /// Tags under which one session may listen to one query at one location; our own limit. SDKs use one. A
    /// push of the query takes a frame for each tag, which no other limit of a write counts.
    static let tagLimit = 16

    /// Children that the windows of one session at one location may have, beyond which it gets no further one
    /// that may be large, and loses one that becomes large; our own limit. Each takes memory, and time with
    /// each write that replaces them.
    static let windowChildLimit = 1 << 20
    /// Windows of fewer children are not counted: ``filteredLimit`` bounds them.
    static let smallWindowChildCount = 1024
    /// Children of the windows that are counted, by location. Never 0.
    private(set) var windowChildCounts: [Path: Int] = [:]
    private var countedWindows: [FilteredListenKey: CountedWindow] = [:]

    /// What a window is counted as.
    private struct CountedWindow {
        /// All of its children.
        var childCount: Int
        /// Of its bytes, this session's part: sessions with the same query share the window.
        var byteCount: Int
    }

    /// About the bytes of memory that the listens take (``ListenCost``). A window counts as it was when it
    /// began, or had last changed by much (``ResizedWindows``).
    private(set) var byteCount = 0
    /// About how long it takes to end all of them (``ListenCost/work(at:)``).
    private(set) var endingWork = 0

    /// About how long it takes to visit all default listens (``ListenCost/visits(at:)``).
    private(set) var defaultVisits = 0

    /// Bytes that the listens of one session may take; our own limit. Fifty thousand listens at usual depths
    /// take less.
    static let byteLimit = 128 << 20

    /// Live aggregates of one session; our own limit. Each is computed anew by the writes that it is about.
    static let aggregateLimit = 100
    /// Filtered listens that are live aggregates.
    private(set) var aggregateCount = 0

    /// Adds a default listen.
    /// - Returns: false when it was there.
    mutating func insert(defaultAt path: Path) -> Bool {
        guard defaults.insert(path) else { return false }
        byteCount += ListenCost.bytes(at: path)
        endingWork += ListenCost.work(at: path)
        defaultVisits += ListenCost.visits(at: path)
        return true
    }

    /// Removes a default listen.
    /// - Returns: false when it was not there.
    mutating func remove(defaultAt path: Path) -> Bool {
        guard defaults.remove(path) else { return false }
        byteCount -= ListenCost.bytes(at: path)
        endingWork -= ListenCost.work(at: path)
        defaultVisits -= ListenCost.visits(at: path)
        return true
    }

    /// - Returns: false when it was there.
    @discardableResult
    mutating func insert(_ key: FilteredListenKey) -> Bool {
        guard filtered.insert(key) else { return false }
        byteCount += ListenCost.bytes(at: key.path, key.query)
        endingWork += ListenCost.work(ofFilteredAt: key.path)
        filteredCounts[key.path, default: 0] += 1
        if !key.query.aggregates.isEmpty { aggregateCount += 1 }
        return true
    }

    /// - Returns: false when it was not there.
    mutating func remove(_ key: FilteredListenKey) -> Bool {
        guard filtered.remove(key) else { return false }
        byteCount -= ListenCost.bytes(at: key.path, key.query)
        endingWork -= ListenCost.work(ofFilteredAt: key.path)
        filteredCounts[key.path, default: 0] -= 1
        if !key.query.aggregates.isEmpty { aggregateCount -= 1 }
        if filteredCounts[key.path] == 0 { filteredCounts[key.path] = nil }
        uncount(key)
        return true
    }

    /// The children of a window do not count any more.
    private mutating func uncount(_ key: FilteredListenKey) {
        guard let counted = countedWindows.removeValue(forKey: key) else { return }
        byteCount -= counted.byteCount
        guard counted.childCount > Self.smallWindowChildCount else { return }
        windowChildCounts[key.path, default: 0] -= counted.childCount
        if windowChildCounts[key.path] == 0 { windowChildCounts[key.path] = nil }
    }

    /// Counts the children of a window that has begun.
    /// - Parameter recipientCount: The listens that share it, this one included.
    mutating func count(_ childCount: Int, sharedBy recipientCount: Int = 1, of key: FilteredListenKey) {
        guard childCount > 0, countedWindows[key] == nil else { return }
        let counted = CountedWindow(
            childCount: childCount,
            byteCount: childCount * ListenCost.windowEntryByteCount / max(1, recipientCount))
        countedWindows[key] = counted
        byteCount += counted.byteCount
        if childCount > Self.smallWindowChildCount { windowChildCounts[key.path, default: 0] += childCount }
    }

    /// Counts the children of a window that has changed. Parameters as of ``count(_:sharedBy:of:)``.
    mutating func recount(_ childCount: Int, sharedBy recipientCount: Int, of key: FilteredListenKey) {
        uncount(key)
        count(childCount, sharedBy: recipientCount, of: key)
    }

    /// Whether a window may go on that has grown: as one that begins, it may be as large as it is where the
    /// others do not take up all that the session may have.
    func mayKeep(_ key: FilteredListenKey, within byteLimit: Int) -> Bool {
        guard let counted = countedWindows[key] else { return true }
        guard byteCount - counted.byteCount <= byteLimit else { return false }
        return counted.childCount <= Self.smallWindowChildCount
            || (windowChildCounts[key.path] ?? 0) - counted.childCount < Self.windowChildLimit
    }

    /// Whether a window may begin at a location.
    func hasSpace(forWindowOf query: Query, at path: Path) -> Bool {
        if let limit = query.limit, limit.count <= Self.smallWindowChildCount { return true }
        return !query.aggregates.isEmpty || (windowChildCounts[path] ?? 0) < Self.windowChildLimit
    }

    var count: Int { defaults.count + filtered.count }

    var isEmpty: Bool { defaults.isEmpty && filtered.isEmpty }

    /// Traps when the listens are miscounted. O(listens); for tests.
    func checkInvariants() {
        let counts = Dictionary(grouping: filtered.members, by: \.path).mapValues(\.count)
        precondition(counts == filteredCounts, "filtered listens are miscounted")
        precondition(
            byteCount == defaults.members.reduce(0) { $0 + ListenCost.bytes(at: $1) }
                + filtered.members.reduce(0) { $0 + ListenCost.bytes(at: $1.path, $1.query) }
                + countedWindows.values.reduce(0) { $0 + $1.byteCount }, "bytes of listens are miscounted")
        precondition(
            endingWork == defaults.members.reduce(0) { $0 + ListenCost.work(at: $1) }
                + filtered.members.reduce(0) { $0 + ListenCost.work(ofFilteredAt: $1.path) },
            "the work to end the listens is miscounted")
        precondition(
            defaultVisits == defaults.members.reduce(0) { $0 + ListenCost.visits(at: $1) },
            "the work to visit the listens is miscounted")
    }
}

/// What identifies a filtered listen among those of one session (§4.2).
struct FilteredListenKey: Hashable, Sendable {
    var path: Path
    var query: Query
    var tag: Int64
}

import PandoTree

/// The listens of one session.
struct SessionListens: Sendable {
    /// Default listens by location. True: covered by a default listen of the same session above, which gets
    /// its changes too (§6.4).
    var defaults: [Path: Bool] = [:]
    private(set) var filtered = MemberSet<[FilteredListenKey]>()
    /// The number of filtered listens, by location. Never 0.
    private(set) var filteredCounts: [Path: Int] = [:]

    /// Listens of one session; our own limit. Each costs memory, and a filtered listen that of its window.
    static let limit = 50_000

    /// Filtered listens of one session at one location; our own limit. A write there may change each of their
    /// windows, and all other commands wait meanwhile.
    static let filteredLimit = 1000

    /// Children that the windows of one session at one location may have, beyond which it gets no further one that may be
    /// large; our own limit. Each takes memory, and time with each write that replaces them.
    static let windowChildLimit = 1 << 20
    /// Windows of fewer children are not counted: ``filteredLimit`` bounds them.
    static let smallWindowChildCount = 1024
    /// Children of the windows that are counted, by location, as many as they had when they began. Never 0.
    private(set) var windowChildCounts: [Path: Int] = [:]
    private var countedWindows: [FilteredListenKey: Int] = [:]

    /// Live aggregates of one session; our own limit. Each is computed anew by the writes that it is about.
    static let aggregateLimit = 100
    /// Filtered listens that are live aggregates.
    private(set) var aggregateCount = 0

    /// - Returns: false when it was there.
    @discardableResult
    mutating func insert(_ key: FilteredListenKey) -> Bool {
        guard filtered.insert(key) else { return false }
        filteredCounts[key.path, default: 0] += 1
        if !key.query.aggregates.isEmpty { aggregateCount += 1 }
        return true
    }

    /// - Returns: false when it was not there.
    mutating func remove(_ key: FilteredListenKey) -> Bool {
        guard filtered.remove(key) else { return false }
        filteredCounts[key.path, default: 0] -= 1
        if !key.query.aggregates.isEmpty { aggregateCount -= 1 }
        if filteredCounts[key.path] == 0 { filteredCounts[key.path] = nil }
        if let count = countedWindows.removeValue(forKey: key) {
            windowChildCounts[key.path, default: 0] -= count
            if windowChildCounts[key.path] == 0 { windowChildCounts[key.path] = nil }
        }
        return true
    }

    /// Counts the children of a window that has begun.
    mutating func count(_ childCount: Int, of key: FilteredListenKey) {
        guard childCount > Self.smallWindowChildCount, countedWindows[key] == nil else { return }
        countedWindows[key] = childCount
        windowChildCounts[key.path, default: 0] += childCount
    }

    /// Whether a window may begin at a location.
    func hasSpace(forWindowOf query: Query, at path: Path) -> Bool {
        if let limit = query.limit, limit.count <= Self.smallWindowChildCount { return true }
        return !query.aggregates.isEmpty || (windowChildCounts[path] ?? 0) < Self.windowChildLimit
    }

    var count: Int { defaults.count + filtered.count }

    var isEmpty: Bool { defaults.isEmpty && filtered.isEmpty }

    /// The default listen at the path or above it that no other one covers; nil where there is none. O(depth).
    func uncoveredListen(at path: Path) -> Path? {
        guard !defaults.isEmpty else { return nil }
        var prefix = path
        while true {
            if defaults[prefix] == false { return prefix }
            if prefix.isRoot { return nil }
            prefix.keys.removeLast()
        }
    }

    /// Whether there is a default listen at the path or above it; with `strictly`, above it. O(depth).
    func hasDefault(covering path: Path, strictly: Bool = false) -> Bool {
        guard !defaults.isEmpty else { return false }
        var prefix = path
        if !strictly, defaults[prefix] != nil { return true }
        while !prefix.isRoot {
            prefix.keys.removeLast()
            if defaults[prefix] != nil { return true }
        }
        return false
    }
}

/// What identifies a filtered listen among those of one session (§4.2).
struct FilteredListenKey: Hashable, Sendable {
    var path: Path
    var query: Query
    var tag: Int64
}

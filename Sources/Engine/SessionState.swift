import PandoTree

/// What the engine remembers of one connection.
struct SessionState: Sendable {
    /// Default listens by location. True: covered by a wider one of the same session, which speaks for it
    /// (§6.4).
    var defaultListens: [Path: Bool] = [:]
    var filteredListens = MemberSet<[FilteredListenKey]>()
    /// Filtered listens by location, where there is any.
    private(set) var filteredCounts: [Path: Int] = [:]
    var queue = DisconnectQueue()

    /// Listens of one connection; our own bound. Each costs memory, a filtered one that of its window.
    static let listenLimit = 50_000

    /// Listens through a query that one connection may have at one location; our own bound. A write there may
    /// concern each of their windows, and others wait for it meanwhile.
    static let filteredListenLimit = 1000

    mutating func forgetListens() {
        defaultListens = [:]
        filteredListens = MemberSet()
        filteredCounts = [:]
    }

    /// - Returns: false when it was there.
    @discardableResult
    mutating func insert(_ key: FilteredListenKey) -> Bool {
        guard filteredListens.insert(key) else { return false }
        filteredCounts[key.path, default: 0] += 1
        return true
    }

    /// - Returns: false when it was not there.
    mutating func remove(_ key: FilteredListenKey) -> Bool {
        guard filteredListens.remove(key) else { return false }
        filteredCounts[key.path, default: 0] -= 1
        if filteredCounts[key.path] == 0 { filteredCounts[key.path] = nil }
        return true
    }

    var listenCount: Int { defaultListens.count + filteredListens.members.count }

    /// Nothing is worth remembering: the state goes, so that a session costs nothing between its listens.
    var isIdle: Bool { defaultListens.isEmpty && filteredListens.isEmpty && queue.isEmpty }

    /// The default listen at the path or above it that speaks for all below it; nil where there is none.
    /// O(depth).
    func uncoveredListen(at path: Path) -> Path? {
        guard !defaultListens.isEmpty else { return nil }
        var prefix = path
        while true {
            if defaultListens[prefix] == false { return prefix }
            if prefix.isRoot { return nil }
            prefix.keys.removeLast()
        }
    }

    /// True when a default listen at the path or above it exists; `strictly`: above it. O(depth).
    func hasDefaultListen(covering path: Path, strictly: Bool = false) -> Bool {
        guard !defaultListens.isEmpty else { return false }
        var prefix = path
        if !strictly, defaultListens[prefix] != nil { return true }
        while !prefix.isRoot {
            prefix.keys.removeLast()
            if defaultListens[prefix] != nil { return true }
        }
        return false
    }
}

/// What makes a filtered listen of one session the same as another (§4.2).
struct FilteredListenKey: Hashable, Sendable {
    var path: Path
    var query: Query
    var tag: Int64
}

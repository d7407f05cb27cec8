import PandoTree

/// What the engine remembers of one connection.
struct SessionState: Sendable {
    /// Default listens by location. True: covered by a wider one of the same session, which speaks for it (§6.4).
    var defaultListens: [Path: Bool] = [:]
    var filteredListens = MemberSet<[FilteredListenKey]>()
    var queue = DisconnectQueue()

    /// Listens of one connection; our own bound. Each costs memory, a filtered one that of its window.
    static let listenLimit = 50_000

    var listenCount: Int { defaultListens.count + filteredListens.members.count }

    /// Nothing is worth remembering: the state goes, so that a session costs nothing between its listens.
    var isIdle: Bool { defaultListens.isEmpty && filteredListens.isEmpty && queue.isEmpty }

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

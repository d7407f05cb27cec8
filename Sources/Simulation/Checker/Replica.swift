/// What one session holds of the database, kept up to date by pushes as an SDK does it (realtime §5), or by
/// the events of a stream (rest §8).
struct Replica {
    struct Held {
        enum State: Equatable { case asked, active }

        /// The request that began it: one that has ended may have been at the same place.
        let request: Int
        var state = State.asked
        var cache = Value.nothing
    }

    struct FilteredListen {
        var path: [String]
        var query: ReferenceQuery
        var held: Held
    }

    let session: UInt64
    let namespace: String
    let person: Person
    /// Much is unsent to it: what it is pushed is coalesced.
    var isLagging = false
    /// Default listens.
    private(set) var whole: [[String]: Held] = [:]
    /// Filtered listens, by tag.
    private(set) var windows: [Int: FilteredListen] = [:]
    /// What the server has ended.
    var revoked: [[String]] = []

    init(session: UInt64, namespace: String, person: Person) {
        self.session = session
        self.namespace = namespace
        self.person = person
    }

    /// A listen was requested.
    mutating func ask(_ path: [String], _ query: ReferenceQuery?, _ tag: Int?, request: Int) {
        let held = Held(request: request)
        if let query, let tag {
            windows[tag] = FilteredListen(path: path, query: query, held: held)
        } else {
            whole[path] = held
        }
    }

    /// The server has begun, or refused, a listen.
    mutating func answered(_ request: Int, _ path: [String], _ tag: Int?, isOn: Bool) {
        guard (tag.map { windows[$0]?.held } ?? whole[path])?.request == request else { return }
        if isOn {
            if let tag { windows[tag]?.held.state = .active } else { whole[path]?.state = .active }
        } else {
            forget(path, tag)
        }
    }

    mutating func forget(_ path: [String], _ tag: Int?) {
        if let tag { windows[tag] = nil } else { whole[path] = nil }
    }

    /// A listen has ended at the server: what is only requested will be sent from the beginning.
    mutating func forgetWhatIsAsked() {
        for (path, held) in whole where held.state == .asked { whole[path]?.cache = .nothing }
        for (tag, window) in windows where window.held.state == .asked { windows[tag]?.held.cache = .nothing }
    }

    /// The server has ended a listen by itself (§5.4).
    mutating func revoke(_ path: [String], isFiltered: Bool) {
        if isFiltered {
            for tag in windows.keys where windows[tag]?.path == path { windows[tag] = nil }
        } else {
            whole[path] = nil
        }
        revoked.append(path)
        forgetWhatIsAsked()
    }

    // MARK: Pushes

    /// An event of a stream has come: a change relative to its root.
    mutating func receive(_ event: SentEvent) {
        guard let root = whole.keys.first else { return }
        if let changes = event.changes {
            receive(changes.map { (root + $0.path, $0.value) }, tag: nil)
            whole[root]?.state = .active
        } else if event.name == "cancel" {
            revoke(root, isFiltered: false)
        }
    }

    mutating func receive(_ entries: [(path: [String], value: Value)], tag: Int?) {
        if let tag { return receive(entries, inWindow: tag) }
        for location in whole.keys {
            for (path, value) in entries {
                if path.starts(with: location) {
                    guard let cache = whole[location]?.cache else { continue }
                    whole[location]?.cache = cache.putting(value, at: path.dropFirst(location.count))
                } else if location.starts(with: path) {
                    whole[location]?.cache = value[Array(location.dropFirst(path.count))]
                }
            }
        }
    }

    /// Children that are held already come first, as in the SDKs; deep data for others is ignored.
    private mutating func receive(_ entries: [(path: [String], value: Value)], inWindow tag: Int) {
        guard let window = windows[tag] else { return }
        var cache = window.held.cache
        let location = window.path
        func isKnown(_ path: [String]) -> Bool {
            path.count > location.count && cache[path[location.count]] != .nothing
        }
        for (path, value) in entries.filter({ isKnown($0.path) }) + entries.filter({ !isKnown($0.path) }) {
            if path.starts(with: location) {
                if path.count > location.count + 1, !isKnown(path) { continue }
                cache = cache.putting(value, at: path.dropFirst(location.count))
            } else if location.starts(with: path) {
                cache = value[Array(location.dropFirst(path.count))]
            } else {
                continue
            }
            cache = window.query.filter(cache)
        }
        windows[tag]?.held.cache = cache
    }

    /// Holds what is equal to the tree's as the same object, so that comparing it again takes no time.
    /// - Precondition: ``contradiction(of:)`` has found nothing.
    mutating func share(_ space: ReferenceState.Namespace) {
        for path in whole.keys where whole[path]?.state == .active { whole[path]?.cache = space.root[path] }
    }

    // MARK: What must be true

    /// What of its listens is not as the tree says; nil when all is well.
    func contradiction(of space: ReferenceState.Namespace) -> String? {
        for (path, held) in whole where held.state == .active {
            guard space.rules.allowsRead(path, person) else {
                return "still listens at \(path), where it may not read"
            }
            if held.cache != space.root[path] {
                return "holds \(held.cache.json) at \(path), where there is \(space.root[path].json)"
            }
        }
        for (tag, window) in windows where window.held.state == .active {
            guard space.rules.allowsRead(window.path, person) else {
                return "still listens at \(window.path), tag \(tag), where it may not read"
            }
            let expected = window.query.filter(space.root[window.path])
            if window.held.cache != expected {
                return
                    "holds \(window.held.cache.json) in window \(tag) \(window.query.json) at \(window.path), where there is \(expected.json)"
            }
        }
        return nil
    }
}

// The reference: what a server must hold after each command, from the specification, in the simplest words.

/// Everything that a data directory must hold.
struct ReferenceState: Equatable {
    struct Queued: Equatable {
        var path: [String]
        var draft: String
        var person: Person
        var increment: Int?
        var value: Value?

        init(_ path: [String], _ draft: Draft, _ person: Person) {
            self.path = path
            self.draft = draft.json
            self.person = person
            switch draft {
            case .increment(let by): increment = by
            case .plain(let plain): value = plain
            case .timestamp, .object: break
            }
        }

        func resolved(_ current: Value, time: Int64) -> Value {
            if let value { return value }
            guard let increment else { return Draft.timestamp.resolved(current, time: time) }
            return Draft.increment(increment).resolved(current, time: time)
        }
    }

    struct Namespace: Equatable {
        var root = Value.nothing
        var rules = RulesDocument.open
        /// By session; paths lie beside one another.
        var queues: [UInt64: [Queued]] = [:]
    }

    var namespaces: [String: Namespace] = [:]

    /// A namespace without data is equal to none.
    static func == (left: ReferenceState, right: ReferenceState) -> Bool {
        left.agrees(with: right) { $0 == $1 }
    }

    private func agrees(with other: ReferenceState, _ isSame: (Namespace, Namespace) -> Bool) -> Bool {
        Set(namespaces.keys).union(other.namespaces.keys).allSatisfy { name in
            isSame(namespaces[name] ?? Namespace(), other.namespaces[name] ?? Namespace())
        }
    }

    /// Does the action.
    /// - Returns: What the answer must say.
    mutating func apply(
        _ action: ClientAction, _ session: UInt64, _ person: Person, in name: String, time: Int64
    )
        -> Outcome
    {
        var space = namespaces[name] ?? Namespace()
        defer { namespaces[name] = space }
        let (rules, root) = (space.rules, space.root)
        switch action {
        case .open: return .none
        case .authenticate: return .ok
        case .put(let path, let draft):
            guard rules.allowsWrite(path, person) else { return .denied }
            space.root = root.putting(draft.resolved(root[path], time: time), at: path[...])
            return .ok
        case .compareAndSet(let path, let expected, let isWrong, let draft):
            guard rules.allowsWrite(path, person) else { return .denied }
            guard !isWrong, root[path] == expected else { return .stale }
            space.root = root.putting(draft.resolved(root[path], time: time), at: path[...])
            return .ok
        case .merge(let base, let entries):
            guard entries.allSatisfy({ rules.allowsWrite(base + $0.path, person) }) else { return .denied }
            // Each against the tree before.
            let values = entries.map { ($0.path, $0.draft.resolved(root[base + $0.path], time: time)) }
            for (path, value) in values { space.root = space.root.putting(value, at: (base + path)[...]) }
            return .ok
        case .get(let path, let query), .restGet(let path, let query):
            guard rules.allowsRead(path, person) else { return .denied }
            return .data(query?.filter(root[path]) ?? root[path])
        case .listen(let path, _, _), .stream(let path):
            return rules.allowsRead(path, person) ? .ok : .denied
        case .unlisten: return .ok
        case .onDisconnect(let path, let draft):
            guard rules.allowsWrite(path, person) else { return .denied }
            space.queues[session, default: []].removeAll { $0.path == path }
            space.queues[session, default: []].append(Queued(path, draft, person))
            return .ok
        case .cancelOnDisconnect(let path):
            space.queues[session]?.removeAll { $0.path.starts(with: path) }
            if space.queues[session]?.isEmpty == true { space.queues[session] = nil }
            return .ok
        case .close:
            space.end(session, time: time)
            return .none
        case .restPut(let path, let value, let expected, let isWrong, _):
            guard expected == nil || rules.allowsRead(path, person), rules.allowsWrite(path, person) else {
                return .denied
            }
            if let expected, isWrong || root[path] != expected { return .stale }
            space.root = root.putting(value, at: path[...])
            return .data(space.root[path])
        case .restPatch(let path, let entries):
            guard entries.allSatisfy({ rules.allowsWrite(path + $0.path, person) }) else { return .denied }
            for entry in entries {
                space.root = space.root.putting(entry.value, at: (path + entry.path)[...])
            }
            return .ok
        case .restPost(let path, let value, let key):
            let place = path + [key ?? Self.unknownKey]
            guard rules.allowsWrite(place, person) else { return .denied }
            space.root = root.putting(value, at: place[...])
            return .ok
        case .rules(let new):
            guard person == .admin else { return .denied }
            space.rules = new
            return .ok
        }
    }

    /// The key of a new child that no answer has named.
    private static let unknownKey = "unknown"

    /// The server has died or stopped, and started again: all sessions have ended, in the order of their
    /// numbers.
    /// - Parameter limit: Only so many of those that had something queued.
    mutating func endDeadSessions(time: Int64, atMost limit: Int = .max) {
        var left = limit
        for name in namespaces.keys.sorted() {
            for session in (namespaces[name]?.queues ?? [:]).keys.sorted() where left > 0 {
                namespaces[name]?.end(session, time: time)
                left -= 1
            }
        }
    }

    var queueCount: Int { namespaces.values.reduce(0) { $0 + $1.queues.count } }

    /// The same, in the objects of another where they are equal.
    func sharing(_ other: ReferenceState) -> ReferenceState {
        var shared = self
        for name in namespaces.keys {
            guard let own = namespaces[name]?.root, let others = other.namespaces[name]?.root else {
                continue
            }
            shared.namespaces[name]?.root = own.sharing(others)
        }
        return shared
    }

    /// What can be seen from outside.
    func isSeenAs(_ other: ReferenceState) -> Bool {
        agrees(with: other) { $0.root == $1.root && $0.rules == $1.rules }
    }
}

extension ReferenceState.Namespace {
    /// All at one moment, each with the rights of the person that queued it.
    fileprivate mutating func end(_ session: UInt64, time: Int64) {
        guard let queue = queues.removeValue(forKey: session) else { return }
        let before = root
        for queued in queue where rules.allowsWrite(queued.path, queued.person) {
            root = root.putting(queued.resolved(before[queued.path], time: time), at: queued.path[...])
        }
    }
}

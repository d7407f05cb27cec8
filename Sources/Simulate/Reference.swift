// The reference: what a server must hold after each command, told by the specification in the simplest words
// there are.

/// As whom a client acts.
enum Person: Equatable {
    case nobody, user, admin
}

/// One of the rules documents that are put in force; each looks at paths and people only.
enum Rules: Int, CaseIterable {
    case open, writersSignIn, parts

    var source: String {
        switch self {
        case .open: #"{"rules":{".read":true,".write":true}}"#
        case .writersSignIn: #"{"rules":{".read":true,".write":"auth != null"}}"#
        case .parts:
            #"{"rules":{"a":{".read":true,".write":true},"c":{".read":true,".write":true},"#
                + #""p":{".read":"auth != null",".write":true}}}"#
        }
    }

    func allowsRead(_ path: [String], _ person: Person) -> Bool {
        switch self {
        case _ where person == .admin: true
        case .open, .writersSignIn: true
        case .parts: path.first == "a" || path.first == "c" || path.first == "p" && person == .user
        }
    }

    func allowsWrite(_ path: [String], _ person: Person) -> Bool {
        switch self {
        case _ where person == .admin: true
        case .open: true
        case .writersSignIn: person == .user
        case .parts: ["a", "c", "p"].contains(path.first)
        }
    }
}

/// What a client asks for.
enum Action {
    case open(Person)
    case put([String], Draft)
    /// A transaction: only if the data is still `expected`. The hash may be one that nothing has.
    case compareAndSet([String], expected: Value, isHashWrong: Bool, Draft)
    case merge(base: [String], [(path: [String], draft: Draft)])
    case get([String], ReferenceQuery? = nil)
    case listen([String], ReferenceQuery?, tag: Int?)
    case unlisten([String], ReferenceQuery?, tag: Int?)
    case onDisconnect([String], Draft)
    case cancelOnDisconnect([String])
    case close
    // Over REST:
    case restPut([String], Value, expected: Value?, isTagWrong: Bool)
    case restGet([String])
    case rules(Rules)
}

/// What must be answered.
enum Outcome: Equatable {
    case ok
    case data(Value)
    case denied
    case stale
    /// The disk is full; only where it may be.
    case diskFull
    case none
}

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
        var rules = Rules.open
        /// By session; paths lie beside one another.
        var queues: [UInt64: [Queued]] = [:]
    }

    var namespaces: [String: Namespace] = [:]

    /// A namespace that nobody has written to is as good as none.
    static func == (left: ReferenceState, right: ReferenceState) -> Bool {
        left.agrees(with: right) { $0 == $1 }
    }

    private func agrees(with other: ReferenceState, _ isSame: (Namespace, Namespace) -> Bool) -> Bool {
        Set(namespaces.keys).union(other.namespaces.keys).allSatisfy { name in
            isSame(namespaces[name] ?? Namespace(), other.namespaces[name] ?? Namespace())
        }
    }

    /// Does the action; says what must be answered.
    mutating func apply(_ action: Action, _ session: UInt64, _ person: Person, in name: String, time: Int64)
        -> Outcome
    {
        var space = namespaces[name] ?? Namespace()
        defer { namespaces[name] = space }
        let (rules, root) = (space.rules, space.root)
        switch action {
        case .open: return .none
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
        case .get(let path, let query?):
            return rules.allowsRead(path, person) ? .data(query.filter(root[path])) : .denied
        case .get(let path, nil), .restGet(let path):
            return rules.allowsRead(path, person) ? .data(root[path]) : .denied
        case .listen(let path, _, _): return rules.allowsRead(path, person) ? .ok : .denied
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
        case .restPut(let path, let value, let expected, let isWrong):
            guard expected == nil || rules.allowsRead(path, person), rules.allowsWrite(path, person) else {
                return .denied
            }
            if let expected, isWrong || root[path] != expected { return .stale }
            space.root = root.putting(value, at: path[...])
            return .data(space.root[path])
        case .rules(let new):
            guard person == .admin else { return .denied }
            space.rules = new
            return .ok
        }
    }

    /// The server has died or stopped, and started again: all sessions are over, in the order of their
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
    /// All at one moment, each as whoever queued it.
    fileprivate mutating func end(_ session: UInt64, time: Int64) {
        guard let queue = queues.removeValue(forKey: session) else { return }
        let before = root
        for queued in queue where rules.allowsWrite(queued.path, queued.person) {
            root = root.putting(queued.resolved(before[queued.path], time: time), at: queued.path[...])
        }
    }
}

import PandoBytes
import PandoSimulatedDisk
import PandoTree

// What the clients of a simulation do. Few places, so that they meet.

extension Simulation {
    private static let tops = ["a", "a", "a", "b", "c"]
    private static let middles = ["k0", "k1", "k2", "k3"]
    private static let bottoms = ["n", "m"]
    private static let presence = ["q0", "q1", "q2"]
    /// Requests under way at once, where each may have been refused: every subset of them is then a possible
    /// past.
    private static let refusableLimit = 6
    private static let clientLimit = 8

    func letClientsAct() throws {
        guard !mayBeFull || checker.unansweredCount < Self.refusableLimit else { return }
        let others = checker.clients.values.filter { !$0.isObserver }.map(\.session).sorted()
        if others.isEmpty || others.count < Self.clientLimit && random.chance(8) {
            open(random.pick([.nobody, .user, .user]), in: random.pick(Self.namespaces))
            return
        }
        if plan.hasFloods, random.chance(8) { return try flood(others) }
        let session = random.pick(others)
        if random.chance(4), mayHangUp { return close(session) }
        if random.chance(12) { return actOverREST() }
        for _ in 0..<random.pick([1, 1, 2, mayBeFull ? 1 : 5]) { try ask(nextAction(session), of: session) }
    }

    private func nextAction(_ session: UInt64) -> Action {
        let namespace = checker.clients[session]?.namespace ?? ""
        let root = checker.state.namespaces[namespace]?.root ?? .nothing
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<30: return .put(place(), draft())
        case 30..<42:
            let path = place()
            return .compareAndSet(path, expected: root[path], isHashWrong: random.chance(20), draft())
        case 42..<54: return merge()
        case 54..<62:
            return .put(["c", random.pick(Self.middles)], .increment(Int.random(in: 1...9, using: &random)))
        case 62..<70: return .get(random.chance(10) ? [] : place())
        case 70..<84: return listenOrNot(session)
        case 84..<95:
            guard let draft = presenceDraft(session) else { return .get(["p"]) }
            return .onDisconnect(["p", random.pick(Self.presence)], draft)
        default: return .cancelOnDisconnect(random.chance(50) ? ["p"] : ["p", random.pick(Self.presence)])
        }
    }

    private func actOverREST() {
        let namespace = random.pick(Self.namespaces)
        switch Int.random(in: 0..<10, using: &random) {
        case 0..<2:
            askOverREST(.rules(random.pick(Rules.allCases)), random.pick([.admin, .admin, .user]), namespace)
        case 2..<4: askOverREST(.restGet(place()), random.pick([.nobody, .admin]), namespace)
        default:
            let path = place()
            let root = checker.state.namespaces[namespace]?.root ?? .nothing
            askOverREST(
                .restPut(
                    path, value(), expected: random.chance(60) ? root[path] : nil,
                    isTagWrong: random.chance(15)),
                random.pick([.nobody, .user, .admin]), namespace)
        }
    }

    private func listenOrNot(_ session: UInt64) -> Action {
        guard let client = checker.clients[session] else { return .get([]) }
        let listens = client.listens
        if !listens.isEmpty, random.chance(35) {
            let one = random.pick(listens)
            return .unlisten(one.path, one.query, tag: one.tag)
        }
        let path = random.chance(10) ? [] : random.chance(50) ? [random.pick(Self.tops)] : place()
        if random.chance(60) {
            return client.hasListen(path, nil) ? .get(path) : .listen(path, nil, tag: nil)
        }
        // Of one path a client has one filtered listen here, so that a revocation names it.
        guard !listens.contains(where: { $0.tag != nil && $0.path == path }) else { return .get(path) }
        let query = ReferenceQuery(
            order: random.chance(50) ? .key : .child("n"), isFromStart: random.chance(50),
            limit: Int.random(in: 1...3, using: &random))
        return .listen(path, query, tag: client.nextRequest)
    }

    func place() -> [String] {
        let path = [random.pick(Self.tops), random.pick(Self.middles), random.pick(Self.bottoms)]
        return Array(path.prefix(random.pick([1, 2, 2, 2, 3])))
    }

    private func merge() -> Action {
        let base = random.chance(50) ? [] : [random.pick(Self.tops)]
        var keys = base.isEmpty ? ["a/k0", "a/k1", "b/k0", "c/k0", "b/k1/n"] : ["k0", "k1/n", "k2", "k3/m"]
        keys.shuffle(using: &random)
        let count = Int.random(in: 1...3, using: &random)
        return .merge(
            base: base, keys.prefix(count).map { ($0.split(separator: "/").map(String.init), draft()) })
    }

    func draft() -> Draft {
        switch Int.random(in: 0..<20, using: &random) {
        case 0: .increment(Int.random(in: -3...3, using: &random))
        case 1 where usesTime: .timestamp
        case 2: .object([("n", .increment(1)), ("m", .plain(.string("x")))])
        default: .plain(value())
        }
    }

    /// Where ends of sessions may wait, each must show.
    private func presenceDraft(_ session: UInt64) -> Draft? {
        if plan.hasFloods { return presenceAmount(of: session).map { .increment($0) } }
        if mayBeFull || random.chance(50) { return .increment(Int.random(in: 1...5, using: &random)) }
        return usesTime && random.chance(40) ? .timestamp : .plain(value())
    }

    func value() -> Value {
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<25: .nothing
        case 25..<50: .number(Double(Int.random(in: -99...999, using: &random)))
        case 50..<60: .boolean(random.chance(50))
        case 60..<70: .string(random.pick(["one", "two", "three"]))
        case 70..<72:
            .string(String(repeating: random.pick(["x", "y"]), count: random.pick([300, 3000, 40_000])))
        default:
            .object(
                Dictionary(
                    uniqueKeysWithValues: random.pick([["n"], ["m"], ["n", "m"], ["k0", "k1"]]).map {
                        ($0, .number(Double(Int.random(in: 0...99, using: &random))))
                    }))
        }
    }
}

/// Hashes as clients compute them (realtime §9); their own tests are elsewhere.
enum Hash {
    /// `""` for no data.
    static func simple(of value: Value) -> String { value == .nothing ? "" : node(value)?.hash ?? "" }
    static func tag(of value: Value) -> String { value == .nothing ? "null_etag" : simple(of: value) }

    private static func node(_ value: Value) -> Node? { try? Node(json: Array(value.json.utf8).rawSpan) }
}

import PandoRandom

/// Chooses what clients ask for. Few places, so that they meet.
struct ActionChooser {
    /// Server values of time may be used: it is known when a command was stamped.
    let usesTime: Bool
    /// The disk may be full: then the ends of sessions may wait, and only increments show each of them.
    let mayBeFull: Bool

    private static let tops = ["a", "a", "a", "b", "c"]
    private static let middles = ["k0", "k1", "k2", "k3"]
    private static let bottoms = ["n", "m"]
    private static let presence = ["q0", "q1", "q2"]

    // MARK: Realtime

    /// A request of a realtime client.
    /// - Parameters:
    ///   - root: What the database held lately.
    ///   - presenceDraft: What the client may queue for its end; nil for nothing.
    func action(
        of client: SimulatedClient, root: Value, presenceDraft: (inout SeededGenerator) -> Draft?,
        _ random: inout SeededGenerator
    ) -> ClientAction {
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<30: return .put(place(&random), draft(&random))
        case 30..<42:
            let path = place(&random)
            return .compareAndSet(
                path, expected: root[path], isHashWrong: random.chance(20), draft(&random))
        case 42..<54: return merge(&random)
        case 54..<62:
            return .put(["c", random.pick(Self.middles)], .increment(Int.random(in: 1...9, using: &random)))
        case 62..<70: return .get(random.chance(10) ? [] : place(&random))
        case 70..<84: return listenOrNot(client, &random)
        case 84..<95:
            guard let draft = presenceDraft(&random) else { return .get(["p"]) }
            return .onDisconnect(["p", random.pick(Self.presence)], draft)
        default: return .cancelOnDisconnect(random.chance(50) ? ["p"] : ["p", random.pick(Self.presence)])
        }
    }

    private func listenOrNot(_ client: SimulatedClient, _ random: inout SeededGenerator) -> ClientAction {
        let listens = client.listens
        if !listens.isEmpty, random.chance(35) {
            let one = random.pick(listens)
            return .unlisten(one.path, one.query, tag: one.tag)
        }
        let path = random.chance(10) ? [] : random.chance(50) ? [random.pick(Self.tops)] : place(&random)
        if random.chance(60) {
            return listens.contains { $0.path == path && $0.tag == nil }
                ? .get(path) : .listen(path, nil, tag: nil)
        }
        // Of one path a client has one filtered listen here, so that a revocation names it.
        guard !listens.contains(where: { $0.tag != nil && $0.path == path }) else { return .get(path) }
        let query = ReferenceQuery(
            order: random.chance(50) ? .key : .child("n"), isFromStart: random.chance(50),
            limit: Int.random(in: 1...3, using: &random))
        return .listen(path, query, tag: client.nextTag)
    }

    private func merge(_ random: inout SeededGenerator) -> ClientAction {
        let (base, paths) = mergePaths(&random)
        return .merge(base: base, paths.map { ($0, draft(&random)) })
    }

    /// Paths of which none lies above another.
    private func mergePaths(_ random: inout SeededGenerator) -> (base: [String], paths: [[String]]) {
        let base = random.chance(50) ? [] : [random.pick(Self.tops)]
        var keys = base.isEmpty ? ["a/k0", "a/k1", "b/k0", "c/k0", "b/k1/n"] : ["k0", "k1/n", "k2", "k3/m"]
        keys.shuffle(using: &random)
        let count = Int.random(in: 1...3, using: &random)
        return (base, keys.prefix(count).map { $0.split(separator: "/").map(String.init) })
    }

    /// What a client queues for its end.
    func presenceDraft(_ random: inout SeededGenerator) -> Draft {
        if mayBeFull || random.chance(50) { return .increment(Int.random(in: 1...5, using: &random)) }
        return usesTime && random.chance(40) ? .timestamp : .plain(value(&random))
    }

    // MARK: REST

    /// A REST request, and with whose rights.
    func restAction(root: Value, _ random: inout SeededGenerator) -> (ClientAction, Person) {
        switch Int.random(in: 0..<20, using: &random) {
        case 0..<3:
            return (.rules(random.pick(RulesDocument.allCases)), random.pick([.admin, .admin, .user]))
        case 3..<6:
            let query =
                random.chance(40)
                ? ReferenceQuery(
                    order: .key, isFromStart: random.chance(50), limit: Int.random(in: 1...3, using: &random))
                : nil
            return (.restGet(place(&random), query), random.pick([.anonymous, .admin]))
        case 6..<9:
            return (
                .stream(random.chance(20) ? [] : place(&random)), random.pick([.anonymous, .user, .admin])
            )
        case 9..<12:
            let (base, paths) = mergePaths(&random)
            return (
                .restPatch(base, paths.map { ($0, value(&random)) }),
                random.pick([.anonymous, .user, .admin])
            )
        case 12..<14:
            let value = value(&random)
            // Without data there is no new child.
            return (
                .restPost([random.pick(Self.tops)], value == .nothing ? .boolean(true) : value, key: nil),
                random.pick([.user, .admin])
            )
        default:
            let path = place(&random)
            let isDelete = random.chance(15)
            return (
                .restPut(
                    path, isDelete ? .nothing : value(&random),
                    expected: random.chance(60) ? root[path] : nil,
                    isTagWrong: random.chance(15), isDelete: isDelete),
                random.pick([.anonymous, .user, .admin])
            )
        }
    }

    // MARK: Floods

    enum Flood: CaseIterable { case writes, gets, failingTransactions, filteredReads, all }

    /// Children of the node at `big`: more than the server filters by itself
    /// (`LiveTree.inlineQueryChildCount`).
    private static let largeChildCount = 300

    /// What is written to `big`.
    static let largeNode = Value.object(
        Dictionary(
            uniqueKeysWithValues: (0..<largeChildCount).map { index in
                ("k\(index)", .object(["n": .number(Double(index * 7919 % 1000)), "m": .string("x")]))
            }))

    /// One request of a flood.
    func action(of flood: Flood, root: Value, _ random: inout SeededGenerator) -> ClientAction {
        let kind = flood == .all ? random.pick([.writes, .gets, .failingTransactions]) : flood
        switch kind {
        case .writes, .all:
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<2: return .put(["c", "k0"], .increment(Int.random(in: 1...9, using: &random)))
            case 2..<4:
                let child = Int.random(in: 0..<Self.largeChildCount, using: &random)
                return .put(
                    ["big", "k\(child)", "n"],
                    .plain(.number(Double(Int.random(in: 0...999, using: &random)))))
            default: return .put(place(&random), .plain(value(&random)))
            }
        case .gets: return .get(place(&random))
        case .failingTransactions:
            let path = place(&random)
            return .compareAndSet(
                path, expected: root[path], isHashWrong: random.chance(90), draft(&random))
        case .filteredReads:
            return .get(
                ["big"],
                ReferenceQuery(
                    order: random.chance(50) ? .key : .child("n"), isFromStart: random.chance(50),
                    limit: Int.random(in: 1...3, using: &random)))
        }
    }

    // MARK: Places and values

    private func place(_ random: inout SeededGenerator) -> [String] {
        let path = [random.pick(Self.tops), random.pick(Self.middles), random.pick(Self.bottoms)]
        return Array(path.prefix(random.pick([1, 2, 2, 2, 3])))
    }

    private func draft(_ random: inout SeededGenerator) -> Draft {
        switch Int.random(in: 0..<20, using: &random) {
        case 0: .increment(Int.random(in: -3...3, using: &random))
        case 1 where usesTime: .timestamp
        case 2: .object([("n", .increment(1)), ("m", .plain(.string("x")))])
        default: .plain(value(&random))
        }
    }

    private func value(_ random: inout SeededGenerator) -> Value {
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

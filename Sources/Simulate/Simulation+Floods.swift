import PandoEngine
import PandoServer

// Clients that ask for much more than is done at once, beside the others; some hang up in the middle.

extension Simulation {
    private enum Flood: CaseIterable { case writes, gets, failingTransactions, filteredReads, all }

    /// Nobody floods while so many requests wait.
    private static let waitingLimit = 1500
    /// Filtered reads of one flood: each sorts the large node, here too.
    private static let filteredReadLimit = 150
    /// More children than the server filters by itself (`Engine.inlineQueryChildCount`).
    private static let largeChildCount = 300

    func flood(_ others: [UInt64]) throws {
        guard checker.waiting.count < Self.waitingLimit else { return hangUp() }
        let session = random.chance(50) ? random.pick(others) : open(.user, in: random.pick(Self.namespaces))
        let kind = random.pick(Flood.allCases)
        var count = random.pick([150, 400, 1000, 2500])
        if kind == .filteredReads { count = min(count, Self.filteredReadLimit) }
        let namespace = checker.clients[session]?.namespace ?? ""
        note("\(session & 0xFFFF) floods: \(count) \(kind)")
        flooders.insert(session)
        if namespacesWithLargeNode.insert(namespace).inserted {
            try ask(.put(["big"], .plain(Self.largeNode)), of: session)
        }
        for _ in 0..<count { try ask(nextFlooded(kind, namespace), of: session) }
        totals.floodedRequests += count
        if random.chance(30) { hangUp() }
    }

    /// One of those who flood is gone, with all that it has asked for still waiting, or some of it.
    private func hangUp() {
        guard mayHangUp, let session = flooders.filter({ checker.clients[$0] != nil }).sorted().first else {
            return
        }
        close(session)
    }

    /// Or too many ends would have to be told apart.
    var mayHangUp: Bool {
        !plan.hasFloods
            || checker.waiting.ends(where: checker.state.hasQueue).count + closingCount
                < Checker.undecidedEndLimit
    }

    private var closingCount: Int { checker.waiting.closingCount }

    private func nextFlooded(_ kind: Flood, _ namespace: String) -> Action {
        let kind = kind == .all ? random.pick([.writes, .gets, .failingTransactions]) : kind
        switch kind {
        case .writes, .all:
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<2: return .put(["c", "k0"], .increment(Int.random(in: 1...9, using: &random)))
            case 2..<4:
                let child = Int.random(in: 0..<Self.largeChildCount, using: &random)
                return .put(
                    ["big", "k\(child)", "n"],
                    .plain(.number(Double(Int.random(in: 0...999, using: &random)))))
            default: return .put(place(), .plain(value()))
            }
        case .gets: return .get(place())
        case .failingTransactions:
            let path = place()
            let root = checker.state.namespaces[namespace]?.root ?? .nothing
            return .compareAndSet(path, expected: root[path], isHashWrong: random.chance(90), draft())
        case .filteredReads:
            return .get(
                ["big"],
                ReferenceQuery(
                    order: random.chance(50) ? .key : .child("n"), isFromStart: random.chance(50),
                    limit: Int.random(in: 1...3, using: &random)))
        }
    }

    private static let largeNode = Value.object(
        Dictionary(
            uniqueKeysWithValues: (0..<largeChildCount).map { index in
                ("k\(index)", .object(["n": .number(Double(index * 7919 % 1000)), "m": .string("x")]))
            }))

    /// What a session adds to a number when it ends: a power of two of its own, so that from what is there it
    /// can be told who has ended. Nil for those who may not write at the end, by then, and where there are
    /// too many.
    func presenceAmount(of session: UInt64) -> Int? {
        guard checker.clients[session]?.person == .user else { return nil }
        let number = presenceNumbers[session] ?? presenceNumbers.count
        guard number < Self.presenceNumberLimit else { return nil }
        presenceNumbers[session] = number
        return 1 << number
    }

    /// So that sums over all lives are exact in a double.
    private static let presenceNumberLimit = 45
}

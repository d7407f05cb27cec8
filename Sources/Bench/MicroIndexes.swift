import PandoBytes
import PandoEngine
import PandoRandom
import PandoRules
import PandoTree

// Queries of few among many children, and writes below query windows.

/// How large a run is.
private enum Scale {
    /// A test that the benchmarks work, one that compares counts, and a measurement.
    case smoke, comparison, full

    init(_ effort: MicroEffort) {
        self = effort.rounds < 1000 ? .smoke : effort.rounds < 10_000 ? .comparison : .full
    }

    /// Children of the collections that are queried.
    var childCounts: [Int] {
        switch self {
        case .smoke: [1000]
        case .comparison: [1000, 100_000]
        case .full: [1000, 10_000, 100_000, 1_000_000]
        }
    }

    /// Children of the collection that query windows watch.
    var watchedCount: Int {
        switch self {
        case .smoke: 1000
        case .comparison: 10_000
        case .full: 100_000
        }
    }

    var windowCounts: [Int] {
        switch self {
        case .smoke: [1, 20]
        case .comparison: [0, 1, 100, 2000]
        case .full: [0, 1, 100, 10_000]
        }
    }
}

/// So many children `{s, n}` under push ids, as a list of scores has.
private func scores(_ count: Int) -> Node {
    var random = SeededGenerator(seed: 1)
    var ids = PushIDGenerator()
    let entries = (0..<count).map { number in
        let id = ids.next(
            milliseconds: 1_760_000_000_000 + Int64(number), random: .init(high: 0, low: random.next()))
        return Children.Entry(key: id, node: score(Int64.random(in: 0..<1 << 40, using: &random), number))
    }
    return .object(Children(ascending: entries))
}

private func score(_ points: Int64, _ number: Int) -> Node {
    .object(
        Children(ascending: [
            .init(key: "n", node: .integer(points)),
            .init(key: "s", node: .string(Text("player \((number &* 7919) % 1_000_003)"))),
        ]))
}

private let orders: [(name: String, order: ChildOrder)] = [
    ("key", .key), ("priority", .priority), ("value", .value), ("number", .child(Path(["n"]))),
    ("text", .child(Path(["s"]))),
]

/// Rules that declare indexes of other locations.
private let declaredElsewhere: Access = {
    let rules = #"{"rules":{"players":{".indexOn":["n","s"]},"rooms":{"$room":{".indexOn":"n"}}}}"#
    // The text is a constant, and valid.
    return (try? Ruleset(loading: Array(rules.utf8))).map(Access.loaded) ?? .locked
}()

/// An engine whose indexes are ready.
private func indexedEngine(_ count: Int, _ orders: [ChildOrder], access: Access = .open) -> Engine {
    var engine = Engine(
        root: .object(Children(ascending: [.init(key: "scores", node: scores(count))])), access: access)
    for order in orders {
        engine.tree.noteUse(
            of: Query(order: order, limit: .init(count: 1, anchor: .first)), at: Path(["scores"]),
            isLasting: true, at: 1)
    }
    while engine.tree.hasIndexWork {
        for job in engine.tree.takeIndexWork().jobs { engine.tree.finish(job.perform()) }
    }
    return engine
}

private func command(_ operation: Operation, session: UInt64 = 1) -> Command {
    Command(session: SessionID(session), credential: .admin, time: 1_760_000_000_000, operation: operation)
}

/// Gets of ten children by each order, and what an index costs: to build, and for each write.
func indexTimings(_ effort: MicroEffort) -> [Timing] {
    var timings: [Timing] = []
    let counts = Scale(effort).childCounts
    for count in counts {
        let engine = indexedEngine(count, orders.map(\.order))
        for (name, order) in orders {
            let query = Query(order: order, limit: .init(count: 10, anchor: .last))
            timings.append(
                Timing("get 10 of \(count) by \(name)", effort / 20) {
                    guard
                        case .data(let node)? = engine.decide(command(.get(Path(["scores"]), query))).result
                    else { return false }
                    return node.children.count == 10
                })
        }
    }
    let count = counts[counts.count - 1]
    let children = scores(count).children
    for (name, order) in orders.suffix(2) {
        timings.append(
            Timing(
                "build the index of \(count) by \(name)",
                MicroEffort(rounds: min(3, effort.rounds), counts: false)
            ) {
                OrderedIndex(ordering: children, by: order).count == count
            })
    }
    timings.append(
        writes(
            "set one of \(count) children, indexes elsewhere", effort, count, [], listening: [],
            access: declaredElsewhere))
    for (name, indexes) in [
        ("no index", []), ("one by number", [orders[3].order]), ("one by text", [orders[4].order]),
    ] {
        timings.append(writes("set one of \(count) children, \(name)", effort, count, indexes, listening: []))
    }
    return timings
}

/// Writes into a collection that query windows watch.
func windowTimings(_ effort: MicroEffort) -> [Timing] {
    let count = Scale(effort).watchedCount
    let order = orders[3].order
    var timings: [Timing] = []
    for windowCount in Scale(effort).windowCounts {
        let top = (0..<windowCount).map { _ in Query(order: order, limit: .init(count: 10, anchor: .last)) }
        timings.append(
            writes(
                "set 1 of \(count), \(windowCount) listen to one top ten", effort / 10, count, [order],
                listening: top))
        guard windowCount > 1 else { continue }
        let distinct = (0..<windowCount).map { number in
            let value = Node.integer(Int64(number) << 40 / Int64(windowCount))
            return Query(
                order: order, start: Bound(value: value, key: .lowest, isInclusive: true),
                limit: .init(count: 10, anchor: .first))
        }
        timings.append(
            writes(
                "set 1 of \(count), \(windowCount) listen to different tens", effort / 100, count, [order],
                listening: distinct))
        let equal = (0..<windowCount).map { number in
            let value = Node.integer(Int64(number))
            return Query(
                order: order, start: Bound(value: value, key: .lowest, isInclusive: true),
                end: Bound(value: value, key: .highest, isInclusive: true))
        }
        timings.append(
            writes(
                "set 1 of \(count), \(windowCount) listen to equal values", effort / 100, count, [order],
                listening: equal))
    }
    // The first of ten leaves each time, and the next one is drawn.
    var engine = indexedEngine(count, [order])
    let top = Query(order: order, limit: .init(count: 10, anchor: .first))
    _ = engine.execute(command(.listen(Listen(path: Path(["scores"]), query: top, tag: 1)), session: 2))
    var lowest = Window(
        engine.tree.indexed(Query(order: order), at: Path(["scores"])), over: engine.root["scores" as Key]
    )
    .entries.map(\.key)[...]
    timings.append(
        Timing(
            "remove the first of \(count) from a top ten",
            MicroEffort(rounds: min(1000, effort.rounds / 100 + 1), counts: effort.counts)
        ) {
            guard let key = lowest.popFirst() else { return false }
            let (_, effects) = engine.execute(
                command(.put(Write(Target(Path(["scores", key])), Draft(.empty)))))
            return effects.pushes.count == 1
        })
    return timings
}

/// Sets the number of one child after another, in an order without locality.
private func writes(
    _ name: String, _ effort: MicroEffort, _ count: Int, _ indexes: [ChildOrder], listening queries: [Query],
    access: Access = .open
) -> Timing {
    var engine = indexedEngine(count, indexes, access: access)
    for (number, query) in queries.enumerated() {
        let listen = Listen(path: Path(["scores"]), query: query, tag: 1)
        _ = engine.execute(command(.listen(listen), session: UInt64(number + 2)))
    }
    var random = SeededGenerator(seed: 2)
    let keys = engine.root[Path(["scores"])].children.entries.map(\.key)
    let places = (0..<4096).map { _ in keys[Int.random(in: 0..<count, using: &random)] }
    var turn = 0
    return Timing(name, effort) {
        turn = (turn + 1) & 4095
        let path = Path(["scores", places[turn], turn & 1 == 0 ? "n" : "s"])
        let points = Int64.random(in: 0..<1 << 40, using: &random)
        let value = turn & 1 == 0 ? Node.integer(points) : .string(Text("player \(points)"))
        let (_, effects) = engine.execute(command(.put(Write(Target(path), Draft(value)))))
        if case .ok? = effects.result { return true }
        return false
    }
}

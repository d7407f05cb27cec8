import PandoBytes
import PandoRandom
import PandoTree
import Testing

@testable import PandoEngine

@Suite struct WindowFinderTests {
    private static let orders: [ChildOrder] = [
        .key, .value, .priority, .child("a"), .child("b"), .child("b/c"), .child("b/d"),
        .compound(["a", "b/c"]), .compound(["b", "b/d"]), .compound(["a", "b/c", "b/d"]),
    ]

    private static func child(_ random: inout SeededGenerator) -> Node {
        var node = Node.empty
        for path: Path in ["a", "b", "b/c", "b/d", "e"] where random.chance(40) {
            node.set(.integer(Int64.random(in: 0..<4, using: &random)), at: path)
        }
        return random.chance(10) ? .boolean(true) : node
    }

    private static func query(_ random: inout SeededGenerator) -> Query {
        func bound() -> Bound? {
            guard random.chance(50) else { return nil }
            let value: Node = random.chance(30) ? .empty : .integer(Int64.random(in: 0..<4, using: &random))
            return Bound(
                value: value, key: random.pick([.lowest, .highest, .key("k3")]),
                isInclusive: random.chance(70))
        }
        let order = random.pick(orders)
        var query = Query(order: order)
        if case .compound = order {} else { (query.start, query.end) = (bound(), bound()) }
        if random.chance(60) {
            query.limit = .init(
                count: Int.random(in: 1...3, using: &random), anchor: random.pick([.first, .last]))
        }
        return query
    }

    /// The finder against asking each window.
    @Test(arguments: 0..<3) func findsWhatEachWindowAnswers(seed: Int) {
        var random = SeededGenerator(seed: seed)
        var list = Node.empty
        for number in 0..<8 { list.set(Self.child(&random), at: Path([Key(unchecked: Text("k\(number)"))])) }
        var finder = WindowFinder()
        var ranges: [WindowRanges.Range] = []
        for number in 0..<600 {
            if !ranges.isEmpty, random.chance(number < 400 ? 20 : 70) {
                finder.remove(ranges.remove(at: Int.random(in: ranges.indices, using: &random)))
            } else {
                let query = Self.query(&random)
                let view = QueryView(query: query, at: .root, window: Window(query, over: list))
                let (low, high) = view.window.reach
                ranges.append(.init(low: low, high: high, number: number, view: view))
                finder.insert(ranges[ranges.count - 1])
            }
            #expect(finder.checkInvariants() == ranges.count)
            let key = Key(unchecked: Text("k\(Int.random(in: 0..<8, using: &random))"))
            var altered = [ChildChange(key: key, old: list[key], new: Self.child(&random))]
            for other in (0..<random.pick([0, 1, 2, 8])).reversed()
            where key != Key(unchecked: Text("k\(other)")) {
                let key = Key(unchecked: Text("k\(other)"))
                let isNew = random.chance(30)
                altered.append(
                    ChildChange(
                        key: key, old: isNew ? .empty : list[key],
                        new: !isNew && random.chance(50) ? .empty : Self.child(&random)))
            }
            var values = IndexValues(of: altered)
            let expected = ranges.filter { values.mayTouch($0.view.window) }
                .sorted { $0.number < $1.number }
                .map { ObjectIdentifier($0.view) }
            func find(_ viewLimit: Int, exceptWhere isLeftOut: (QueryView) -> Bool = { _ in false })
                -> [ObjectIdentifier]?
            {
                var budget = UpdateBudget()
                budget.viewLimit = viewLimit
                budget.beginWrite()
                let found = finder.views(touchedBy: altered, exceptWhere: isLeftOut, spending: &budget)
                #expect(budget.viewsLeft == viewLimit - (found?.count ?? 0))
                return found?.map(ObjectIdentifier.init)
            }
            #expect(find(expected.count) == expected, "seed \(seed), step \(number)")
            guard let first = expected.first else { continue }
            #expect(find(expected.count - 1) == nil, "there is one more")
            let others = find(expected.count - 1, exceptWhere: { ObjectIdentifier($0) == first })
            #expect(others == Array(expected.dropFirst()), "what is left out does not count")
        }
    }

    /// Each user listens by an order of its own: `members/UID`.
    @Test func asksOnlyTheOrdersOfDataThatAChildHas() {
        var paths = OrderPaths()
        let orders = (0..<5000).map { ChildOrder.child(Path(["members", Key(unchecked: Text("u\($0)"))])) }
        for order in orders { paths.insert(order) }
        var chat = Node.empty
        chat.set(.boolean(true), at: "members/u17")
        chat.set(.boolean(true), at: "members/u4000")
        chat.set(.string("hello"), at: "last")
        var asked: Set<ChildOrder> = []
        paths.forEachOrder(ofDataIn: chat) { asked.insert($0) }
        #expect(asked == [orders[17], orders[4000]])
        for order in orders { paths.remove(order) }
        #expect(paths.isEmpty)
    }

    @Test(
        arguments: [
            (0, [], 0), (3, [], 3), (0, [0, 1, 2], 3), (1, [0, 1, 3], 2), (2, [0, 1, 3], 2),
            (3, [0, 1, 3], 4), (4, [0, 1, 3], 4), (0, [1, 2], 0), (1, [1, 2, 5, 6], 3), (5, [1, 2, 5, 6], 7),
        ] as [(Int, [Int], Int)])
    func firstNumberThatIsMissing(start: Int, numbers: [Int], expected: Int) {
        #expect(WindowFinder.firstIndex(from: start, notIn: numbers) == expected)
    }
}

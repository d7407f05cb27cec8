import PandoBytes
import PandoRandom
import PandoTree
import Testing

@testable import PandoEngine

@Suite struct ScanQueueTests {
    /// With the children there, and so the most views of one scan.
    private static let locations: [(path: Path, childCount: Int, viewLimit: Int)] = [
        ("small", 0, ScanQueue.viewLimit), ("large", ScanQueue.childLimit / 2, 2),
        ("huge", ScanQueue.childLimit * 8, 1),
    ]

    private static func view(_ random: inout SeededGenerator) -> QueryView {
        QueryView(query: Query(), at: random.pick(locations).path, window: Window(Query(), over: .empty))
    }

    /// Whatever is added, cancelled and taken: it is what two arrays would be.
    @Test(arguments: 0..<4) func operationsAgainstArrays(seed: Int) {
        var random = SeededGenerator(seed: seed)
        var queue = ScanQueue()
        var (new, following, underWay): ([QueryView], [QueryView], [[QueryView]]) = ([], [], [])
        var lastNumber = 0
        func add(_ view: QueryView) {
            queue.add(view)
            // A view that waits, or is scanned, is not added again.
            queue.add(view)
            if view.scanBase == nil { new.append(view) } else { following.append(view) }
        }
        func take() {
            let found = queue.take { path in Self.locations.first { $0.path == path }!.childCount }
            guard underWay.count < 2, let first = following.first ?? new.first else {
                return #expect(found == nil, "seed \(seed)")
            }
            let limit = Self.locations.first { $0.path == first.path }!.viewLimit
            let expected = (following.isEmpty ? new : following).prefix { $0.path == first.path }.prefix(
                limit)
            #expect(found?.path == first.path && found?.views.count == expected.count, "seed \(seed)")
            for (view, expected) in zip(found?.views ?? [], expected) {
                lastNumber += 1
                #expect(view === expected && view.awaits(lastNumber), "seed \(seed)")
                view.scanBase = nil
            }
            if following.isEmpty {
                new.removeFirst(expected.count)
            } else {
                following.removeFirst(expected.count)
            }
            underWay.append(Array(expected))
        }
        for step in 0..<3000 {
            switch Int.random(in: 0..<10, using: &random) {
            // More come than are taken, and then fewer.
            case 0..<(step / 500 % 2 == 0 ? 6 : 2): add(Self.view(&random))
            case 6 where !new.isEmpty:
                queue.cancel(new.remove(at: Int.random(in: new.indices, using: &random)))
            case 7 where !underWay.isEmpty:
                queue.noteDone()
                for view in underWay.remove(at: Int.random(in: underWay.indices, using: &random)) {
                    view.scan = nil
                    guard random.chance(20) else { continue }
                    view.scanBase = (view.window, .empty)
                    add(view)
                }
            default: take()
            }
            #expect(queue.waitingCount == new.count + following.count, "seed \(seed)")
            #expect(queue.hasReady == (underWay.count < 2 && queue.waitingCount > 0), "seed \(seed)")
        }
        for view in new + following { queue.cancel(view) }
        #expect(queue.waitingCount == 0 && !queue.hasReady)
    }

    /// A view that is cancelled awaits nothing any more, however far its scan is.
    @Test func cancelledViewsAwaitNothing() {
        var random = SeededGenerator(seed: 1)
        var queue = ScanQueue()
        let views = (0..<2).map { _ in Self.view(&random) }
        for view in views { queue.add(view) }
        _ = queue.take { _ in ScanQueue.childLimit }
        for view in views {
            queue.cancel(view)
            #expect(view.scan == nil && !view.awaits(1))
        }
        #expect(queue.waitingCount == 0)
    }
}

@Suite struct SweepTests {
    private static func keys(_ session: Int, _ count: Int) -> (SessionID, [FilteredListenKey]) {
        let keys = (0..<count).map {
            FilteredListenKey(path: "a/b", query: Query(order: .value), tag: Int64(session * 10 + $0))
        }
        return (SessionID(UInt64(session)), keys)
    }

    private static func tags(_ sweep: inout ViewSweep) -> [Int64] {
        var tags: [Int64] = []
        while let key = sweep.next() { tags.append(key.tag) }
        return tags
    }

    /// A sweep that follows another one goes on from the same listen, and comes round to those before it.
    @Test(
        arguments: [
            // taken  sessions and their listens then  the order of the next sweep   because
            (0, [(1, 3), (2, 2)], [10, 11, 12, 20, 21], "nothing was done"),
            (2, [(1, 3), (2, 2)], [12, 20, 21, 10, 11], "within a session"),
            (3, [(1, 3), (2, 2)], [20, 21, 10, 11, 12], "at the end of a session"),
            (4, [(1, 3), (2, 2)], [21, 10, 11, 12, 20], "in the last session"),
            (5, [(1, 3), (2, 2)], [10, 11, 12, 20, 21], "all was done: a new one begins"),
            (2, [(2, 2)], [20, 21], "the session has ended"),
            (4, [(1, 1), (3, 1)], [30, 10], "the session has ended, and others have changed"),
            (2, [(1, 1)], [10], "the session has fewer listens"),
            (1, [], [], "there are no listens any more"),
        ] as [(Int, [(Int, Int)], [Int64], String)])
    func followingSweepsGoOn(taken: Int, sessions: [(Int, Int)], expected: [Int64], reason: String) {
        var first = ViewSweep(below: "a", number: 1, [Self.keys(1, 3), Self.keys(2, 2)], following: nil)
        for _ in 0..<taken { _ = first.next() }
        // It notices that it is done when there is no next one.
        if taken == 5 { _ = first.next() }
        var next = ViewSweep(
            below: "a", number: 2, sessions.map { Self.keys($0.0, $0.1) }, following: first)
        let tags = Self.tags(&next)
        #expect(tags == expected, "\(reason)")
    }

    /// A step that is under way takes what was left, and what a write meanwhile has added comes after it.
    @Test func scheduleOfOneSweep() throws {
        let updater = ViewUpdater(IndexCatalog())
        let query = Query(order: .value)
        func view(_ path: Path) -> QueryView {
            QueryView(query: query, at: path, window: Window(query, over: .empty))
        }
        let (below, beside) = (view("a/b"), view("c"))
        #expect(!updater.hasWork && !below.awaitsSweep(updater))
        updater.sweeps.begin(below: "a", [Self.keys(1, 3)])
        #expect(updater.hasWork && below.awaitsSweep(updater) && !beside.awaitsSweep(updater))
        let isDue = [updater.sweeps.takeDue(), updater.sweeps.takeDue()]
        #expect(isDue == [true, false], "the caller asks for each step once")

        let first = updater.sweeps.beginStep()
        var step = try #require(first)
        let tag = step.next()?.tag
        #expect(tag == 10 && below.awaitsSweep(updater), "also while a step is under way")
        updater.sweeps.end(step)
        #expect(updater.hasWork, "it is not done")
        _ = updater.sweeps.takeDue()

        // Both locations are below the root.
        updater.sweeps.begin(below: "c", [Self.keys(1, 3)])
        #expect(!updater.hasWork, "the step that is under way goes on with it")
        #expect(updater.sweeps.scope?.base == .root && beside.awaitsSweep(updater))
        below.checkedSweep = updater.sweeps.lastNumber
        beside.requestReplacement(updater)
        #expect(!below.awaitsSweep(updater), "it is up to date")
        #expect(!beside.awaitsSweep(updater) && beside.isStale(updater), "it awaits its replacement")

        let second = updater.sweeps.beginStep()
        step = try #require(second)
        let tags = Self.tags(&step)
        #expect(tags == [11, 12, 10])
        updater.sweeps.end(step)
        #expect(updater.sweeps.scope == nil)
    }
}

@Suite struct UpdateBudgetTests {
    private static let values = (0..<300).map { Children.Entry(key: Key(index: $0), node: .integer(1)) }

    /// What the update of one window costs, over a location without an index.
    @Test(
        arguments: [
            // order   limit  children  altered  visits                because
            (.value, nil, 10, 3, 256 + 3 * 16, "a push, and the children that moved"),
            (.value, 5, 10, 3, 256 + 3 * 16 + 10, "few children: all may be visited for the next one"),
            (.value, 5, 300, 3, 256 + 3 * 16, "many have an index, or are left to another thread"),
            (.key, 5, 10, 3, 256 + 3 * 16, "the next key is found"),
            (.value, nil, 10, nil, 256 + 20 * 16 + 10, "those before leave, and those now enter"),
            (.value, 5, 10, nil, 256 + 10 * 16 + 10, "without an index all are visited"),
            (.key, 5, 300, nil, 256 + 10 * 16, "by key only those of the window"),
        ] as [(ChildOrder, Int?, Int, Int?, Int, String)])
    func costOfWindows(
        order: ChildOrder, limit: Int?, childCount: Int, altered: Int?, visits: Int, reason: String
    ) {
        let node = Node.children(Children(ascending: Array(Self.values.prefix(childCount))))
        let query = Query(order: order, limit: limit.map { .init(count: $0, anchor: .first) })
        let view = QueryView(query: query, at: "q", window: Window(query, over: node))
        #expect(UpdateBudget.cost(of: view, altered, over: node, IndexCatalog()) == visits, "\(reason)")
    }

    @Test func budgetsLast() {
        var budget = UpdateBudget()
        #expect(budget.isUsedUp, "no step has begun")
        (budget.writeLimit, budget.sweepStepLimit) = (100, 50)
        budget.beginWrite()
        budget.spend(99)
        #expect(!budget.isUsedUp)
        #expect(
            budget.hasTime(for: 200) && !budget.hasTime(for: 201), "a view takes at most two writes' budget")
        budget.spend(1000)
        #expect(!budget.hasTime(for: 1))
        #expect(budget.isUsedUp, "the last view may take more")
        budget.beginSweepStep()
        let query = Query(order: .value)
        let view = QueryView(query: query, at: "q", window: Window(query, over: .empty))
        for tag in 0..<3 { view.add(.init(session: SessionID(1), tag: Int64(tag))) }
        budget.spendPush(to: view)
        #expect(budget.left == 50 - 3 * UpdateBudget.visitsPerRecipient)
    }
}

import PandoBytes
import PandoTree
import Testing

@testable import PandoEngine

/// Windows grow with the data: their sessions are charged with that.
@Suite struct WindowChargeTests {
    private let held = Held(Engine(access: .open))

    @discardableResult
    private func run(_ session: UInt64, _ operation: PandoEngine.Operation) -> [Push] {
        let command = Command(
            session: SessionID(session), credential: .anonymous, time: 1, operation: operation)
        return held.engine.execute(command).1.pushes
    }

    private static func query(_ number: Int) -> Query {
        Query(
            order: .value,
            start: Bound(value: .integer(Int64(-number)), key: .lowest, isInclusive: true))
    }

    private func listen(_ session: UInt64, _ number: Int) {
        run(session, .listen(Listen(path: "q", query: Self.query(number), tag: Int64(number))))
    }

    private static func list(_ count: Int) -> Node {
        .children(Children(ascending: (0..<count).map { .init(key: Key(index: $0), node: .integer(1)) }))
    }

    private func write(_ count: Int) -> [Push] {
        run(9, .put(Write(Target("q"), Draft(Self.list(count)))))
    }

    private func byteCount(_ session: UInt64) -> Int {
        held.engine.heldByteCount(of: SessionID(session))
    }

    /// Does what other threads are to do.
    /// - Returns: What is pushed.
    private func work() -> [Push] {
        while held.engine.tree.hasIndexWork {
            for job in held.engine.tree.takeIndexWork().jobs { held.engine.tree.finish(job.perform()) }
        }
        return held.engine.tree.removeScanPushes()
    }

    @Test func sessionsAreChargedWithWindowsAsTheyAreNow() {
        listen(1, 0)
        let before = byteCount(1)
        _ = write(1000)
        #expect(byteCount(1) - before == 1000 * ListenCost.windowEntryByteCount)
        #expect(held.engine.tree.removeWindowOutcome().recharged == [SessionID(1)])
        run(9, .put(Write("q/more", "1")))
        let hasOutcome = held.engine.tree.hasWindowOutcome
        #expect(!hasOutcome, "one child more is not worth it")
        for number in 0..<200 { run(9, .put(Write("q/more\(number)", "1"))) }
        #expect(byteCount(1) - before >= 1100 * ListenCost.windowEntryByteCount)
        let chargeCount = held.engine.tree.removeWindowOutcome().recharged.count
        #expect((1...3).contains(chargeCount))
        run(9, .put(Write(Target("q"), Draft(.empty))))
        #expect(byteCount(1) == before)
        _ = held.engine.checkInvariants()
    }

    /// A window is shared by those that are there: who is left is charged with all of it.
    @Test func sessionsThatAreLeftAreChargedWithWhatTheyHold() {
        _ = write(1000)
        for session in 1...10 as ClosedRange<UInt64> { listen(session, 0) }
        let shared = byteCount(10)
        for session in 1...9 as ClosedRange<UInt64> { run(session, .endSession) }
        #expect(byteCount(10) - shared == 900 * ListenCost.windowEntryByteCount)
        #expect(held.engine.tree.removeWindowOutcome().recharged.contains(SessionID(10)))
        _ = held.engine.checkInvariants()
    }

    /// Listens of one session whose windows one write makes large: some end. Whether the write updates the
    /// windows itself, leaves them to another thread, or to later steps.
    @Test(arguments: [(1 << 17, false), (0, false), (1 << 17, true)])
    func listensEndThatTakeTooMuch(updatedChildLimit: Int, isSwept: Bool) {
        let byteLimit = 200_000
        held.engine.listenByteLimit = byteLimit
        for number in 0..<30 { listen(1, number) }
        listen(2, 0)
        held.engine.tree.updater.budget.writeLimit = updatedChildLimit
        if isSwept {
            held.engine.tree.listens.limits.visitedNodeCount = 0
            held.engine.tree.listens.limits.filteredListenTotal = 0
        }
        let data = Node.children(Children(ascending: [.init(key: "q", node: Self.list(1000))]))
        let pushes = run(9, .put(Write(Target(.root), Draft(data)))) + work()
        let (_, outgrown, _) = held.engine.tree.removeWindowOutcome()
        let left = 30 - outgrown.count
        #expect((2...6).contains(left))
        #expect(outgrown.allSatisfy { $0.session == SessionID(1) && $0.path == "q" })
        let listenCounts = [1, 2].map { held.engine.tree.listenCount(of: SessionID($0)) }
        #expect(listenCounts == [left, 1], "the other takes no more than it may")
        #expect(byteCount(1) <= byteLimit + 1000 * ListenCost.windowEntryByteCount)
        if updatedChildLimit == 0 || isSwept {
            #expect(pushes.reduce(0) { $0 + $1.taggedRecipients.count } == left + 1, "no other gets its data")
        }
        // Its other windows go on.
        held.engine.tree.updater.budget.writeLimit = 1 << 17
        #expect(run(9, .put(Write("q/more", "1"))).count == left)
        _ = work()
        _ = held.engine.checkInvariants()
    }

    /// As a listen that begins, one that has grown may be as large as it is if it is the only one.
    @Test func oneLargeWindowMayStay() {
        held.engine.listenByteLimit = 64 << 10
        listen(1, 0)
        _ = write(4000)
        #expect(held.engine.tree.removeWindowOutcome().outgrown.isEmpty && byteCount(1) > 64 << 10)
    }

    @Test func largeWindowsAreLeftToBeFreedElsewhere() {
        for number in 0..<3 { listen(1, number) }
        listen(2, 0)
        _ = write(1000)
        _ = held.engine.tree.removeWindowOutcome()
        run(1, .unlisten("q", Self.query(1), tag: 1))
        #expect(held.engine.tree.removeWindowOutcome().ended.map(\.entries.count) == [1000])
        var ending = held.engine.tree.detachListens(of: SessionID(1))!
        while !ending.isEmpty {
            var work = 1
            held.engine.tree.end(&ending, doing: &work)
        }
        #expect(held.engine.tree.removeWindowOutcome().ended.count == 1, "the other has another listener")
        run(2, .endSession)
        #expect(held.engine.tree.removeWindowOutcome().ended.count == 1)
    }

    /// A session that has many children in its windows gets no further one that may be large.
    @Test func windowsOfOneSessionAreBounded() {
        var listens = SessionListens()
        func key(_ tag: Int64) -> FilteredListenKey {
            FilteredListenKey(path: "q", query: Query(order: .value), tag: tag)
        }
        let (unlimited, limited) = (Query(#"{"i":"n","sp":1}"#), Query(#"{"i":"n","l":100,"vf":"l"}"#))
        for tag in 0..<5 {
            listens.insert(key(Int64(tag)))
            listens.count([1024, 400_000, 400_000, 400_000, 10][tag], of: key(Int64(tag)))
        }
        #expect(listens.windowChildCounts == ["q": 1_200_000])
        #expect(!listens.hasSpace(forWindowOf: unlimited, at: "q"))
        #expect(
            listens.hasSpace(forWindowOf: limited, at: "q")
                && listens.hasSpace(forWindowOf: unlimited, at: "p"))
        for tag in [2, 0] as [Int64] {
            let isRemoved = listens.remove(key(tag))
            #expect(isRemoved)
        }
        #expect(
            listens.windowChildCounts == ["q": 800_000] && listens.hasSpace(forWindowOf: unlimited, at: "q"))
        for tag in [1, 3, 4] as [Int64] {
            let isRemoved = listens.remove(key(tag))
            #expect(isRemoved)
        }
        #expect(listens.windowChildCounts.isEmpty && listens.isEmpty)
    }
}

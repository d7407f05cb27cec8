import PandoBytes
import PandoTree
import Testing

@testable import PandoEngine

/// Windows whose next child no index knows: another thread finds it.
@Suite struct LackingWindowTests {
    private static let count = 100
    private static let query = Query(order: .child("n"), limit: .init(count: 3, anchor: .last))

    private let held: Held

    init() {
        var node = Node.empty
        for number in 0..<Self.count {
            node.set(.integer(Int64(number)), at: Path([Key(index: number), "n"]))
        }
        held = Held(
            Engine(root: .children(Children(ascending: [.init(key: "q", node: node)])), access: .open))
        held.engine.tree.indexByteLimit = 0
        held.engine.tree.indexes.visitedChildCount = 20
        for session in [1, 2] as [UInt64] { _ = listen(session) }
    }

    private func run(_ session: UInt64, _ operation: PandoEngine.Operation) -> [String] {
        let command = Command(
            session: SessionID(session), credential: .anonymous, time: 1, operation: operation)
        return Self.lines(held.engine.execute(command).1.pushes)
    }

    /// Both sessions get the same.
    private static func lines(_ pushes: [Push]) -> [String] {
        let all = Effects(pushes: pushes).lines
        let first = all.filter { $0.hasPrefix("S1#7 ") }.map { String($0.dropFirst(5)) }
        let second = all.filter { $0.hasPrefix("S2#7 ") }.map { String($0.dropFirst(5)) }
        #expect(first == second || second.isEmpty || first.isEmpty)
        return first.isEmpty ? second : first
    }

    private func listen(_ session: UInt64) -> [String] {
        run(session, .listen(Listen(path: "q", query: Self.query, tag: 7)))
    }

    private func remove(_ number: Int) -> [String] {
        run(1, .put(Write("q/\(number)", "null")))
    }

    /// - Returns: What the jobs cause to be pushed.
    private func work() -> [String] {
        var pushes: [Push] = []
        while held.engine.tree.hasIndexWork {
            for job in held.engine.tree.takeIndexWork().jobs { held.engine.tree.finish(job.perform()) }
            pushes += held.engine.tree.removeScanPushes()
        }
        _ = held.engine.checkInvariants()
        return Self.lines(pushes)
    }

    @Test func childThatLeftIsPushedAtOnceAndTheNextOneLater() {
        let last = Self.count - 1
        #expect(remove(last) == ["d q/\(last) null"])
        #expect(held.engine.tree.updater.scans.hasReady)
        #expect(work() == [#"d q/\#(last - 3) {"n":\#(last - 3)}"#])
        #expect(work().isEmpty)
    }

    @Test func writesGoOnMeanwhile() {
        let last = Self.count - 1
        _ = remove(last)
        let jobs = held.engine.tree.takeIndexWork().jobs
        #expect(jobs.count == 1)
        #expect(remove(last - 1) == ["d q/\(last - 1) null"], "it lacks two now")
        #expect(remove(last - 3).isEmpty, "beyond what it knows")
        #expect(!held.engine.tree.updater.scans.hasReady, "one scan is enough")
        for job in jobs { held.engine.tree.finish(job.perform()) }
        // The snapshot still had what was removed since.
        let pushes = Self.lines(held.engine.tree.removeScanPushes()) + work()
        #expect(
            pushes == [
                #"m q {"\#(last - 5)":{"n":\#(last - 5)},"\#(last - 4)":{"n":\#(last - 4)}}"#
            ])
        let window = held.engine.tree.listens.table.view(of: Self.query, at: "q")?.window
        #expect(window?.entries.map(\.key) == [last - 5, last - 4, last - 2].map { Key(index: $0) })
    }

    /// More has changed meanwhile than is done in one step: another thread follows that, and does not begin
    /// from nothing.
    @Test func manyWritesMeanwhile() {
        let count = ViewUpdater.differenceLimit + 1000
        let held = Held(Engine(access: .open))
        held.engine.tree.indexByteLimit = 0
        held.engine.tree.indexes.visitedChildCount = 20
        func write(_ operation: PandoEngine.Operation) {
            _ = held.engine.execute(
                Command(session: SessionID(1), credential: .anonymous, time: 1, operation: operation))
        }
        func writes(_ numbers: Range<Int>, adding: Int) -> PandoEngine.Operation {
            .merge(base: "q", numbers.map { Write("q/\($0)", "{\"n\":\($0 + adding)}") })
        }
        write(writes(0..<count, adding: 0))
        write(.listen(Listen(path: "q", query: Self.query, tag: 7)))
        write(.put(Write("q/\(count - 1)", "null")))
        let jobs = held.engine.tree.takeIndexWork().jobs
        write(writes(0..<count - 10, adding: 1))
        for job in jobs { held.engine.tree.finish(job.perform()) }
        #expect(held.engine.tree.removeScanPushes().isEmpty)
        #expect(held.engine.tree.updater.scans.waitingCount == 1)
        for job in held.engine.tree.takeIndexWork().jobs { held.engine.tree.finish(job.perform()) }
        #expect(held.engine.tree.removeScanPushes().count == 1)
        #expect(!held.engine.tree.updater.scans.hasReady)
        let window = held.engine.tree.listens.table.view(of: Self.query, at: "q")?.window
        #expect(window?.entries.map(\.key) == [count - 4, count - 3, count - 2].map { Key(index: $0) })
    }

    @Test func windowThatIsFilledNeedsNoScan() {
        _ = remove(Self.count - 1)
        let jobs = held.engine.tree.takeIndexWork().jobs
        #expect(run(1, .put(Write("q/new", #"{"n":1000000}"#))) == [#"d q/new {"n":1000000}"#])
        for job in jobs { held.engine.tree.finish(job.perform()) }
        #expect(held.engine.tree.removeScanPushes().isEmpty)
        #expect(!held.engine.tree.updater.scans.hasReady)
    }

    @Test func noWorkForListensThatHaveEnded() {
        _ = remove(Self.count - 1)
        for session in [1, 2] as [UInt64] { _ = run(session, .unlisten("q", Self.query, tag: 7)) }
        #expect(held.engine.tree.takeIndexWork().jobs.isEmpty)
        #expect(listen(1).count == 1)
        #expect(work().isEmpty, "the new window is complete")
    }

    /// A client that listens again and again: what waits is bounded.
    @Test func endedListensLeaveNothingThatWaits() {
        for _ in 0..<2000 {
            _ = remove(Self.count - 1)
            let taken = held.engine.tree.hasIndexWork ? held.engine.tree.takeIndexWork().jobs.count : 0
            #expect(taken <= 2)
            _ = run(1, .put(Write("q/\(Self.count - 1)", #"{"n":\#(Self.count - 1)}"#)))
            for session in [1, 2] as [UInt64] {
                _ = run(session, .unlisten("q", Self.query, tag: 7))
                _ = listen(session)
            }
        }
        #expect(held.engine.tree.updater.scans.waitingCount <= 1)
    }
}

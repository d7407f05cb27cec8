import PandoBytes
import PandoRules
import PandoTree
import Testing

@testable import PandoEngine

/// How many indexes clients can have built, and how many are built at the same time.
@Suite struct IndexLimitTests {
    private static let limit = Query.Limit(count: 2, anchor: .first)

    private static func object(_ count: Int) -> Node {
        var node = Node.empty
        for number in 0..<count { node.set(.integer(Int64(number)), at: Path([Key(index: number), "n"])) }
        return node
    }

    private static func listen(_ held: Held, _ order: ChildOrder, _ path: Path, at time: Int64) {
        held.engine.tree.noteUse(of: Query(order: order, limit: limit), at: path, isLasting: true, at: time)
        _ = held.engine.checkInvariants()
    }

    private static func work(_ held: Held) {
        while held.engine.tree.hasIndexWork {
            for job in held.engine.tree.takeIndexWork().jobs { held.engine.tree.finish(job.perform()) }
        }
    }

    private static func order(_ number: Int) -> ChildOrder { .child(Path([Key(index: number)])) }

    private static func isReady(_ held: Held, _ order: ChildOrder, _ path: Path) -> Bool {
        held.engine.tree.indexed(Query(order: order), at: path).index != nil
    }

    /// A path of 31 keys that shares none with another one.
    private static func deep(_ number: Int) -> Path { Path((0..<31).map { Key(index: number * 100 + $0) }) }

    @Test func ordersOfOneLocation() {
        let held = Held(Engine(root: Self.object(300), access: .open))
        for number in 0..<1000 { Self.listen(held, Self.order(number), .root, at: Int64(number)) }
        #expect(held.engine.tree.indexes.onDemandCount == IndexAccounts.onDemandLimitPerLocation)
        Self.work(held)
        #expect(Self.isReady(held, Self.order(0), .root), "in use: it gives way to none")
        #expect(!Self.isReady(held, Self.order(999), .root))
        let later = 1000 + IndexCatalog.minimumStay
        Self.listen(held, Self.order(0), .root, at: later)
        Self.listen(held, .value, .root, at: later)
        Self.work(held)
        #expect(Self.isReady(held, .value, .root), "in place of the one not used for the longest time")
        #expect(Self.isReady(held, Self.order(0), .root))
        #expect(!Self.isReady(held, Self.order(1), .root))
    }

    /// Queries of clients keep no index out that the rules declare, however deep their locations are.
    @Test func locationsOfADatabase() {
        var root = Node.empty
        let object = Self.object(300)
        let count = IndexAccounts.onDemandLimit + 100
        for number in 0..<count { root.set(object, at: Self.deep(number)) }
        root.set(object, at: "scores")
        let rules = #"{"rules":{"scores":{".indexOn":"n"},".read":true,".write":true}}"#
        let held = Held(Engine(root: root, access: .open))
        for number in 0..<count {
            held.engine.tree.noteUse(
                of: Query(order: .child("n"), limit: Self.limit), at: Self.deep(number), isLasting: true,
                at: 1)
        }
        _ = held.engine.checkInvariants()
        #expect(held.engine.tree.indexes.onDemandCount == IndexAccounts.onDemandLimit)
        held.engine.access = .loaded(try! Ruleset(loading: Array(rules.utf8)))
        Self.work(held)
        _ = held.engine.checkInvariants()
        #expect(Self.isReady(held, .child("n"), "scores"))
        #expect(Self.isReady(held, .child("n"), Self.deep(0)))
        Self.listen(held, .child("n"), Self.deep(count - 1), at: 2 + IndexCatalog.minimumStay)
        Self.work(held)
        #expect(Self.isReady(held, .child("n"), Self.deep(count - 1)), "others were not used for a long time")
        #expect(held.engine.tree.indexes.onDemandCount == IndexAccounts.onDemandLimit)
    }

    /// What is built holds a snapshot: little is at the same time, and nothing that was dropped meanwhile.
    @Test func buildsAtTheSameTime() {
        let held = Held(Engine(root: Self.object(300), access: .open))
        for number in 0..<8 { Self.listen(held, Self.order(number), .root, at: 1) }
        let first = held.engine.tree.takeIndexWork().jobs
        #expect(first.count == 2)
        #expect(!held.engine.tree.indexes.work.hasReady, "the others wait")
        #expect(held.engine.tree.takeIndexWork().jobs.isEmpty)
        held.engine.tree.finish(first[0].perform())
        #expect(held.engine.tree.indexes.work.hasReady)
        let next = held.engine.tree.takeIndexWork().jobs
        #expect(next.count == 1)
        held.engine.tree.indexByteLimit = 0
        _ = held.engine.checkInvariants()
        for job in [first[1]] + next { held.engine.tree.finish(job.perform()) }
        #expect(held.engine.tree.takeIndexWork().jobs.isEmpty, "nothing is waited for")
        #expect(held.engine.tree.indexes.onDemandCount == 0)
        #expect(held.engine.tree.indexes.onDemandByteCount == 0)
    }

    /// An index without entries counts too.
    @Test func priorityIndexesCount() {
        let held = Held(Engine(root: Self.object(300), access: .open))
        Self.listen(held, .priority, .root, at: 1)
        Self.work(held)
        #expect(held.engine.tree.indexes.onDemandByteCount >= IndexAccounts.locationByteCount)
        held.engine.tree.indexByteLimit = 0
        #expect(held.engine.tree.indexes.locations.leastRecentlyUsed() == nil)
    }
}

import PandoBytes
import PandoRandom
import PandoRules
import PandoTree
import Testing

@testable import PandoEngine

/// Which indexes there are, and when.
@Suite struct IndexTests {
    private static let rules = #"""
        {"rules":{"scores":{".indexOn":["n",".value","deep/path"]},
                  "rooms":{"$room":{".indexOn":"n"},"private":{}},".read":true,".write":true}}
        """#

    private static func access(_ rules: String = rules) -> Access {
        .loaded(try! Ruleset(loading: Array(rules.utf8)))
    }

    /// An object with so many children `{n, deep: {path}}`.
    private static func many(_ count: Int) -> Node {
        var node = Node.empty
        for number in 0..<count {
            node.set(.integer(Int64(number * 7919 % 1000)), at: Path([Key(index: number), "n"]))
            node.set(.string(Text("value \(number % 10)")), at: Path([Key(index: number), "deep", "path"]))
        }
        return node
    }

    private static func work(_ held: Held) {
        while held.engine.tree.hasIndexWork {
            for job in held.engine.tree.takeIndexWork().jobs { held.engine.tree.finish(job.perform()) }
        }
    }

    private static func put(_ held: Held, _ path: Path, _ node: Node) {
        _ = held.engine.execute(
            Command(
                session: SessionID(1), credential: .admin, time: 5,
                operation: .put(Write(Target(path), Draft(node)))))
        _ = held.engine.checkInvariants()
    }

    private static func isReady(_ held: Held, _ order: ChildOrder, _ path: Path) -> Bool {
        held.engine.tree.indexed(Query(order: order), at: path).index != nil
    }

    private static func tree() -> Node {
        var root = Node.empty
        root.set(many(300), at: "scores")
        root.set(many(300), at: "rooms/a")
        root.set(many(300), at: "rooms/private")
        root.set(many(20), at: "rooms/small")
        root.set(many(300), at: "other")
        return root
    }

    @Test func declaredIndexesAreBuiltWhereThereAreManyChildren() {
        let held = Held(Engine(root: Self.tree(), access: Self.access()))
        Self.work(held)
        for order in [ChildOrder.child("n"), .value, .child("deep/path")] {
            #expect(Self.isReady(held, order, "scores"), "\(order)")
        }
        #expect(Self.isReady(held, .child("n"), "rooms/a"), "by the wildcard")
        #expect(!Self.isReady(held, .child("n"), "rooms/private"), "a literal key hides the wildcard")
        #expect(!Self.isReady(held, .child("n"), "rooms/small"), "few children are visited")
        #expect(!Self.isReady(held, .child("n"), "other"), "not declared")
        #expect(!Self.isReady(held, .value, "rooms/a"), "not declared")
        _ = held.engine.checkInvariants()
    }

    @Test func newRulesDropAndAdd() {
        let held = Held(Engine(root: Self.tree(), access: Self.access()))
        Self.work(held)
        held.engine.access = Self.access(#"{"rules":{"scores":{".indexOn":"n"},"other":{".indexOn":"n"}}}"#)
        #expect(!held.engine.tree.takeIndexWork().dropped.isEmpty, "the host frees them")
        held.engine.access = Self.access(#"{"rules":{"scores":{".indexOn":"n"},"other":{".indexOn":"n"}}}"#)
        Self.work(held)
        #expect(Self.isReady(held, .child("n"), "scores"))
        #expect(Self.isReady(held, .child("n"), "other"))
        #expect(!Self.isReady(held, .value, "scores"))
        #expect(!Self.isReady(held, .child("n"), "rooms/a"))
        held.engine.access = .locked
        #expect(!Self.isReady(held, .child("n"), "scores"))
        _ = held.engine.checkInvariants()
    }

    @Test func locationsThatGrowGetDeclaredIndexes() {
        let held = Held(Engine(root: .empty, access: Self.access()))
        Self.work(held)
        for number in 0..<400 {
            Self.put(held, Path(["rooms", "b", Key(index: number), "n"]), .integer(Int64(number)))
        }
        Self.work(held)
        #expect(Self.isReady(held, .child("n"), "rooms/b"), "by many writes")
        Self.put(held, "rooms", Node.object(Children(ascending: [.init(key: "c", node: Self.many(300))])))
        Self.work(held)
        #expect(Self.isReady(held, .child("n"), "rooms/c"), "by one")
        #expect(!Self.isReady(held, .child("n"), "rooms/b"), "there is nothing any more")
        _ = held.engine.checkInvariants()
    }

    @Test func writesDuringTheBuildAreInTheIndex() {
        // Two indexes: as many as are built at the same time.
        let rules = #"""
            {"rules":{"scores":{".indexOn":"n"},"rooms":{"$room":{".indexOn":"n"},"private":{}},".write":true}}
            """#
        let held = Held(Engine(root: Self.tree(), access: Self.access(rules)))
        let found = held.engine.tree.takeIndexWork().jobs.map { $0.perform() }
        for result in found { held.engine.tree.finish(result) }
        let jobs = held.engine.tree.takeIndexWork().jobs
        Self.put(held, "scores/5/n", .integer(-1))
        Self.put(held, "scores/new/n", .string("x"))
        Self.put(held, "scores/7", .empty)
        let results = jobs.map { $0.perform() }
        #expect(!Self.isReady(held, .child("n"), "scores"), "not before it is complete")
        // More than is compared at once: another thread follows first.
        Self.put(held, "rooms/a", Self.many(20_000))
        for result in results { held.engine.tree.finish(result) }
        #expect(Self.isReady(held, .child("n"), "scores"))
        #expect(!Self.isReady(held, .child("n"), "rooms/a"), "too much has changed")
        _ = held.engine.checkInvariants()
        Self.work(held)
        #expect(Self.isReady(held, .child("n"), "rooms/a"))
        _ = held.engine.checkInvariants()
    }

    /// A listen has brought the index meanwhile, a write has discarded that one, and the first build is right
    /// again.
    @Test func anIndexThatIsAskedForTwiceIsBuiltOnce() {
        let rules = #"{"rules":{"scores":{".indexOn":"n"},".write":true}}"#
        let held = Held(Engine(root: Self.tree(), access: Self.access(rules)))
        for job in held.engine.tree.takeIndexWork().jobs { held.engine.tree.finish(job.perform()) }
        let jobs = held.engine.tree.takeIndexWork().jobs
        #expect(jobs.count == 1)
        let scores = held.engine.root["scores" as Path]
        held.engine.tree.adopt(
            KeptIndex(ordering: scores.children, by: .child("n")), at: "scores", over: scores, at: 5)
        #expect(Self.isReady(held, .child("n"), "scores"))
        Self.put(held, "scores", Self.many(20_000))
        #expect(!Self.isReady(held, .child("n"), "scores"))
        Self.put(held, "scores", scores)
        for job in jobs { held.engine.tree.finish(job.perform()) }
        _ = held.engine.checkInvariants()
        #expect(Self.isReady(held, .child("n"), "scores"))
    }

    @Test func replacedLocations() {
        let held = Held(Engine(root: Self.tree(), access: Self.access()))
        Self.work(held)
        Self.put(held, "scores", Self.many(310))
        #expect(Self.isReady(held, .child("n"), "scores"), "few children differ")
        Self.put(held, Path(), Self.tree())
        Self.work(held)
        #expect(Self.isReady(held, .child("n"), "scores"))
        Self.put(held, "scores", Self.many(20_000))
        #expect(!Self.isReady(held, .child("n"), "scores"), "it is built anew")
        Self.work(held)
        #expect(Self.isReady(held, .child("n"), "scores"))
        Self.put(held, "scores", .empty)
        #expect(!Self.isReady(held, .child("n"), "scores"))
        _ = held.engine.checkInvariants()
    }

    @Test func undeclaredOrdersGetIndexesOnDemand() {
        let held = Held(Engine(root: Self.tree(), access: .open))
        func use(_ order: ChildOrder, _ path: Path, isLasting: Bool = false, at time: Int64 = 1) {
            let limit = Query.Limit(count: 2, anchor: .first)
            held.engine.tree.noteUse(
                of: Query(order: order, limit: limit), at: path, isLasting: isLasting, at: time)
            Self.work(held)
        }
        use(.child("n"), "scores")
        #expect(!Self.isReady(held, .child("n"), "scores"), "asked for once")
        use(.child("n"), "scores")
        #expect(Self.isReady(held, .child("n"), "scores"), "asked for twice")
        use(.value, "scores", isLasting: true)
        #expect(Self.isReady(held, .value, "scores"), "a listen")
        use(.priority, "scores")
        #expect(Self.isReady(held, .priority, "scores"), "the default order")
        use(.child("n"), "rooms/small", isLasting: true)
        #expect(!Self.isReady(held, .child("n"), "rooms/small"), "few children")
        // Two of them fit. The one by value was not used for the longest time.
        use(.child("n"), "scores", at: 5)
        held.engine.tree.indexByteLimit = held.engine.tree.onDemandIndexByteCount + 1000
        use(.child("n"), "other", isLasting: true, at: 6)
        #expect(Self.isReady(held, .child("n"), "other"))
        #expect(Self.isReady(held, .child("n"), "scores"))
        #expect(!Self.isReady(held, .value, "scores"))
        #expect(Self.isReady(held, .priority, "scores"), "takes no memory")
        _ = held.engine.checkInvariants()
    }

    @Test func prioritiesInTheDefaultOrder() {
        let held = Held(Engine(root: Self.tree(), access: .open))
        let query = Query(limit: .init(count: 3, anchor: .last))
        held.engine.tree.noteUse(of: query, at: "scores", isLasting: true, at: 1)
        Self.work(held)
        func keys() -> [Key] {
            let indexed = held.engine.tree.indexed(query, at: "scores")
            #expect(indexed.index != nil)
            return Window(indexed, over: held.engine.root["scores" as Path]).entries.map(\.key)
        }
        #expect(keys() == ["297", "298", "299"])
        Self.put(held, "scores/4/.priority", .integer(1))
        // The first priority: it is no longer the order of keys.
        Self.work(held)
        #expect(keys() == ["298", "299", "4"])
        Self.put(held, "scores/2/.priority", .integer(0))
        #expect(keys() == ["299", "2", "4"])
        Self.put(held, "scores/4/.priority", .empty)
        #expect(keys() == ["298", "299", "2"])
    }
}

import PandoBytes
import PandoRandom
import PandoTree
import Testing

@testable import PandoEngine

/// Windows for which a write has no time left: another thread finds what they are.
@Suite struct BehindWindowTests {
    private static let queries: [Query] =
        (0..<8).map { Query(#"{"i":"n","sp":\#($0)}"#) } + [
            Query(#"{"i":"n","ep":12}"#), Query(#"{"i":".key","sp":"k1"}"#),
            Query(#"{"i":"n","l":5,"vf":"r"}"#),
            Query(#"{"i":"n","l":7,"vf":"l"}"#),
        ]

    private static func node(_ random: inout SeededGenerator) -> Node {
        Node(
            #"{"n":\#(Int.random(in: 0..<20, using: &random)),"s":\#(Int.random(in: 0..<9, using: &random))}"#
        )
    }

    private static func key(_ random: inout SeededGenerator) -> Key {
        Key(unchecked: Text("k\(Int.random(in: 0..<50, using: &random))"))
    }

    private static func list(_ random: inout SeededGenerator) -> Node {
        var list = Node.empty
        for _ in 0..<40 { list.set(node(&random), at: Path([key(&random)])) }
        return list
    }

    private static func operation(_ random: inout SeededGenerator) -> PandoEngine.Operation {
        switch Int.random(in: 0..<8, using: &random) {
        case 0: return .put(Write(Target("q"), Draft(list(&random))))
        case 1:
            let keys = Set((0..<10).map { _ in key(&random) })
            return .merge(
                base: "q", keys.sorted().map { Write(Target(Path(["q", $0])), Draft(node(&random))) })
        case 2: return .put(Write(Target(Path(["q", key(&random)])), Draft(.empty)))
        case 3, 4:
            return .put(
                Write(
                    Target(Path(["q", key(&random), "n"])),
                    Draft(.integer(.random(in: 0..<20, using: &random)))))
        default: return .put(Write(Target(Path(["q", key(&random)])), Draft(node(&random))))
        }
    }

    /// What a client has of one window.
    private static func apply(_ body: Push.Body, to cache: inout Node) {
        func set(_ node: Node, _ path: Path) {
            let rest = Path(Array(path.keys.dropFirst()))
            if rest.isRoot { cache = node } else { cache.set(node, at: rest) }
        }
        switch body {
        case .overwrite(let path, let node): set(node, path)
        case .merge(let base, let entries):
            for entry in entries { set(entry.node, base.appending(entry.path.keys)) }
        case .initial(let state): cache = state.window?.node ?? state.node
        case .rangeMerge, .listens: Issue.record("no client has sent hashes")
        }
    }

    /// Whatever is written, and whenever other threads are done: in the end each client has what its query
    /// selects.
    @Test(arguments: 0..<8) func clientsHaveTheirWindowsInTheEnd(seed: Int) {
        var random = SeededGenerator(seed: seed)
        let held = Held(Engine(access: .open))
        held.engine.tree.updater.budget.writeLimit = 1000
        held.engine.tree.indexes.visitedChildCount = 20
        if seed % 2 == 0 { held.engine.tree.indexByteLimit = 0 }
        var (caches, jobs, behindCount): ([Int64: Node], [IndexJob], Int) = ([:], [], 0)
        func take(_ pushes: [Push]) {
            for push in pushes {
                for recipient in push.taggedRecipients where caches[recipient.tag] != nil {
                    Self.apply(push.body, to: &caches[recipient.tag, default: .empty])
                }
            }
        }
        func run(_ operation: PandoEngine.Operation) {
            take(
                held.engine.execute(
                    Command(session: SessionID(1), credential: .anonymous, time: 1, operation: operation)
                ).1.pushes)
        }
        func finishOne() {
            held.engine.tree.finish(jobs.remove(at: Int.random(in: jobs.indices, using: &random)).perform())
            take(held.engine.tree.removeScanPushes())
        }
        func listen(_ index: Int, tag: Int64? = nil) {
            let tag = tag ?? Int64(index + 1)
            caches[tag] = .empty
            run(.listen(Listen(path: "q", query: Self.queries[index], tag: tag)))
        }
        run(.put(Write(Target("q"), Draft(Self.list(&random)))))
        for index in Self.queries.indices { listen(index) }
        for _ in 0..<400 {
            run(Self.operation(&random))
            if random.chance(5) {
                let index = Int.random(in: Self.queries.indices, using: &random)
                run(.unlisten("q", Self.queries[index], tag: Int64(index + 1)))
                listen(index)
            }
            if random.chance(5) {
                // One more recipient of the same window: it begins with what is there now.
                let index = Int.random(in: Self.queries.indices, using: &random)
                let (query, tag) = (Self.queries[index], Int64(index + 101))
                let awaitsReplacement =
                    held.engine.tree.listens.table.view(of: query, at: "q")?.awaitsReplacement ?? false
                run(.unlisten("q", query, tag: tag))
                listen(index, tag: tag)
                let expected = Window(query, over: held.engine.root["q" as Path]).node
                #expect(!awaitsReplacement || caches[tag] == expected, "seed \(seed), query \(index)")
            }
            behindCount += Self.queries.count {
                held.engine.tree.listens.table.view(of: $0, at: "q")?.awaitsReplacement ?? false
            }
            if held.engine.tree.hasIndexWork { jobs += held.engine.tree.takeIndexWork().jobs }
            if !jobs.isEmpty, random.chance(40) { finishOne() }
            _ = held.engine.checkInvariants()
        }
        while !jobs.isEmpty || held.engine.tree.hasIndexWork {
            jobs += held.engine.tree.takeIndexWork().jobs
            while !jobs.isEmpty { finishOne() }
        }
        #expect(behindCount > 100, "seed \(seed)")
        for (index, query) in Self.queries.enumerated() {
            let expected = Window(query, over: held.engine.root["q" as Path]).node
            #expect(caches[Int64(index + 1)] == expected, "seed \(seed), query \(index)")
            if let late = caches[Int64(index + 101)] {
                #expect(late == expected, "seed \(seed), query \(index)")
            }
        }
    }

    /// Where more is written during each scan than one step may apply, the recipients get what each scan has
    /// found.
    @Test func constantWritesDoNotKeepAWindowBehind() throws {
        let held = Held(Engine(access: .open))
        held.engine.tree.indexByteLimit = 0
        func run(_ operation: PandoEngine.Operation) {
            _ = held.engine.execute(
                Command(session: SessionID(1), credential: .anonymous, time: 1, operation: operation))
        }
        func write(_ number: Int) {
            let count = ViewUpdater.differenceLimit + 1
            let children = (0..<count).map {
                Children.Entry(key: Key(index: $0), node: Node("{\"n\":\(number)}"))
            }
            run(.put(Write(Target("q"), Draft(.children(Children(ascending: children))))))
        }
        write(0)
        run(.listen(Listen(path: "q", query: Query(order: .child("n")), tag: 1)))
        held.engine.tree.updater.budget.writeLimit = 0
        write(1)
        for number in 1...5 {
            let jobs = held.engine.tree.takeIndexWork().jobs
            write(number + 1)
            for job in jobs { held.engine.tree.finish(job.perform()) }
            let pushes = held.engine.tree.removeScanPushes()
            guard case .overwrite(_, let node)? = pushes.first?.body else {
                Issue.record("nothing was pushed after write \(number)")
                return
            }
            #expect(node[Key(index: 4096)][Key("n")] == Node("\(number)"))
        }
    }

    /// However many windows there are over a large location, one step updates a few; the others follow one by
    /// one.
    @Test func oneStepUpdatesABoundedNumber() {
        let held = Held(Engine(access: .open))
        held.engine.tree.indexByteLimit = 0
        func run(_ operation: PandoEngine.Operation) -> [Push] {
            held.engine.execute(
                Command(session: SessionID(1), credential: .anonymous, time: 1, operation: operation)
            ).1.pushes
        }
        func list(_ offset: Int) -> Node {
            .children(
                Children(
                    ascending: (0..<1000).map {
                        .init(key: Key(index: $0), node: Node("{\"n\":\($0 + offset)}"))
                    }))
        }
        _ = run(.put(Write(Target("q"), Draft(list(1)))))
        for tag in 0..<100 {
            let query = Query(
                order: .child("n"),
                start: Bound(value: .integer(0), key: .key(Key(index: tag)), isInclusive: true))
            _ = run(.listen(Listen(path: "q", query: query, tag: Int64(tag))))
        }
        held.engine.tree.updater.budget.writeLimit = 10_000
        // Each visits its children of before and those of now.
        #expect(run(.put(Write(Target("q"), Draft(list(2))))).count == 5)
        #expect(run(.put(Write(Target("q/7"), Draft(#"{"n":0}"#)))).count == 5, "the others pass it by")
        var (pushCount, stepCount) = (0, 0)
        while held.engine.tree.hasIndexWork {
            let jobs = held.engine.tree.takeIndexWork().jobs
            #expect(jobs.count <= 2)
            for job in jobs {
                var rest: IndexJobResult? = job.perform()
                while let left = rest {
                    rest = held.engine.tree.finishSome(left)
                    stepCount += 1
                    let stepPushCount = held.engine.tree.removeScanPushes().count
                    #expect((1...16).contains(stepPushCount), "each is of a thousand children")
                    pushCount += stepPushCount
                }
            }
        }
        #expect(pushCount == 95 && (7...20).contains(stepCount), "\(pushCount) \(stepCount)")
        // One child each: what 100 pushes cost is within the limit of a server.
        held.engine.tree.updater.budget.writeLimit = 1 << 17
        #expect(run(.put(Write(Target("q/8"), Draft(#"{"n":0}"#)))).count == 100)
    }

    /// However many sessions share the windows of many queries: one write, and one step behind it, pushes to
    /// a bounded number of recipients.
    @Test func recipientsOfOneStepAreBounded() {
        let held = Held(Engine(access: .open))
        func run(_ session: UInt64, _ operation: PandoEngine.Operation) -> [Push] {
            held.engine.execute(
                Command(session: SessionID(session), credential: .anonymous, time: 1, operation: operation)
            ).1.pushes
        }
        let (sessionCount, queryCount) = (150, 200)
        for session in 1...sessionCount {
            for number in 1...queryCount {
                let query = Query(order: .key, limit: .init(count: number, anchor: .first))
                let tag = Int64(session * queryCount + number)
                _ = run(UInt64(session), .listen(Listen(path: "q", query: query, tag: tag)))
            }
        }
        func count(_ pushes: [Push]) -> Int { pushes.reduce(0) { $0 + $1.taggedRecipients.count } }
        let first = count(run(999, .put(Write(Target("q/k"), Draft("1")))))
        #expect((1000..<9000).contains(first))
        var all = first
        while held.engine.tree.hasIndexWork {
            for job in held.engine.tree.takeIndexWork().jobs {
                var rest: IndexJobResult? = job.perform()
                while let left = rest {
                    rest = held.engine.tree.finishSome(left)
                    let step = count(held.engine.tree.removeScanPushes())
                    #expect(step < 2000)
                    all += step
                }
            }
        }
        #expect(all == sessionCount * queryCount, "each gets the change once")
    }

    private static func oneValue(_ number: Int) -> Query {
        Query(
            order: .value,
            start: Bound(value: .integer(Int64(number)), key: .lowest, isInclusive: true),
            end: Bound(value: .integer(Int64(number)), key: .highest, isInclusive: true))
    }

    /// However many windows fall behind: those of one location are answered together, those that end wait no
    /// longer, and no step visits what waits.
    @Test func windowsThatWaitAreAnsweredTogetherAndEndAtOnce() {
        let held = Held(Engine(access: .open))
        func run(_ session: UInt64, _ operation: PandoEngine.Operation) {
            _ = held.engine.execute(
                Command(session: SessionID(session), credential: .anonymous, time: 1, operation: operation))
        }
        func listen(_ count: Int, in session: UInt64) {
            for location in 0..<4 {
                for number in 0..<count {
                    run(
                        session,
                        .listen(
                            Listen(
                                path: Path(text: "l\(location)"), query: Self.oneValue(number),
                                tag: Int64(location * count + number))))
                }
            }
        }
        listen(500, in: 1)
        listen(100, in: 2)
        held.engine.tree.updater.budget.writeLimit = 0
        func write(_ value: Int64) {
            for location in 0..<4 {
                run(3, .put(Write(Target(Path(text: "l\(location)")), Draft("{\"k\":\(value)}"))))
            }
        }
        write(5)
        let work = { held.engine.tree.updater.scans }
        #expect(work().waitingCount == 2000)
        let jobs = held.engine.tree.takeIndexWork().jobs
        let viewCounts = jobs.map { if case .scan(let scan) = $0 { scan.parts.count } else { 0 } }
        #expect(viewCounts == [64, 64] && work().waitingCount == 2000 - 128)
        // The first hundred of each location have another listener.
        run(1, .endSession)
        #expect(work().waitingCount == 400 - 100, "two scans have a hundred of those")
        for job in jobs { held.engine.tree.finish(job.perform()) }
        run(2, .endSession)
        #expect(work().waitingCount == 0 && !held.engine.tree.hasIndexWork)
        _ = held.engine.checkInvariants()
    }

    /// A merge of many paths that is done at once makes no window fall behind that it does not touch.
    @Test(arguments: [4, 40]) func largeMergesPassWindowsBy(windowCount: Int) {
        let held = Held(Engine(root: Node(#"{"list":{"k":5}}"#), access: .open))
        func run(_ operation: PandoEngine.Operation, at time: Int64 = 1) -> [Push] {
            held.engine.execute(
                Command(session: SessionID(1), credential: .anonymous, time: time, operation: operation)
            ).1.pushes
        }
        for number in 0..<windowCount {
            _ = run(.listen(Listen(path: "list", query: Self.oneValue(number), tag: Int64(number))))
        }
        held.engine.tree.updater.budget.writeLimit = 0
        func merge(adding value: Int) -> [Push] {
            let writes = (0...Engine.largeMergeCount).map { Write("list/a\($0)", "\(value + $0)") }
            let prepared = held.engine.preparation(for: writes, mergeBase: "list", as: .anonymous, at: 1)
            let isAdopted = held.engine.adopt(prepared!.perform())
            #expect(isAdopted)
            defer { held.engine.discardPreparedWrite() }
            return run(.merge(base: "list", writes))
        }
        func behindCount() -> Int {
            (0..<windowCount).count {
                held.engine.tree.listens.table.view(of: Self.oneValue($0), at: "list")?.awaitsReplacement
                    == true
            }
        }
        #expect(merge(adding: 1000).isEmpty && behindCount() == 0, "no window has any of these values")
        #expect(merge(adding: windowCount - 2).isEmpty && behindCount() == 2, "two have to get one each")
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

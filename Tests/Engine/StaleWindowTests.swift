import PandoBytes
import PandoRandom
import PandoTree
import Testing

@testable import PandoEngine

/// Windows that a write leaves to other threads or to later steps.
@Suite struct StaleWindowTests {
    private static func node(_ random: inout SeededGenerator) -> Node {
        let (place, other) = (
            Int64.random(in: 0..<20, using: &random), Int64.random(in: 0..<9, using: &random)
        )
        return .object(
            Children(ascending: [
                .init(key: "n", node: .integer(place)), .init(key: "s", node: .integer(other)),
            ]))
    }

    private static func key(_ random: inout SeededGenerator, of count: Int) -> Key {
        Key(unchecked: Text("k\(Int.random(in: 0..<count, using: &random))"))
    }

    static func list(_ random: inout SeededGenerator, _ writeCount: Int, keys keyCount: Int) -> Node {
        var list = Node.empty
        for _ in 0..<writeCount { list.set(node(&random), at: Path([key(&random, of: keyCount)])) }
        return list
    }

    // MARK: In the end

    /// Of one location.
    static let queries: [Query] =
        (0..<8).map { Query(#"{"i":"n","sp":\#($0)}"#) } + [
            Query(#"{"i":"n","ep":12}"#), Query(#"{"i":".key","sp":"k1"}"#),
            Query(#"{"i":"n","l":5,"vf":"r"}"#),
            Query(#"{"i":"n","l":7,"vf":"l"}"#),
        ]

    static func operation(_ random: inout SeededGenerator) -> PandoEngine.Operation {
        switch Int.random(in: 0..<8, using: &random) {
        case 0: return .put(Write(Target("q"), Draft(list(&random, 40, keys: 50))))
        case 1:
            let keys = Set((0..<10).map { _ in key(&random, of: 50) })
            return .merge(
                base: "q", keys.sorted().map { Write(Target(Path(["q", $0])), Draft(node(&random))) })
        case 2: return .put(Write(Target(Path(["q", key(&random, of: 50)])), Draft(.empty)))
        case 3, 4:
            return .put(
                Write(
                    Target(Path(["q", key(&random, of: 50), "n"])),
                    Draft(.integer(.random(in: 0..<20, using: &random)))))
        default: return .put(Write(Target(Path(["q", key(&random, of: 50)])), Draft(node(&random))))
        }
    }

    /// Many windows of one location, for which writes have no time left: whatever is written, and whenever
    /// other threads are done, in the end each client has what its query selects.
    @Test(arguments: 0..<8) func clientsHaveWhatOtherThreadsFindInTheEnd(seed: Int) {
        var random = SeededGenerator(seed: seed)
        let clients = WindowClients()
        clients.held.engine.tree.updater.budget.writeLimit = 1000
        clients.held.engine.tree.indexes.visitedChildCount = 20
        if seed % 2 == 0 { clients.held.engine.tree.indexByteLimit = 0 }
        func listenAnew(_ index: Int, tag: Int64) {
            clients.unlisten(tag: tag)
            clients.listen("q", Self.queries[index], tag: tag)
        }
        var staleCount = 0
        clients.put("q", Self.list(&random, 40, keys: 50))
        for index in Self.queries.indices { listenAnew(index, tag: Int64(index + 1)) }
        for _ in 0..<400 {
            clients.run(Self.operation(&random))
            if random.chance(5) {
                let index = Int.random(in: Self.queries.indices, using: &random)
                listenAnew(index, tag: Int64(index + 1))
            }
            if random.chance(5) {
                // One more recipient of the same window: it begins with what is there now.
                let index = Int.random(in: Self.queries.indices, using: &random)
                let wasStale = clients.view(of: Self.queries[index], at: "q")?.awaitsReplacement ?? false
                listenAnew(index, tag: Int64(index + 101))
                let client = clients.clients[Int64(index + 101)]!
                #expect(
                    !wasStale || client.cache == clients.selection(of: client),
                    "seed \(seed), query \(index)")
            }
            staleCount += clients.staleCount
            clients.finishOne(inPercent: 40, &random)
            _ = clients.held.engine.checkInvariants()
        }
        clients.finishAll(&random)
        #expect(staleCount > 100 && clients.staleCount == 0, "seed \(seed)")
        clients.expectCurrent("seed \(seed)")
    }

    private static let sweptQueries = [
        #"{"i":"n","sp":3}"#, #"{"i":".key","l":3,"vf":"r"}"#, #"{"i":"n","l":4,"vf":"l"}"#,
        #"{"i":"n","ep":12}"#,
    ].map { Query($0) }
    private static let bases: [Path] = ["p/a/q", "p/b/q", "p/b/r", "p/c"]

    /// Windows of many locations, and writes above all of them: whatever is written and listened to between
    /// the steps of the sweep, and whenever they are done, in the end each client has what its query selects.
    @Test(arguments: 0..<12) func clientsHaveWhatLaterStepsUpdateInTheEnd(seed: Int) {
        var random = SeededGenerator(seed: seed)
        let clients = WindowClients()
        clients.held.engine.tree.listens.limits.visitedNodeCount = 0
        clients.held.engine.tree.listens.limits.filteredListenTotal = 0
        if seed % 3 == 0 { clients.held.engine.tree.indexes.visitedChildCount = 5 }
        // Some windows are too large for a step.
        if seed % 2 == 0 { clients.held.engine.tree.updater.budget.sweepStepLimit = 265 }
        var sweptCount = 0
        for step in 0..<300 {
            switch Int.random(in: 0..<12, using: &random) {
            case 0, 1, 2:
                let tag = Int64(Int.random(in: 1...40, using: &random))
                guard clients.clients[tag] == nil else { continue }
                let (path, query) = (random.pick(Self.bases), random.pick(Self.sweptQueries))
                clients.listen(path, query, tag: tag, by: UInt64.random(in: 1...4, using: &random))
            case 3:
                guard let tag = clients.clients.keys.min() else { continue }
                clients.unlisten(tag: tag)
            case 4, 5, 6:
                var tree = Node.empty
                for base in Self.bases where random.chance(80) {
                    tree.set(Self.list(&random, 12, keys: 20), at: Path(Array(base.keys.dropFirst())))
                }
                clients.put("p", tree)
            case 7: clients.put("p/b", .empty)
            case 8: clients.put(random.pick(Self.bases), Self.list(&random, 12, keys: 20))
            default:
                let path = random.pick(Self.bases).appending(Self.key(&random, of: 20))
                clients.put(path, random.chance(20) ? .empty : Self.node(&random))
            }
            if clients.held.engine.tree.updater.sweeps.scope != nil { sweptCount += 1 }
            clients.finishOne(inPercent: 30, &random)
            if step % 10 == 0 { _ = clients.held.engine.checkInvariants() }
        }
        clients.finishAll(&random)
        #expect(sweptCount > 20 && clients.staleCount == 0, "seed \(seed)")
        #expect(clients.held.engine.tree.updater.sweeps.scope == nil)
        clients.expectCurrent("seed \(seed)")
    }

    // MARK: Steps are bounded

    /// A thousand children, the values of which ascend from an offset.
    static func thousand(from offset: Int) -> Node {
        .children(
            Children(
                ascending: (0..<1000).map {
                    .init(key: Key(index: $0), node: Node("{\"n\":\($0 + offset)}"))
                }))
    }

    /// A hundred windows over these children, for a budget that lasts for five.
    static func windowsOfAThousand() -> WindowClients {
        let clients = WindowClients(
            root: .children(Children(ascending: [.init(key: "q", node: thousand(from: 1))])))
        clients.held.engine.tree.indexByteLimit = 0
        for tag in 0..<100 {
            let query = Query(
                order: .child("n"),
                start: Bound(value: .integer(0), key: .key(Key(index: tag)), isInclusive: true))
            clients.listen("q", query, tag: Int64(tag))
        }
        clients.held.engine.tree.updater.budget.writeLimit = 150_000
        return clients
    }

    /// Two hundred queries of one location, each with 150 sessions.
    private static func sharedWindows() -> WindowClients {
        let clients = WindowClients()
        for session in 1...150 {
            for number in 1...200 {
                let query = Query(order: .key, limit: .init(count: number, anchor: .first))
                clients.listen("q", query, tag: Int64(session * 200 + number), by: UInt64(session))
            }
        }
        return clients
    }

    /// `{"n0":{"a":1},"n1":{"a":1}…}`
    private static func objects(_ count: Int) -> Node {
        Node("{" + (0..<count).map { "\"n\($0)\":{\"a\":1}" }.joined(separator: ",") + "}")
    }

    /// A small window at each of many locations below `/l`.
    private static func windowsOfManyLocations(_ count: Int, over node: Node) -> WindowClients {
        let clients = WindowClients()
        clients.put("l", node)
        let query = Query(#"{"i":".value","l":1,"vf":"r"}"#)
        for number in 0..<count {
            clients.listen(
                Path(text: "l/n\(number)"), query, tag: Int64(number), by: UInt64(1 + number / 1000))
        }
        return clients
    }

    /// A write that alters the windows of all clients, each once.
    struct StepCase: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let clients: @Sendable () -> WindowClients
        let path: Path
        let node: @Sendable () -> Node
        /// Recipients that get a push with the write, and in each of the later steps.
        let inWrite: ClosedRange<Int>
        let inStep: ClosedRange<Int>
        let stepCount: ClosedRange<Int>
    }

    private static let stepCases = [
        StepCase(
            testDescription: "windows that take the budget of the write: other threads find the others",
            clients: windowsOfAThousand, path: "q", node: { thousand(from: 2) }, inWrite: 5...5,
            inStep: 1...16, stepCount: 7...20),
        StepCase(
            testDescription: "windows with many recipients: to encode their pushes takes the budget",
            clients: sharedWindows, path: "q/k", node: { .integer(1) }, inWrite: 1000...8999,
            inStep: 0...1999, stepCount: 11...1000),
        StepCase(
            testDescription: "a write above more filtered listens than are visited: later steps update them",
            clients: { windowsOfManyLocations(5000, over: objects(5000)) }, path: "l", node: { .empty },
            inWrite: 0...0, inStep: 0...65, stepCount: 51...1000),
        StepCase(
            testDescription: "a child in more windows than a write may mark: later steps update them",
            clients: WindowLimitTests.windowsOfOneLocation, path: "q/999/n", node: { .integer(5000) },
            inWrite: 0...0,
            inStep: 0...65, stepCount: 9...1000),
        StepCase(
            testDescription: "all children of more windows than a write may mark: later steps update them",
            clients: WindowLimitTests.windowsOfOneLocation, path: "q", node: { thousand(from: 2) },
            inWrite: 0...0,
            inStep: 0...65, stepCount: 9...1000),
    ]

    /// However many windows a write alters, it updates few of them itself, each later step does, and in the
    /// end each client has got its push once.
    @Test(arguments: stepCases) func stepsAreBounded(_ test: StepCase) {
        let clients = test.clients()
        let inWrite = clients.put(test.path, test.node()).recipientCount
        #expect(test.inWrite.contains(inWrite), "\(inWrite)")
        let steps = clients.finishInSteps().map(\.recipientCount)
        #expect(steps.allSatisfy { test.inStep.contains($0) }, "\(steps)")
        #expect(test.stepCount.contains(steps.count), "\(steps.count)")
        #expect(inWrite + steps.reduce(0, +) == clients.clients.count, "each gets the change once")
        clients.expectCurrent(test.testDescription)
    }

    @Test func writesSkipWindowsThatAwaitTheirReplacement() {
        let clients = Self.windowsOfAThousand()
        #expect(clients.put("q", Self.thousand(from: 2)).count == 5)
        #expect(clients.staleCount == 95)
        #expect(clients.put("q/7", Node(#"{"n":0}"#)).count == 5)
        _ = clients.finishInSteps()
        #expect(clients.staleCount == 0)
        // One child each: what 100 pushes cost is within the limit of a server.
        clients.held.engine.tree.updater.budget.writeLimit = UpdateBudget().writeLimit
        #expect(clients.put("q/8", Node(#"{"n":0}"#)).count == 100)
        clients.expectCurrent("in the end")
    }

    @Test func nothingIsSweptWhereNothingIsBelow() {
        let clients = Self.windowsOfManyLocations(3000, over: .empty)
        #expect(clients.put("l", .integer(1)).isEmpty && clients.staleCount == 0)
        let hasWork = clients.held.engine.tree.hasIndexWork
        #expect(!hasWork, "there is no data below, before and after")
    }

    // MARK: Constant writes

    /// Where more is written during each scan than one step may apply, the recipients get what each scan has
    /// found.
    @Test func constantWritesKeepNoWindowFromItsReplacement() throws {
        let clients = WindowClients()
        clients.held.engine.tree.indexByteLimit = 0
        func write(_ number: Int) {
            let children = (0...ViewUpdater.differenceLimit).map {
                Children.Entry(key: Key(index: $0), node: Node("{\"n\":\(number)}"))
            }
            clients.put("q", .children(Children(ascending: children)))
        }
        write(0)
        clients.listen("q", Query(order: .child("n")), tag: 1)
        clients.held.engine.tree.updater.budget.writeLimit = 0
        write(1)
        for number in 1...5 {
            let jobs = clients.held.engine.tree.takeIndexWork().jobs
            write(number + 1)
            for job in jobs { clients.held.engine.tree.finish(job.perform()) }
            let pushes = clients.held.engine.tree.removeScanPushes()
            guard case .overwrite(_, let node)? = pushes.first?.body else {
                Issue.record("nothing was pushed after write \(number)")
                return
            }
            #expect(node[Key(index: 4096)][Key("n")] == Node("\(number)"))
        }
    }

    /// However often something is written above them, each of many windows gets its turn in the sweep.
    @Test func constantWritesKeepNoWindowFromTheSweep() {
        let count = 3000
        let data = Self.objects(count)
        let clients = Self.windowsOfManyLocations(count, over: data)
        var tags: Set<Int64> = []
        for round in 0..<200 where tags.count < count {
            clients.put("l", round % 2 == 0 ? .empty : data)
            for push in clients.finishWhatIsReady().joined() {
                tags.formUnion(push.taggedRecipients.map(\.tag))
            }
        }
        #expect(tags.count > count * 9 / 10, "\(tags.count)")
    }

    // MARK: Windows that wait

    private static func oneValue(_ number: Int) -> Query {
        Query(
            order: .value,
            start: Bound(value: .integer(Int64(number)), key: .lowest, isInclusive: true),
            end: Bound(value: .integer(Int64(number)), key: .highest, isInclusive: true))
    }

    /// However many windows await their replacement: those of one location are answered together, those that
    /// end wait no longer, and no step visits what waits.
    @Test func windowsThatWaitAreAnsweredTogetherAndEndAtOnce() {
        let clients = WindowClients()
        let held = clients.held
        func listen(_ count: Int, in session: UInt64) {
            for location in 0..<4 {
                for number in 0..<count {
                    clients.listen(
                        Path(text: "l\(location)"), Self.oneValue(number),
                        tag: Int64(session) * 10_000 + Int64(location * count + number), by: session)
                }
            }
        }
        listen(500, in: 1)
        listen(100, in: 2)
        held.engine.tree.updater.budget.writeLimit = 0
        for location in 0..<4 { clients.put(Path(text: "l\(location)"), Node(#"{"k":5}"#)) }
        let waitingCount = { held.engine.tree.updater.scans.waitingCount }
        #expect(waitingCount() == 2000)
        let jobs = held.engine.tree.takeIndexWork().jobs
        let viewCounts = jobs.map { if case .scan(let scan) = $0 { scan.parts.count } else { 0 } }
        #expect(viewCounts == [64, 64] && waitingCount() == 2000 - 128)
        // The first hundred of each location have another listener.
        clients.run(.endSession, by: 1)
        #expect(waitingCount() == 400 - 100, "two scans have a hundred of those")
        for job in jobs { held.engine.tree.finish(job.perform()) }
        clients.run(.endSession, by: 2)
        #expect(waitingCount() == 0 && !held.engine.tree.hasIndexWork)
        _ = held.engine.checkInvariants()
    }

    /// A merge of many paths that is done at once leaves no window to other threads that it does not touch.
    @Test(arguments: [4, 40]) func largeMergesSkipWindowsThatTheyDoNotTouch(windowCount: Int) {
        let clients = WindowClients(root: Node(#"{"list":{"k":5}}"#))
        let held = clients.held
        for number in 0..<windowCount { clients.listen("list", Self.oneValue(number), tag: Int64(number)) }
        held.engine.tree.updater.budget.writeLimit = 0
        func merge(adding value: Int) -> [Push] {
            let writes = (0...Engine.largeMergeCount).map { Write("list/a\($0)", "\(value + $0)") }
            let prepared = held.engine.preparation(for: writes, mergeBase: "list", as: .anonymous, at: 1)
            let isAdopted = held.engine.adopt(prepared!.perform())
            #expect(isAdopted)
            defer { held.engine.discardPreparedWrite() }
            return clients.run(.merge(base: "list", writes), by: 1)
        }
        #expect(
            merge(adding: 1000).isEmpty && clients.staleCount == 0, "no window has any of these values")
        #expect(
            merge(adding: windowCount - 2).isEmpty && clients.staleCount == 2, "two have to get one each")
    }
}

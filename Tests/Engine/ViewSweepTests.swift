import PandoBytes
import PandoRandom
import PandoTree
import Testing

@testable import PandoEngine

/// Writes above more filtered listens than are updated in one step (``ViewSweep``).
@Suite struct ViewSweepTests {
    private static let queries = [
        #"{"i":"n","sp":3}"#, #"{"i":".key","l":3,"vf":"r"}"#, #"{"i":"n","l":4,"vf":"l"}"#,
        #"{"i":"n","ep":12}"#,
    ].map { Query($0) }
    private static let bases: [Path] = ["p/a/q", "p/b/q", "p/b/r", "p/c"]

    private static func node(_ random: inout SeededGenerator) -> Node {
        .object(
            Children(ascending: [.init(key: "n", node: .integer(.random(in: 0..<20, using: &random)))]))
    }

    private static func key(_ random: inout SeededGenerator) -> Key {
        Key(unchecked: Text("k\(Int.random(in: 0..<20, using: &random))"))
    }

    private static func list(_ random: inout SeededGenerator) -> Node {
        var list = Node.empty
        for _ in 0..<12 { list.set(node(&random), at: Path([key(&random)])) }
        return list
    }

    private static func apply(_ body: Push.Body, to cache: inout Node, at location: Path) {
        func set(_ node: Node, _ path: Path) {
            let rest = location.relative(path)
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

    /// Whatever is written and listened to between the steps, and whenever they are done: in the end each
    /// client has what its query selects.
    @Test(arguments: 0..<12) func clientsHaveTheirWindowsInTheEnd(seed: Int) {
        var random = SeededGenerator(seed: UInt64(seed))
        let held = Held(Engine(access: .open))
        held.engine.tree.listens.limits.visitedNodeCount = 0
        held.engine.tree.listens.limits.filteredListenTotal = 0
        if seed % 3 == 0 { held.engine.tree.indexes.visitedChildCount = 5 }
        // Some windows are too large for a step.
        if seed % 2 == 0 { held.engine.tree.updater.budget.sweepStepLimit = 265 }
        var jobs: [IndexJob] = []
        var caches: [Int64: (listen: Listen, session: UInt64, node: Node)] = [:]
        var overdueCount = 0
        func take(_ pushes: [Push]) {
            for push in pushes {
                for recipient in push.taggedRecipients {
                    guard let path = caches[recipient.tag]?.listen.path else { continue }
                    Self.apply(push.body, to: &caches[recipient.tag]!.node, at: path)
                }
            }
        }
        func run(_ operation: PandoEngine.Operation, _ session: UInt64 = 9) {
            take(
                held.engine.execute(
                    Command(
                        session: SessionID(session), credential: .anonymous, time: 1, operation: operation)
                ).1.pushes)
        }
        func finishOne() {
            held.engine.tree.finish(jobs.remove(at: Int.random(in: jobs.indices, using: &random)).perform())
            take(held.engine.tree.removeScanPushes())
        }
        for step in 0..<300 {
            switch Int.random(in: 0..<12, using: &random) {
            case 0, 1, 2:
                let tag = Int64(Int.random(in: 1...40, using: &random))
                guard caches[tag] == nil else { continue }
                let listen = Listen(
                    path: random.pick(Self.bases), query: random.pick(Self.queries), tag: tag)
                let session = UInt64.random(in: 1...4, using: &random)
                caches[tag] = (listen, session, .empty)
                run(.listen(listen), session)
            case 3:
                guard let (tag, cache) = caches.min(by: { $0.key < $1.key }) else { continue }
                caches[tag] = nil
                run(.unlisten(cache.listen.path, cache.listen.query, tag: tag), cache.session)
            case 4, 5, 6:
                var tree = Node.empty
                for base in Self.bases where random.chance(80) {
                    tree.set(Self.list(&random), at: Path(Array(base.keys.dropFirst())))
                }
                run(.put(Write(Target("p"), Draft(tree))))
            case 7: run(.put(Write(Target("p/b"), Draft(.empty))))
            case 8: run(.put(Write(Target(random.pick(Self.bases)), Draft(Self.list(&random)))))
            default:
                let path = random.pick(Self.bases).appending(Self.key(&random))
                run(.put(Write(Target(path), Draft(random.chance(20) ? .empty : Self.node(&random)))))
            }
            if held.engine.tree.updater.sweeps.scope != nil { overdueCount += 1 }
            if held.engine.tree.hasIndexWork { jobs += held.engine.tree.takeIndexWork().jobs }
            if !jobs.isEmpty, random.chance(30) { finishOne() }
            if step % 10 == 0 { _ = held.engine.checkInvariants() }
        }
        while !jobs.isEmpty || held.engine.tree.hasIndexWork {
            jobs += held.engine.tree.takeIndexWork().jobs
            while !jobs.isEmpty { finishOne() }
        }
        #expect(overdueCount > 20 && held.engine.tree.updater.sweeps.scope == nil)
        for (tag, cache) in caches {
            let expected = Window(cache.listen.query!, over: held.engine.root[cache.listen.path]).node
            #expect(cache.node == expected, "seed \(seed), tag \(tag) at \(cache.listen.path)")
        }
    }

    /// A write above very many windows updates none of them at once, and each step updates few.
    @Test func stepsAreSmall() {
        let count = 5000
        let data = (0..<count).map { "\"n\($0)\":{\"a\":1}" }.joined(separator: ",")
        var scene = Scene("{\"l\":{\(data)}}")
        for number in 0..<count {
            scene.listen(
                1, Path(text: "l/n\(number)"), #"{"i":".value","l":1,"vf":"r"}"#, tag: Int64(number))
        }
        #expect(scene.put(2, "l", "null") == ["ok"])
        var tags: Set<Int64> = []
        var stepCount = 0
        while scene.engine.tree.hasIndexWork {
            for job in scene.engine.tree.takeIndexWork().jobs { scene.engine.tree.finish(job.perform()) }
            let pushes = scene.engine.tree.removeScanPushes()
            #expect(pushes.count <= scene.engine.tree.updater.budget.sweepStepLimit / 256 + 1)
            for push in pushes { tags.formUnion(push.taggedRecipients.map(\.tag)) }
            stepCount += 1
        }
        #expect(tags.count == count && stepCount > 50)
        #expect(scene.put(2, "l", "1") == ["ok"], "nothing is below, before and after")
        let hasWork = scene.engine.tree.hasIndexWork
        #expect(!hasWork)
    }

    /// However often something is written above them, each of many windows gets its turn.
    @Test func constantWritesDoNotKeepWindowsOverdue() {
        let count = 3000
        let data = (0..<count).map { "\"n\($0)\":{\"a\":1}" }.joined(separator: ",")
        var scene = Scene("{\"l\":{\(data)}}")
        for number in 0..<count {
            scene.listen(
                UInt64(1 + number / 1000), Path(text: "l/n\(number)"), #"{"i":".value","l":1,"vf":"r"}"#,
                tag: Int64(number))
        }
        var tags: Set<Int64> = []
        for round in 0..<200 where tags.count < count {
            scene.put(9, "l", round % 2 == 0 ? "null" : "{\(data)}")
            for job in scene.engine.tree.takeIndexWork().jobs { scene.engine.tree.finish(job.perform()) }
            for push in scene.engine.tree.removeScanPushes() {
                tags.formUnion(push.taggedRecipients.map(\.tag))
            }
        }
        #expect(tags.count > count * 9 / 10, "\(tags.count)")
    }
}

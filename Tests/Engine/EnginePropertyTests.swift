import Glibc
import PandoBytes
import PandoRandom
import PandoRules
import PandoTree
import Testing

@testable import PandoEngine

// Random commands of several sessions against the naive truth. After each of them every client must hold
// exactly what it asked for, having pushed of it once.

@Suite struct EngineProperties {
    static let seedCount = 60
    /// Limits and rules follow from remainders of the seed by 3, 5 and 288: in this step few seeds meet all.
    static let seedStep: UInt64 = 7
    static let commands = 200

    /// `PANDO_PROPERTY_SEED` and `PANDO_PROPERTY_SECONDS` run it from another seed on, and for longer.
    @Test func everyClientHoldsCurrentData() {
        let first = UInt64(setting: "PANDO_PROPERTY_SEED") ?? 0
        let end = UInt64(setting: "PANDO_PROPERTY_SECONDS").map { ContinuousClock.now + .seconds(Int64($0)) }
        var (preparedMergeCount, preparedEndCount) = (0, 0)
        defer {
            #expect(preparedMergeCount > 100, "prepared merges are tried, too")
            #expect(preparedEndCount > 100, "prepared ends are tried, too")
        }
        for number in 0... {
            guard end.map({ ContinuousClock.now < $0 }) ?? (number < Self.seedCount) else {
                if end != nil { print("\(number) seeds from \(first)") }
                return
            }
            let seed = first + UInt64(number) * (end == nil ? Self.seedStep : 1)
            var world = World(seed: seed)
            for command in 0..<Self.commands {
                world.step()
                if let problem = world.problem {
                    Issue.record("seed \(seed), command \(command) \(world.lastCommand)\n\(problem)")
                    return
                }
            }
            world.endAll()
            if let problem = world.problem {
                Issue.record("seed \(seed), at the end: \(problem)")
                return
            }
            preparedMergeCount += world.preparedMergeCount
            preparedEndCount += world.preparedEndCount
        }
    }
}

/// An engine, its clients, and what should be true of them.
private struct World {
    var random: SeededGenerator
    private let held: Held
    /// Computations for indexes that another thread has not done yet.
    var indexJobs: [IndexJob] = []
    var truth = Value.nothing
    var clients: [UInt64: ClientModel] = [:]
    var queues: [UInt64: SparseTree] = [:]
    var records: [EngineRecord] = []
    /// Merges that were done as prepared.
    var preparedMergeCount = 0
    /// Ends of sessions that were done as prepared.
    var preparedEndCount = 0
    var time: Int64 = 1000
    var last: (operation: PandoEngine.Operation, session: UInt64, effects: Effects)?
    var problem: String?
    /// Tags of windows that lacked children before the last command: it may complete them.
    var lackingTags: Set<Int64> = []

    var engine: Engine {
        _read { yield held.engine }
        _modify { yield &held.engine }
    }

    private static let sessions: [UInt64] = [1, 2, 3, 4]
    private static let keys = ["a", "b", "n", "2", "10"]

    init(seed: UInt64) {
        random = SeededGenerator(seed: seed)
        // Without indexes, with those that queries ask for, and with those that rules declare.
        let rules = #"{"rules":{".read":true,".write":true,".indexOn":["n",".value"],"$k":{".indexOn":"a"}}}"#
        held = Held(
            Engine(access: seed % 3 == 2 ? .loaded(try! Ruleset(loading: Array(rules.utf8))) : .open))
        if seed % 3 != 0 { held.engine.tree.indexes.unindexedChildCount = 0 }
        // Where no index helps, other threads find the children that windows lack.
        if seed % 5 >= 3 { held.engine.tree.indexes.visitedChildCount = 0 }
        // Writes above listens are done by sessions, as above very many.
        if seed % 4 == 1 {
            held.engine.tree.listens.limits = .init(
                visitedNodeCount: Int(seed / 4 % 3), visitedListenCount: Int(seed / 12 % 3),
                visitedListenTotal: Int(seed / 36 % 4), alwaysVisitedListenCount: Int(seed / 144 % 2))
        }
        for session in Self.sessions { clients[session] = Self.client(session) }
    }

    /// Every kind of client there is.
    static func client(_ session: UInt64) -> ClientModel {
        ClientModel(appliesUntaggedToWindows: session % 2 == 1, goesBackwards: session > 2)
    }

    // MARK: Making things up

    mutating func path(_ lengths: ClosedRange<Int>) -> [String] {
        (0..<Int.random(in: lengths, using: &random)).map { _ in random.pick(Self.keys) }
    }

    mutating func scalar() -> Scalar {
        switch Int.random(in: 0..<8, using: &random) {
        case 0: .boolean(random.chance(50))
        case 1: .string(random.pick(["", "s", "t"]))
        case 2: .number(1.5)
        default: .number(Double(Int.random(in: 0..<5, using: &random)))
        }
    }

    mutating func special(isPriority: Bool) -> Sketch.Special {
        if random.chance(15) {
            return .server(random.chance(50) ? .timestamp : .increment(Double(random.pick([-1, 1, 2]))))
        }
        var value = scalar()
        while isPriority, case .boolean = value { value = scalar() }
        return .scalar(value)
    }

    mutating func sketch(depth: Int) -> Sketch {
        if random.chance(20) { return .nothing }
        let priority = random.chance(20) ? special(isPriority: true) : nil
        if depth == 0 || random.chance(40) { return .leaf(special(isPriority: false), priority: priority) }
        var members: [String: Sketch] = [:]
        for _ in 0..<Int.random(in: 0...3, using: &random) {
            members[random.pick(Self.keys)] = sketch(depth: depth - 1)
        }
        return .object(members, priority: priority)
    }

    /// What may stand at `path/.priority`.
    mutating func prioritySketch() -> Sketch {
        random.chance(30) ? .nothing : .leaf(special(isPriority: true), priority: nil)
    }

    mutating func query() -> NaiveQuery {
        var query = NaiveQuery()
        query.order = random.pick([.priority, .key, .value, .child("n"), .child("a")])
        func bound(_ low: Bool) -> Scalar {
            query.order == .key ? .string(low ? "10" : "b") : .number(Double(low ? 1 : 3))
        }
        if random.chance(40) { query.start = bound(true) }
        if random.chance(40) { query.end = bound(false) }
        if random.chance(70) || (query.start == nil && query.end == nil) {
            query.limit = Int.random(in: 1...3, using: &random)
            query.isLast = random.chance(50)
        }
        return query
    }

    /// Writes beside one another below `base`.
    mutating func writes(_ base: [String]) -> [(path: [String], value: Sketch)] {
        var writes: [(path: [String], value: Sketch)] = []
        for _ in 0..<Int.random(in: 0...4, using: &random) {
            var path = base + path(1...2)
            let isPriority = random.chance(15)
            if isPriority { path[path.count - 1] = ".priority" }
            guard !writes.contains(where: { $0.path.contains(path) || path.contains($0.path) }) else {
                continue
            }
            writes.append((path, isPriority ? prioritySketch() : sketch(depth: 2)))
        }
        return writes
    }

    // MARK: One command

    mutating func step() {
        time += 1
        let session = random.pick(Self.sessions)
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<35: put(session)
        case 35..<55: merge(session)
        case 55..<67: listen(session)
        case 67..<75: listenFiltered(session)
        case 75..<83: unlisten(session)
        case 83..<93: queue(session)
        case 93..<95: cancel(session)
        default: end(session)
        }
        if random.chance(2) { replay() }
        // What sessions hold equals a recount.
        if time % 16 == 0 { _ = engine.checkInvariants() }
        indexInBackground()
    }

    /// Other threads build indexes at any time, on the snapshots of then.
    mutating func indexInBackground() {
        if random.chance(40) { indexJobs += engine.tree.takeIndexWork().jobs }
        if !indexJobs.isEmpty, random.chance(30) {
            let job = indexJobs.remove(at: Int.random(in: indexJobs.indices, using: &random))
            engine.tree.finish(job.perform())
            deliver(engine.tree.removeScanPushes(), nil)
            check()
        }
        if random.chance(3) { finishAllJobs() }
        // Now and then an operator's limit is small.
        if random.chance(1) { engine.tree.indexByteLimit = random.pick([32, 256, 1 << 20]) }
        if random.chance(25) { _ = engine.checkInvariants() }
    }

    /// In the end no window lacks children.
    mutating func finishAllJobs() {
        repeat {
            indexJobs += engine.tree.takeIndexWork().jobs
            for job in indexJobs {
                engine.tree.finish(job.perform())
                deliver(engine.tree.removeScanPushes(), nil)
            }
            indexJobs = []
        } while engine.tree.hasIndexWork
        check()
        for client in clients.values {
            for window in client.windows.values where self.window(window.query, window.path).lacksChildren {
                fail("a window lacks children at \(window.path)")
            }
        }
    }

    func window(_ query: NaiveQuery, _ path: [String]) -> Window {
        let path = Path(text: path.slashed)
        return engine.tree.listens.table.view(of: query.query, at: path)?.window
            ?? Window(query.query, over: .empty)
    }

    mutating func put(_ session: UInt64) {
        var path = path(0...3)
        var value = sketch(depth: 2)
        if random.chance(10) {
            path.append(".priority")
            value = prioritySketch()
        }
        let before = truth
        truth = truth.merging([(path, value)], time: time)
        let isRefused = path.last == ".priority" && before[path.dropLast()] == .nothing
        run(
            session,
            .put(Write(path.slashed, value.json)),
            expecting: isRefused ? "failed" : "ok", before)
    }

    mutating func merge(_ session: UInt64) {
        let base = path(0...2)
        let writes = writes(base)
        let before = truth
        truth = truth.merging(writes, time: time)
        let merge = writes.map { Write($0.path.slashed, $0.value.json) }
        if random.chance(40) { prepare(merge, base: Path(text: base.slashed)) }
        run(session, .merge(base: Path(text: base.slashed), merge), expecting: "ok", before)
        engine.discardPreparedWrite()
    }

    /// Has a merge done on a snapshot, as large ones are.
    mutating func prepare(_ writes: [Write], base: Path) {
        let preparation = engine.preparation(
            for: writes, mergeBase: base, as: .anonymous, at: time, mergingMoreThan: 1)
        if let prepared = preparation?.perform(), engine.adopt(prepared), prepared.merge != nil {
            preparedMergeCount += 1
        }
    }

    mutating func listen(_ session: UInt64) {
        let path = path(0...3)
        if clients[session]?.defaults[path] == nil { clients[session]?.defaults[path] = .nothing }
        run(session, .listen(Listen(path: Path(text: path.slashed), hash: "stale")), expecting: "ok {}", nil)
    }

    mutating func listenFiltered(_ session: UInt64) {
        let (path, query) = (path(0...2), query())
        let tag = Int64(random.next() >> 40) + 1
        clients[session]?.windows[tag] = (path, query, .nothing)
        let isKnown = random.chance(50)
        run(
            session,
            .listen(
                Listen(
                    path: Path(text: path.slashed), query: query.query, tag: tag,
                    hash: isKnown ? Text("") : nil)),
            expecting: "ok {}", nil)
        engine.tree.noteUse(
            of: query.query, at: Path(text: path.slashed), isLasting: random.chance(50), at: time)
    }

    mutating func unlisten(_ session: UInt64) {
        guard let client = clients[session] else { return }
        if random.chance(50), let tag = client.windows.keys.sorted().first {
            let (path, query, _) = client.windows[tag]!
            clients[session]?.windows[tag] = nil
            run(
                session, .unlisten(Path(text: path.slashed), query.query, tag: tag), expecting: "ok", truth)
        } else {
            let paths = client.defaults.keys.sorted { $0.slashed < $1.slashed }
            let path = random.chance(80) && !paths.isEmpty ? random.pick(paths) : path(0...3)
            clients[session]?.defaults[path] = nil
            run(session, .unlisten(Path(text: path.slashed), nil, tag: nil), expecting: "ok", truth)
        }
    }

    mutating func queue(_ session: UInt64) {
        var writes = [(path: path(0...3), value: sketch(depth: 2))]
        if random.chance(50) { writes = self.writes(path(0...2)) }
        let tree = queues[session] ?? SparseTree()
        queues[session] = tree
        for write in writes { tree.remember(write.path, write.value) }
        run(
            session, .onDisconnect(writes.map { Write($0.path.slashed, $0.value.json) }), expecting: "ok",
            truth)
    }

    mutating func cancel(_ session: UInt64) {
        let path = path(0...3)
        if queues[session]?.forget(path) == true { queues[session] = nil }
        run(session, .cancelOnDisconnect(Path(text: path.slashed)), expecting: "ok", truth)
    }

    mutating func end(_ session: UInt64) {
        let before = truth
        truth = truth.merging(queues[session]?.all ?? [], time: time)
        queues[session] = nil
        clients[session] = Self.client(session)
        // As one that had queued many writes.
        if random.chance(50),
            let preparation = engine.preparation(forEndOf: SessionID(session), at: time, moreThan: 0)
        {
            let prepared = preparation.perform()
            if engine.adopt(prepared) { preparedEndCount += 1 }
        }
        run(session, .endSession, expecting: nil, before)
        engine.discardPreparedWrite()
    }

    mutating func endAll() {
        for session in Self.sessions { end(session) }
        let (nodes, sessions) = engine.checkInvariants()
        if nodes != 1 || sessions != 0 { fail("\(nodes) trie nodes and \(sessions) sessions are left") }
        if Self.sessions.contains(where: { engine.heldByteCount(of: SessionID($0)) != 0 }) {
            fail("bytes are left of sessions that have ended")
        }
    }

    // MARK: Checking

    var lastCommand: String {
        guard let last else { return "" }
        return "of S\(last.session) at \(time): \(last.operation)\n"
            + last.effects.lines.joined(separator: "\n")
    }

    mutating func fail(_ text: String) {
        if problem == nil { problem = text }
    }

    /// - Parameter before: The truth before a write; nil for a listen, whose push is about itself.
    mutating func run(
        _ session: UInt64, _ operation: PandoEngine.Operation, expecting result: String?, _ before: Value?
    ) {
        let hadQueue = engine.hasQueue(SessionID(session))
        let command = Command(
            session: SessionID(session), credential: .anonymous, time: time, operation: operation)
        let root = engine.root
        lackingTags = Set(
            clients.values.flatMap(\.windows).filter { window($1.query, $1.path).lacksChildren }.map(\.key))
        let delta = engine.decide(command)
        let effects = engine.commit(delta)
        if case .put = delta.kind, effects.isRedundant != (engine.root == root) {
            fail("isRedundant is wrong")
        }
        if !effects.isRedundant { records += delta.records(hadQueue: hadQueue) }
        last = (operation, session, effects)
        if Effects(result: effects.result).lines != (result.map { [$0] } ?? []) {
            fail("the result should be \(result ?? "none")")
        }
        deliver(effects.pushes.flatMap(\.messages), before)
        check()
    }

    mutating func deliver(_ pushes: [Push], _ before: Value?) {
        var pushed: [UInt64: [[String]]] = [:]
        var pushedTags: Set<Push.TaggedRecipient> = []
        for push in pushes {
            let entries = push.body.entries
            if case .merge(_, let entries) = push.body, entries.count < 2 {
                fail("a merge of \(entries.count)")
            }
            if entries.contains(where: { $0.path.last == ".priority" }) {
                fail("a priority was pushed alone")
            }
            for recipient in push.recipients.joined() {
                let client = clients[recipient.rawValue] ?? ClientModel()
                let listens = client.defaults.keys.filter { listen in
                    entries.allSatisfy { listen.contains($0.path) }
                }
                guard let topmost = listens.min(by: { $0.count < $1.count }) else {
                    fail("S\(recipient.rawValue) has no listen for \(push.body)")
                    continue
                }
                if before != nil, pushed[recipient.rawValue]?.contains(topmost) == true {
                    fail("S\(recipient.rawValue) got a change twice at \(topmost)")
                }
                if let before, before[topmost] == truth[topmost] {
                    fail("S\(recipient.rawValue) got no change at \(topmost)")
                }
                pushed[recipient.rawValue, default: []].append(topmost)
                clients[recipient.rawValue]?.receive(entries, tag: nil)
            }
            for recipient in push.taggedRecipients {
                guard let (path, query, _) = clients[recipient.session.rawValue]?.windows[recipient.tag]
                else {
                    fail("\(recipient) has no listen")
                    continue
                }
                if !entries.allSatisfy({ path.contains($0.path) }) { fail("a tagged push above \(path)") }
                if !pushedTags.insert(recipient).inserted { fail("\(recipient) got two pushes") }
                if let before, !lackingTags.contains(recipient.tag),
                    query.filter(before[path]) == query.filter(truth[path])
                {
                    fail("\(recipient) got no change")
                }
                clients[recipient.session.rawValue]?.receive(entries, tag: recipient.tag)
            }
        }
    }

    mutating func check() {
        if Value(engine.root) != truth { fail("the tree is \(engine.root)") }
        for (session, client) in clients {
            for (path, cache) in client.defaults where cache != truth[path] {
                fail("S\(session) holds at \(path): \(cache)")
            }
            for (tag, window) in client.windows {
                let held = self.window(window.query, window.path)
                held.checkInvariants()
                // What a client takes from untagged data may be more than the window has.
                let isRight =
                    held.lacksChildren
                    ? client.appliesUntaggedToWindows || window.cache == Value(held.node)
                    : window.cache == window.query.filter(truth[window.path])
                if !isRight {
                    fail("S\(session)#\(tag) holds at \(window.path) \(window.query): \(window.cache)")
                }
            }
            for window in client.windows.values {
                let found = get(window.query.query, at: Path(text: window.path.slashed))
                if Value(found) != window.query.filter(truth[window.path]) {
                    fail("a get at \(window.path) of \(window.query) gives \(found)")
                }
            }
        }
    }

    /// What a get answers, by the index that is there.
    func get(_ query: Query, at path: Path) -> Node {
        let delta = engine.decide(
            Command(
                session: SessionID(9), credential: .anonymous, time: time, operation: .get(path, query)))
        switch delta.result {
        case .data(let node): return node
        case .filtered(let node, let query): return Window(query, over: node).node
        default: return .empty
        }
    }

    /// Everything that was made durable makes the same database.
    mutating func replay() {
        do {
            var other = Engine(access: .open)
            for record in records { try other.replay(record.kind, record.payload.rawSpan) }
            if other.root != engine.root { fail("replay gives \(other.root)") }
            if other.queueRecords.map(\.payload) != engine.queueRecords.map(\.payload) {
                fail("replay gives other queues")
            }
            if other.sessionsWithQueue != engine.sessionsWithQueue { fail("replay gives other sessions") }
            // A checkpoint: the tree and the queues as they are.
            var restored = Engine(root: engine.root, access: .open)
            for record in engine.queueRecords { try restored.replay(record.kind, record.payload.rawSpan) }
            if restored.queueRecords.map(\.payload) != engine.queueRecords.map(\.payload) {
                fail("a checkpoint gives other queues")
            }
            if other.checkInvariants().sessions != engine.sessionsWithQueue.count {
                fail("idle sessions are left")
            }
        } catch {
            fail("a record cannot be read: \(error)")
        }
    }
}

extension NaiveQuery {
    /// The same query as the engine takes it.
    var query: Query {
        var members: [String] = []
        switch order {
        case .priority: break
        case .key: members.append(#""i":".key""#)
        case .value: members.append(#""i":".value""#)
        case .child(let name): members.append(#""i":"\#(name)""#)
        }
        if let start { members.append(#""sp":\#(start.json)"#) }
        if let end { members.append(#""ep":\#(end.json)"#) }
        if let limit { members.append(#""l":\#(limit),"vf":"\#(isLast ? "r" : "l")""#) }
        return Query("{\(members.joined(separator: ","))}")
    }
}

extension UInt64 {
    /// The number in an environment variable; nil where there is none.
    fileprivate init?(setting name: String) {
        guard let text = unsafe getenv(name) else { return nil }
        self.init(unsafe String(cString: text))
    }
}

import PandoBytes
import PandoRandom
import PandoTree
import Testing

@testable import PandoEngine

/// An engine, what the clients of its filtered listens hold after the pushes so far, and what other threads
/// and later steps have to do yet.
final class WindowClients {
    struct Client {
        let listen: Listen
        let session: UInt64
        var cache = Node.empty
    }

    let held: Held
    /// By tag: no two have the same.
    private(set) var clients: [Int64: Client] = [:]
    private var jobs: [IndexJob] = []

    init(root: Node = .empty) { held = Held(Engine(root: root, access: .open)) }

    // MARK: Commands

    @discardableResult
    func run(_ operation: PandoEngine.Operation, by session: UInt64 = 9) -> [Push] {
        let command = Command(
            session: SessionID(session), credential: .anonymous, time: 1, operation: operation)
        let pushes = held.engine.execute(command).1.pushes
        receive(pushes)
        return pushes
    }

    @discardableResult
    func put(_ path: Path, _ node: Node) -> [Push] { run(.put(Write(Target(path), Draft(node)))) }

    func listen(_ path: Path, _ query: Query, tag: Int64, by session: UInt64 = 1) {
        let listen = Listen(path: path, query: query, tag: tag)
        clients[tag] = Client(listen: listen, session: session)
        run(.listen(listen), by: session)
    }

    /// Ends a listen, if there is one with this tag.
    func unlisten(tag: Int64) {
        guard let client = clients.removeValue(forKey: tag) else { return }
        run(.unlisten(client.listen.path, client.listen.query, tag: tag), by: client.session)
    }

    // MARK: Later work

    /// Takes what can be done now, and does one of it, sometimes.
    func finishOne(inPercent percent: Int, _ random: inout SeededGenerator) {
        if held.engine.tree.hasIndexWork { jobs += held.engine.tree.takeIndexWork().jobs }
        if !jobs.isEmpty, random.chance(percent) { finishOne(&random) }
    }

    private func finishOne(_ random: inout SeededGenerator) {
        held.engine.tree.finish(jobs.remove(at: Int.random(in: jobs.indices, using: &random)).perform())
        receive(held.engine.tree.removeScanPushes())
    }

    /// Does all that is to be done, in any order.
    func finishAll(_ random: inout SeededGenerator) {
        while !jobs.isEmpty || held.engine.tree.hasIndexWork {
            jobs += held.engine.tree.takeIndexWork().jobs
            while !jobs.isEmpty { finishOne(&random) }
        }
    }

    /// Does all that is to be done, step by step.
    /// - Returns: The pushes of each step.
    func finishInSteps() -> [[Push]] {
        var steps: [[Push]] = []
        while held.engine.tree.hasIndexWork { steps += finishWhatIsReady() }
        return steps
    }

    /// Does what can be done now, step by step, and nothing that follows from it.
    /// - Returns: The pushes of each step.
    func finishWhatIsReady() -> [[Push]] {
        var steps: [[Push]] = []
        let jobs = held.engine.tree.takeIndexWork().jobs
        let snapshotCount = jobs.count { if case .sweep = $0 { false } else { true } }
        #expect(snapshotCount <= 2, "each holds a snapshot")
        for job in jobs {
            var rest: IndexJobResult? = job.perform()
            while let left = rest {
                rest = held.engine.tree.finishSome(left)
                let pushes = held.engine.tree.removeScanPushes()
                receive(pushes)
                steps.append(pushes)
            }
        }
        return steps
    }

    // MARK: Looking

    func view(of query: Query, at path: Path) -> QueryView? {
        held.engine.tree.listens.table.view(of: query, at: path)
    }

    /// The number of clients whose view is stale.
    var staleCount: Int {
        clients.values.count {
            view(of: $0.listen.query!, at: $0.listen.path)?.isStale(held.engine.tree.updater) ?? false
        }
    }

    /// Each client holds what its query selects.
    func expectCurrent(_ context: String) {
        let wrong = clients.filter { $0.value.cache != selection(of: $0.value) }
        #expect(wrong.isEmpty, "\(context): tags \(wrong.keys.sorted())")
    }

    /// What the query of a client selects now.
    func selection(of client: Client) -> Node {
        Window(client.listen.query!, over: held.engine.root[client.listen.path]).node
    }

    // MARK: Receiving

    private func receive(_ pushes: [Push]) {
        for push in pushes {
            for recipient in push.taggedRecipients {
                guard let path = clients[recipient.tag]?.listen.path else { continue }
                Self.apply(push.body, to: &clients[recipient.tag]!.cache, at: path)
            }
        }
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
}

extension [Push] {
    /// How many recipients with a tag they have together.
    var recipientCount: Int { reduce(0) { $0 + $1.taggedRecipients.count } }
}

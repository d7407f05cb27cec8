import PandoBytes
import PandoRandom
import PandoTree

/// A leaderboard: writers change scores, listeners watch the highest few; some operations query once in
/// place of changing. At the end every listener's query window is what a fresh query gives.
///
/// Connections 0 ..< writers write and ask, each its own items: number n modulo the writers.
final class QueryScenario: Scenario {
    private let items: Int
    private let limit: Int
    private let writers: Int
    private let readShare: Int
    private var windows: [Node]
    private var random: SeededGenerator

    init(
        _ context: WorkerContext, _ worker: any ScenarioDelegate, items: Int, limit: Int, writers: Int,
        readShare: Int
    ) {
        (self.items, self.limit, self.writers, self.readShare) = (items, limit, writers, readShare)
        windows = Array(repeating: .empty, count: context.plan.connectionCount / context.plan.threads + 1)
        random = SeededGenerator(seed: context.plan.seed &+ UInt64(context.index))
        super.init(context, worker)
    }

    override var wantsWholePushes: Bool { true }

    private var board: String { "\(plan.root)/board" }

    private func place(_ client: Client) -> Int { client.index / plan.threads }

    private func realtime(_ client: Client) -> RealtimeClient {
        guard let realtime = client as? RealtimeClient else {
            preconditionFailure("queries need the protocol")
        }
        return realtime
    }

    private func appendQuery(to output: inout [UInt8]) {
        output.append(#","q":{"i":"score","vf":"r","l":"#)
        output.append(decimal: UInt64(limit))
        output.append(#"}"#)
    }

    private func appendItem(
        _ score: Int, _ request: Pending, _ client: RealtimeClient, to output: inout [UInt8]
    ) {
        output.append(#"{"score":"#)
        output.append(decimal: UInt64(score))
        output.append(#","text":""#)
        client.appendStamp(request, to: &output)
        output.append(#""}"#)
    }

    override func seed(with control: Client) {
        let client = realtime(control)
        let request = Pending(purpose: .setUp, detail: 0, intended: 0)
        client.send("p", board, request) { output in
            output.append(#","d":{"#)
            for item in 0..<items {
                if item > 0 { output.append(#","#) }
                output.append(#""i"#)
                output.append(decimal: UInt64(item))
                output.append(#"":"#)
                appendItem(item, request, client, to: &output)
            }
            output.append(#"}"#)
        }
    }

    override func prepare(_ client: Client) {
        guard !client.isSender else { return worker.ready(client) }
        realtime(client).send("q", board, Pending(purpose: .setUp, detail: 0, intended: 0)) { output in
            appendQuery(to: &output)
            output.append(#","t":1,"h":"""#)
        }
    }

    override func send(_ client: Client, intended: Int) {
        if Int(random.next() % 100) < readShare {
            let request = Pending(purpose: .otherOperation, detail: 0, intended: intended)
            return realtime(client).send("g", board, request) { appendQuery(to: &$0) }
        }
        client.sent += 1
        let own = Int(random.next() % UInt64(max(1, items / writers)))
        let item = min(items - 1, own * writers + client.index)
        let score = Int(random.next() % 1_000_000)
        let request = Pending(
            purpose: .operation, detail: Stream.sequence(client.index, client.sent), intended: intended)
        let speaker = realtime(client)
        speaker.send("p", "\(board)/i\(item)", request) { output in
            output.append(#","d":"#)
            appendItem(score, request, speaker, to: &output)
        }
    }

    override func replied(_ client: Client, _ request: Pending, _ reply: Reply, _ text: RawSpan) {
        switch request.purpose {
        case .setUp: client.index < 0 ? worker.seeded() : worker.ready(client)
        case .otherOperation:
            checkWindow(client, text, expected: nil)
            worker.completed(client, series: 2, intended: request.intended)
        default: worker.completed(client, series: 0, intended: request.intended)
        }
    }

    override func pushed(_ client: Client, action: String, body: Range<Int>, _ text: RawSpan) {
        do {
            if action == "m" {
                let (path, members) = try Envelope.members(text, body)
                // One item took another's place. Which of the two was written? One that entered for its new
                // score has at least the score that the other had; one that fills a gap has at most that.
                let window = windows[place(client)]
                let leaving = members.first { $0.1.isEmpty }.flatMap {
                    score(of: window[Key(unchecked: Text($0.0))])
                }
                for (relative, value) in members {
                    try apply(value, at: "\(path)/\(relative)", client)
                    if let score = score(of: value), score >= leaving ?? -1 { timed(value, client) }
                }
            } else {
                let change = try Envelope.change(text, body)
                try apply(change.value, at: change.path, client)
                timed(change.value, client)
            }
        } catch {
            context.findings.add(\.wrong, "connection \(client.index): a push that is none: \(error)")
        }
        let now = context.now
        context.statistics.delivered(at: now)
        context.noteProgress()
    }

    private func apply(_ value: Node, at path: String, _ client: Client) throws {
        let whole = try Path(wire: Text(path))
        let root = try Path(wire: Text(board))
        guard root.contains(whole) else { throw MalformedJSON.unexpected(byteOffset: 0) }
        _ = windows[place(client)].set(value, at: root.relative(whole))
    }

    private func score(of item: Node) -> Double? { item["score" as Key].doubleValue }

    /// The item that was written carries its moment.
    private func timed(_ value: Node, _ client: Client) {
        guard case .string(let text) = value["text" as Key] else { return }
        let stamp = self.stamp(client, Array(text.description.utf8).rawSpan)
        if let stamp, stamp.time > 0 { context.statistics.record(1, since: stamp.time, at: context.now) }
    }

    /// The reply to a query has as many as it may, the best of them all if `expected` is known.
    private func checkWindow(_ client: Client, _ text: RawSpan, expected: Node?) {
        guard case .reply(_, nil, let data)? = try? Envelope.read(text),
            let node = try? Envelope.node(text, data)
        else { return context.findings.add(\.wrong, "connection \(client.index): a query without a reply") }
        if node.children.count != min(limit, items) {
            context.findings.add(
                \.wrong, "connection \(client.index): \(node.children.count) items in a query")
        }
        if let expected, expected != node {
            context.findings.add(\.wrong, "connection \(client.index): its window is not what a query gives")
        }
    }

    override func check(_ client: Client) {
        let request = Pending(purpose: .check, detail: 0, intended: context.now)
        realtime(client).send("g", board, request) { appendQuery(to: &$0) }
    }

    override func checked(_ client: Client, _ text: RawSpan) {
        checkWindow(client, text, expected: client.isSender ? nil : windows[place(client)])
    }
}

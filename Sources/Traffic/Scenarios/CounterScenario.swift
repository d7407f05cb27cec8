import PandoBytes
import PandoTree

/// All connections count the same few numbers up: some by increments that the server adds, some by
/// transactions, which add one to the value they know and are repeated when another write came first. At the
/// end each number is the count of successes.
final class CounterScenario: Scenario {
    private let counterCount: Int
    private let share: Int
    /// By connection: the last known number, for transactions.
    private var known: [Int64]
    private var successes: [Int: Int] = [:]
    /// What the counters were at the end, by number.
    private var found: [Int: Int] = [:]

    init(_ context: WorkerContext, _ worker: any ScenarioDelegate, counters: Int, share: Int) {
        counterCount = counters
        self.share = share
        known = Array(repeating: 0, count: context.plan.connections / context.plan.threads + 1)
        super.init(context, worker)
    }

    override var wantsWholePushes: Bool { true }

    /// Whether this connection uses transactions: spread evenly over the numbers.
    private func transacts(_ client: Client) -> Bool {
        (client.index + 1) * share / 100 > client.index * share / 100
    }

    /// Increments and transactions have counters of their own; the latter stand behind the former.
    private func stream(_ client: Client) -> Int {
        client.index % counterCount + (transacts(client) ? counterCount : 0)
    }

    private func path(_ stream: Int) -> String { "\(plan.root)/counters/\(stream)" }

    private func place(_ client: Client) -> Int { client.index / plan.threads }

    override func seed(with control: Client) {
        // Numbers, so that no transaction finds an empty path.
        for stream in 0..<counterCount * 2 {
            put(control, path(stream), 0, hash: nil, Pending(purpose: .setUp, detail: stream, intended: 0))
        }
    }

    override func prepare(_ client: Client) {
        guard transacts(client) else { return worker.ready(client) }
        client.listen(path(stream(client)), Pending(purpose: .setUp, detail: 0, intended: 0))
    }

    override func send(_ client: Client, intended: Int) {
        let stream = stream(client)
        guard transacts(client) else {
            let request = Pending(purpose: .operation, detail: stream, intended: intended)
            return realtime(client).send("p", path(stream), request) {
                $0.append(#","d":{".sv":{"increment":1}}"#)
            }
        }
        attempt(client, Pending(purpose: .otherOperation, detail: stream, intended: intended))
    }

    /// Only the realtime protocol has what counters need; the commands use no other.
    private func realtime(_ client: Client) -> RealtimeClient {
        guard let realtime = client as? RealtimeClient else {
            preconditionFailure("counters need the realtime protocol")
        }
        return realtime
    }

    private func attempt(_ client: Client, _ request: Pending) {
        let value = known[place(client)]
        put(client, path(request.detail), value + 1, hash: Node.integer(value).hash, request)
    }

    private func put(_ client: Client, _ path: String, _ value: Int64, hash: String?, _ request: Pending) {
        realtime(client).send("p", path, request) { output in
            output.append(#","d":"#)
            output.append(decimal: value)
            guard let hash else { return }
            output.append(#","h":""#)
            output.append(utf8: hash)
            output.append(#"""#)
        }
    }

    override func replied(_ client: Client, _ request: Pending, _ reply: Reply, _ text: RawSpan) {
        switch (request.purpose, reply) {
        case (.setUp, _) where client.index < 0:
            if request.detail == counterCount * 2 - 1 { worker.seeded() }
        case (.setUp, _): worker.ready(client)
        case (.otherOperation, .stale):
            // The other write's value has come before this response (realtime §11): the next attempt uses it.
            worker.retried()
            attempt(client, request)
        case (_, .stale):
            context.findings.add(\.wrong, "connection \(client.index): an increment was stale")
            worker.operationFailed(client)
        default:
            successes[request.detail, default: 0] += 1
            let isTransaction = request.purpose == .otherOperation
            worker.completed(client, series: isTransaction ? 1 : 0, intended: request.intended)
        }
    }

    override func pushed(_ client: Client, action: String, body: Range<Int>, _ text: RawSpan) {
        guard action == "d", let change = try? Envelope.change(text, body),
            case .integer(let value) = change.value
        else {
            return context.findings.add(\.wrong, "connection \(client.index): a counter that is no number")
        }
        guard value >= known[place(client)] else {
            return context.findings.add(
                \.wrong, "connection \(client.index): a counter went back to \(value)")
        }
        known[place(client)] = value
        context.statistics.delivered(at: context.now)
    }

    override func check(_ client: Client) {
        client.fetch(path(stream(client)), Pending(purpose: .check, detail: 0, intended: context.now))
    }

    override func checked(_ client: Client, _ text: RawSpan) {
        guard case .reply(_, nil, let data)? = try? Envelope.read(text),
            case .integer(let value)? = try? Envelope.node(text, data)
        else {
            return context.findings.add(\.wrong, "connection \(client.index): a counter that is no number")
        }
        found[stream(client)] = Int(value)
    }

    override var published: [Int: Int] { successes }

    override func finish(_ published: [Int: Int]) {
        for (stream, value) in found where value != published[stream] ?? 0 {
            context.findings.add(
                \.wrong, "counter \(stream) is \(value) after \(published[stream] ?? 0) successful additions")
        }
    }
}

import PandoBytes

/// Writers, one a topic; every value must reach each of the topic's listeners once and in order. An operation
/// is over when the writer has its acknowledgement and all listeners have the value.
///
/// Connections 0 ..< topics write; listener n listens to topic n modulo the topics.
final class FanOutScenario: Scenario {
    private let topicCount: Int
    private var audits: [StreamAudit]
    /// By topic: listeners of this worker, and workers that have any.
    private var localListeners: [Int]
    private var sharingWorkers: [Int]
    /// By topic and number modulo `inFlight`: how many listeners of this worker have not received the value,
    /// and what the operation still waits for, its acknowledgement and each worker with listeners.
    private var owedHere: [Int]
    private var owedInAll: [Int]
    private var intended: [Int]
    private var acknowledged: [Int: Int] = [:]
    private var writers: [Int: Client] = [:]

    init(_ context: WorkerContext, _ worker: any ScenarioDelegate, topics: Int) {
        topicCount = topics
        let plan = context.plan
        audits = Array(repeating: StreamAudit(), count: plan.connectionCount / plan.threads + 1)
        var local = Array(repeating: 0, count: topics)
        var workers = Array(repeating: Set<Int>(), count: topics)
        for index in topics..<plan.connectionCount {
            let topic = (index - topics) % topics
            workers[topic].insert(plan.worker(of: index))
            if plan.worker(of: index) == context.index { local[topic] += 1 }
        }
        sharingWorkers = workers.map(\.count)
        localListeners = local
        owedHere = (0..<topics * plan.inFlight).map { local[$0 / plan.inFlight] }
        owedInAll = Array(repeating: 0, count: topics * plan.inFlight)
        intended = owedInAll
        super.init(context, worker)
    }

    private func path(_ topic: Int) -> String { "\(plan.root)/topics/\(topic)" }

    private func slot(_ topic: Int, _ number: Int) -> Int { topic * plan.inFlight + number % plan.inFlight }

    private func place(_ client: Client) -> Int { client.index / plan.threads }

    override func prepare(_ client: Client) {
        if client.isSender {
            writers[client.index] = client
            return worker.ready(client)
        }
        let topic = (client.index - topicCount) % topicCount
        client.listen(path(topic), Pending(purpose: .setUp, detail: 0, intended: 0))
    }

    override func send(_ client: Client, intended moment: Int) {
        let slot = slot(client.index, client.sent + 1)
        owedInAll[slot] = 1 + sharingWorkers[client.index]
        intended[slot] = moment
        setNext(client, path(client.index), stream: client.index, intended: moment, publishes: true)
    }

    override func replied(_ client: Client, _ request: Pending, _ reply: Reply, _ text: RawSpan) {
        guard request.purpose == .operation else { return worker.ready(client) }
        let (topic, number) = Stream.parts(request.detail)
        acknowledged[topic, default: 0] += 1
        context.statistics.record(0, since: request.intended, at: context.moment)
        settle(topic, number)
    }

    override func pushed(_ client: Client, _ text: RawSpan) {
        guard !client.isSender, let stamp = stamp(client, text) else { return }
        let topic = (client.index - topicCount) % topicCount
        guard stamp.stream == topic else {
            // A broadcast goes to all connections; a listener of a database gets its topic alone.
            if plan.target.wireProtocol == .echo { return }
            return context.findings.add(
                \.wrong, "connection \(client.index): a value of topic \(stamp.stream)")
        }
        let before = audits[place(client)].next
        delivered(client, &audits[place(client)], stamp, series: 1)
        // Values that a gap skipped will not come.
        for number in before..<max(before, audits[place(client)].next) { tick(topic, number) }
    }

    /// One more listener has received, or missed, that value.
    private func tick(_ topic: Int, _ number: Int) {
        let slot = slot(topic, number)
        owedHere[slot] -= 1
        guard owedHere[slot] == 0 else { return }
        owedHere[slot] = localListeners[topic]
        worker.deliveredToAll(topic: topic, number: number, of: plan.worker(of: topic))
    }

    override func deliveredToAll(topic: Int, number: Int) { settle(topic, number) }

    private func settle(_ topic: Int, _ number: Int) {
        let slot = slot(topic, number)
        owedInAll[slot] -= 1
        guard owedInAll[slot] == 0, let writer = writers[topic] else { return }
        worker.completed(writer, series: plan.timesWholeFanOut ? 2 : nil, intended: intended[slot])
    }

    override var published: [Int: Int] { acknowledged }

    override func finish(_ published: [Int: Int]) {
        for client in worker.clients where !client.isSender {
            let topic = (client.index - topicCount) % topicCount
            finish(client, &audits[place(client)], stream: topic, last: published[topic] ?? 0)
        }
    }
}

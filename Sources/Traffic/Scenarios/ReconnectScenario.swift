import PandoBytes
import PandoReactor

/// Listeners lose their connections without a close frame and come back: an operation ends when the listener
/// listens again. One writer goes on meanwhile. A listener must not receive a value older than its last, and
/// while it is connected it must receive all values.
///
/// Connection 0 writes, 20 values a second.
final class ReconnectScenario: Scenario {
    private static let writePause: Duration = .milliseconds(50)

    private var audits: [StreamAudit]
    private var returning: [Int: Int] = [:]
    private var acknowledged = 0
    private var writer: Client?
    private var writesUnderWay = 0

    override init(_ context: WorkerContext, _ worker: any ScenarioDelegate) {
        audits = Array(
            repeating: StreamAudit(), count: context.plan.connectionCount / context.plan.threads + 1)
        super.init(context, worker)
    }

    private var path: String { "\(plan.root)/value" }

    private func place(_ client: Client) -> Int { client.index / plan.threads }

    override func prepare(_ client: Client) {
        guard client.isSender else {
            writer = client
            return worker.ready(client)
        }
        client.listen(path, Pending(purpose: .setUp, detail: 0, intended: 0))
    }

    override func begin() {
        if writer != nil { write() }
    }

    override var isQuiet: Bool { writesUnderWay == 0 }

    private func write() {
        guard let writer, worker.isRunning else { return }
        if writesUnderWay == 0 {
            writesUnderWay += 1
            writer.sent += 1
            let request = Pending(purpose: .setUp, detail: writer.sent, intended: context.now)
            writer.set(path, place: 0, request)
        }
        context.loop.schedule(after: Self.writePause) { [self] in write() }
    }

    override func send(_ client: Client, intended: Int) {
        returning[client.index] = intended
        audits[place(client)].resume()
        client.cut()
    }

    override func left(_ client: Client) { client.connect() }

    override func reconnected(_ client: Client) {
        if let intended = returning[client.index] {
            context.statistics.record(1, since: intended, at: context.now)
        }
        client.listen(path, Pending(purpose: .otherOperation, detail: 0, intended: 0))
    }

    override func replied(_ client: Client, _ request: Pending, _ reply: Reply, _ text: RawSpan) {
        if client === writer {
            acknowledged += 1
            writesUnderWay -= 1
            return worker.drainedIfIdle()
        }
        guard request.purpose == .otherOperation, let intended = returning.removeValue(forKey: client.index)
        else {
            return worker.ready(client)
        }
        worker.completed(client, series: 0, intended: intended)
    }

    override func pushed(_ client: Client, _ text: RawSpan) {
        guard let stamp = stamp(client, text) else { return }
        switch audits[place(client)].arrivedAfterAbsence(stamp.number) {
        case .expected:
            context.statistics.delivered(at: context.now)
            context.noteProgress()
        case .gap(let count):
            context.findings.add(
                \.missing, count, "connection \(client.index): \(count) values missing before \(stamp.number)"
            )
        case .duplicate:
            context.findings.add(
                \.duplicates, "connection \(client.index): value \(stamp.number), which is old")
        }
    }

    override var published: [Int: Int] { writer == nil ? [:] : [0: acknowledged] }

    override func finish(_ published: [Int: Int]) {
        for client in worker.clients where client.isSender && client.canSend {
            finish(client, &audits[place(client)], stream: 0, last: published[0] ?? 0)
        }
    }
}

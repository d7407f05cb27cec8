import PandoBytes
import PandoRandom

/// Each connection PUTs its own path over a persistent connection, or GETs it and must find the value of its
/// last PUT.
final class RESTScenario: Scenario {
    private let readShare: Int
    private var random: SeededGenerator

    init(_ context: WorkerContext, _ worker: any ScenarioDelegate, readShare: Int) {
        self.readShare = readShare
        random = SeededGenerator(seed: context.plan.seed &+ UInt64(context.index))
        super.init(context, worker)
    }

    private func path(_ client: Client) -> String { "\(plan.root)/writers/\(client.index)" }

    override func send(_ client: Client, intended: Int) {
        guard client.sent > 0, Int(random.next() % 100) < readShare else {
            return setNext(client, path(client), stream: client.index, intended: intended)
        }
        // Responses come in order, so this one has the value of the last PUT before it.
        let detail = Stream.sequence(client.index, client.sent)
        client.fetch(path(client), Pending(purpose: .otherOperation, detail: detail, intended: intended))
    }

    override func replied(_ client: Client, _ request: Pending, _ reply: Reply, _ text: RawSpan) {
        let isRead = request.purpose == .otherOperation
        if isRead || text.byteCount > 0 {
            guard let stamp = stamp(client, text) else { return worker.operationFailed(client) }
            if Stream.sequence(stamp.stream, stamp.number) != request.detail {
                context.findings.add(\.wrong, "connection \(client.index): value \(stamp.number) in a reply")
            }
        }
        worker.completed(client, series: isRead ? 1 : 0, intended: request.intended)
    }

    override func check(_ client: Client) {
        client.fetch(path(client), Pending(purpose: .check, detail: 0, intended: context.now))
    }

    override func checked(_ client: Client, _ text: RawSpan) {
        guard client.sent > 0, let stamp = stamp(client, text), stamp.number != client.sent else { return }
        context.findings.add(
            \.wrong, "connection \(client.index): value \(stamp.number) is there, not the last")
    }
}

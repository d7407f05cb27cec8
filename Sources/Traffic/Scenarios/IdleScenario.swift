import PandoBytes

/// Connections that send nothing. At the end each must still respond.
final class IdleScenario: Scenario {
    private let listens: Bool
    private var began: [Int: Int] = [:]

    init(_ context: WorkerContext, _ worker: any ScenarioDelegate, listens: Bool) {
        self.listens = listens
        super.init(context, worker)
    }

    override func prepare(_ client: Client) {
        guard listens else { return worker.ready(client) }
        client.listen("\(plan.root)/idle/\(client.index)", Pending(purpose: .setUp, detail: 0, intended: 0))
    }

    override func replied(_ client: Client, _ request: Pending, _ reply: Reply, _ text: RawSpan) {
        worker.ready(client)
    }

    override func check(_ client: Client) {
        client.fetch("\(plan.root)/nothing", Pending(purpose: .check, detail: 0, intended: context.now))
        began[client.index] = context.now
    }

    override func checked(_ client: Client, _ text: RawSpan) {
        guard let moment = began.removeValue(forKey: client.index) else { return }
        let now = context.now
        context.statistics.recordAlways(0, since: moment, at: now)
        context.statistics.operationDone(at: now)
    }
}

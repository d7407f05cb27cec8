import PandoBytes

/// Each connection sets its own path and waits for the acknowledgement. At the end its last value must be
/// there.
final class WritesScenario: Scenario {
    private func path(_ client: Client) -> String { "\(plan.root)/writers/\(client.index)" }

    override func send(_ client: Client, intended: Int) {
        setNext(client, path(client), stream: client.index, intended: intended)
    }

    override func replied(_ client: Client, _ request: Pending, _ reply: Reply, _ text: RawSpan) {
        worker.completed(
            client, series: 0, intended: request.intended, number: Stream.parts(request.detail).number)
    }

    override func check(_ client: Client) {
        client.fetch(path(client), Pending(purpose: .check, detail: 0, intended: context.now))
    }

    override func checked(_ client: Client, _ text: RawSpan) {
        // An echo server stores nothing.
        guard plan.target.wireProtocol != .echo, client.sent > 0, let stamp = stamp(client, text) else {
            return
        }
        guard (stamp.stream, stamp.number) != (client.index, client.sent) else { return }
        context.findings.add(
            \.wrong, "connection \(client.index): value \(stamp.number) is there, \(client.sent) was the last"
        )
    }

    override func cleanUp(with control: Client) {
        // Redis has no tree: each key is removed, and the last response ends the run.
        guard plan.target.wireProtocol == .redis else { return super.cleanUp(with: control) }
        for index in 0..<plan.connectionCount {
            let isLast = index == plan.connectionCount - 1
            control.remove(
                "\(plan.root)/writers/\(index)",
                Pending(purpose: isLast ? .cleanUp : .setUp, detail: 0, intended: context.now))
        }
    }
}

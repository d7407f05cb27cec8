import PandoBytes

/// The worker of a scenario: its connections, and the steps that the scenario ends.
protocol ScenarioDelegate: AnyObject {
    /// The connections of this worker, but for ``control``.
    var clients: [Client] { get }
    /// The connection that seeds and cleans up.
    var control: Client? { get }
    /// Operations are due.
    var isRunning: Bool { get }
    /// The connections are being closed.
    var isClosing: Bool { get }

    /// ``Scenario/seed(with:)`` is done.
    func seeded()
    /// ``Scenario/prepare(_:)`` is done.
    func ready(_ client: Client)
    /// Counts an operation that has ended, with its latency in `series`, and begins the next one.
    func completed(_ client: Client, series: Int?, intended: Int, number: Int)
    /// An operation failed; it was counted already.
    func operationFailed(_ client: Client)
    /// A transaction tries again.
    func retried()
    /// Reports to the coordinator when nothing is under way.
    func drainedIfIdle()
    /// All listeners here have this value of a topic, whose writer is that worker's.
    func deliveredToAll(topic: Int, number: Int, of worker: Int)
}

extension ScenarioDelegate {
    func completed(_ client: Client, series: Int?, intended: Int) {
        completed(client, series: series, intended: intended, number: 0)
    }
}

/// What a worker's connections send and check. One object for each worker; subclasses override what they
/// need.
///
///     prepare ─▶ (all ready) ─▶ begin ─▶ send, replied, pushed … ─▶ check ─▶ finish
///
/// Confined to its worker's loop.
class Scenario: PushReceiver {
    let context: WorkerContext
    let worker: any ScenarioDelegate
    var plan: Plan { context.plan }
    private var hint = 0

    init(_ context: WorkerContext, _ worker: any ScenarioDelegate) {
        self.context = context
        self.worker = worker
    }

    var wantsWholePushes: Bool { false }

    /// Before the first connection, on the first worker: writes what the run needs, then calls
    /// `worker.seeded()`.
    func seed(with control: Client) { worker.seeded() }

    /// The connection is up for the first time; ends with `worker.ready(client)`.
    func prepare(_ client: Client) { worker.ready(client) }

    /// The connection is up once more.
    func reconnected(_ client: Client) {}

    /// All connections of all workers are ready.
    func begin() {}

    /// An operation is due; it ends with `worker.completed(client)`.
    func send(_ client: Client, intended: Int) {
        preconditionFailure("a scenario with senders implements it")
    }

    func replied(_ client: Client, _ request: Pending, _ reply: Reply, _ text: RawSpan) {}

    func pushed(_ client: Client, _ text: RawSpan) {}

    func pushed(_ client: Client, action: String, body: Range<Int>, _ text: RawSpan) { pushed(client, text) }

    /// All listeners of another worker have this value of the topic.
    func deliveredToAll(topic: Int, number: Int) {}

    /// Whether nothing but operations is under way.
    var isQuiet: Bool { true }

    /// A connection that the scenario closed has ended.
    func left(_ client: Client) {}

    /// Whether the server may end connections; ``lost(_:)`` is called then.
    var survivesLosses: Bool { false }

    /// The connection has ended, or could not be made, for another reason than the scenario.
    func lost(_ client: Client) {}

    /// By stream (a writer's number): how many values of it were acknowledged. All workers' are added up and
    /// given to ``finish(_:)``.
    var published: [Int: Int] { [:] }

    /// Nothing is under way: sends a request whose response proves that the connection has received
    /// everything before it. The worker goes on when the response has come.
    func check(_ client: Client) {
        client.fetch("\(plan.root)/nothing", Pending(purpose: .check, detail: 0, intended: context.now))
    }

    /// The response to the request of ``check(_:)``.
    func checked(_ client: Client, _ text: RawSpan) {}

    /// Every connection was checked.
    func finish(_ published: [Int: Int]) {}

    /// The last thing: removes what was written. Its last request has the purpose `.cleanUp`.
    func cleanUp(with control: Client) {
        control.remove(plan.root, Pending(purpose: .cleanUp, detail: 0, intended: context.now))
    }

    // MARK: For subclasses

    /// Sets the sender's next value at `path`, which is asked for when `place` is another than the last time.
    final func setNext(
        _ client: Client, _ path: @autoclosure () -> String, place: Int = 0, stream: Int = 0, intended: Int,
        publishes: Bool = false
    ) {
        client.sent += 1
        let request = Pending(
            purpose: .operation, detail: Stream.sequence(stream, client.sent), intended: intended)
        if publishes {
            client.publish(path(), place: place, request)
        } else {
            client.set(path(), place: place, request)
        }
    }

    /// The stamp in a message; nil, and a finding, when it is not as it was written.
    final func stamp(_ client: Client, _ text: RawSpan) -> (stream: Int, number: Int, time: Int)? {
        var place = hint
        let found = Stamp.readTimed(text, byteCount: context.plan.size, hint: &place)
        hint = place
        guard let stamp = found else {
            context.findings.add(\.wrong, "connection \(client.index): a value that was not written")
            return nil
        }
        let (stream, number) = Stream.parts(stamp.sequence)
        return (stream, number, stamp.time)
    }

    /// Counts and checks a value that reached a listener.
    final func delivered(
        _ client: Client, _ audit: inout StreamAudit, _ stamp: (stream: Int, number: Int, time: Int),
        series: Int
    ) {
        let now = context.moment
        switch audit.arrived(stamp.number) {
        case .expected: break
        case .gap(let count):
            context.findings.add(
                \.missing, count,
                "connection \(client.index): \(count) values of writer \(stamp.stream) missing before \(stamp.number)"
            )
        case .duplicate:
            return context.findings.add(
                \.duplicates,
                "connection \(client.index): value \(stamp.number) of writer \(stamp.stream) again")
        }
        context.statistics.delivered(at: now, number: stamp.number)
        context.statistics.record(series, since: stamp.time, at: now)
        context.noteProgress()
    }

    /// Counts the values that a listener has not received by the end.
    final func finish(_ client: Client, _ audit: inout StreamAudit, stream: Int, last: Int) {
        let count = audit.finish(last: last)
        guard count > 0 else { return }
        context.findings.add(
            \.missing, count,
            "connection \(client.index): the last \(count) values of writer \(stream) missing")
    }
}

/// The number of a value and the number of its writer (the stream), as one number of a stamp.
enum Stream {
    private static let factor = 1_000_000_000

    /// `stream` below 10⁷, `number` below 10⁹: what 16 digits hold.
    static func sequence(_ stream: Int, _ number: Int) -> Int { stream * factor + number }

    static func parts(_ sequence: Int) -> (stream: Int, number: Int) {
        (sequence / factor, sequence % factor)
    }
}

import PandoBytes
import PandoTree

/// Clients listen while the server is started again, during the run and not by this program. Each comes back
/// as an SDK does, and listens with the hash of what it has: an operation ends when it listens again. A value
/// that is delivered after that was sent once more for nothing.
final class RestartScenario: Scenario {
    /// As in the JavaScript SDK (`PersistentConnection`): the first attempt is made at once, and each later
    /// one after a random part of a delay that grows up to five minutes.
    private static let firstDelay = 1.0
    private static let delayFactor = 1.3
    private static let longestDelay = 300.0

    /// When a client that is away lost its connection, and the delay of its next attempt but one, in seconds.
    private var absences: [Int: (began: Int, delay: Double)] = [:]
    private var isReady: Set<Int> = []
    private var isSeeded = false
    private lazy var hash = {
        var value: [UInt8] = []
        Stamp.append(1, time: 0, byteCount: plan.size, to: &value)
        return Node.string(Text(String(decoding: value, as: UTF8.self))).hash
    }()

    private var path: String { "\(plan.root)/value" }

    override func seed(with control: Client) {
        // It comes back for the end of the run, too.
        guard !isSeeded else {
            absences[control.index] = nil
            return
        }
        control.set(path, place: 0, Pending(purpose: .setUp, detail: 1, intended: 0))
    }

    override func prepare(_ client: Client) {
        client.listen(path, Pending(purpose: .setUp, detail: 0, intended: 0))
    }

    override var survivesLosses: Bool { true }

    override func lost(_ client: Client) {
        let absence = absences[client.index]
        let delay = absence.map { $0.delay * Double.random(in: 0...1) } ?? 0
        let next = absence.map { min(Self.longestDelay, $0.delay * Self.delayFactor) } ?? Self.firstDelay
        absences[client.index] = (absence?.began ?? context.now, next)
        context.loop.schedule(after: .seconds(delay)) { [weak self, weak client] in
            guard let self, let client, !worker.isClosing else { return }
            client.connect()
        }
    }

    override func reconnected(_ client: Client) {
        client.listen(path, hash: hash, Pending(purpose: .setUp, detail: 0, intended: 0))
    }

    override func replied(_ client: Client, _ request: Pending, _ reply: Reply, _ text: RawSpan) {
        if client === worker.control {
            isSeeded = true
            return worker.seeded()
        }
        guard isReady.contains(client.index) else {
            isReady.insert(client.index)
            return worker.ready(client)
        }
        guard let absence = absences.removeValue(forKey: client.index) else { return }
        let now = context.now
        context.statistics.recordAlways(0, since: absence.began, at: now)
        context.statistics.operationDone(at: now)
        worker.drainedIfIdle()
    }

    override func pushed(_ client: Client, _ text: RawSpan) {
        guard stamp(client, text) != nil, isReady.contains(client.index) else { return }
        context.statistics.delivered(at: context.now)
    }

    override var isQuiet: Bool { absences.keys.allSatisfy { $0 < 0 } }

    override func finish(_ published: [Int: Int]) {
        for client in worker.clients where absences[client.index] != nil {
            context.findings.add(\.lostConnections, "connection \(client.index) has not come back")
        }
    }
}

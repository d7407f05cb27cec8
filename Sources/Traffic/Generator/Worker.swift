import PandoBytes
import PandoReactor
import PandoTime
import PandoWebSocket
import Synchronization

/// Messages to a worker, from the coordinator or another worker.
enum Command: Sendable {
    case seed
    case connect
    case start(at: Int)
    case stop
    case check
    case finish([Int: Int])
    case close
    case cleanUp
    case deliveredToAll(topic: Int, number: Int)
}

/// Messages of a worker to the coordinator.
enum Notice: Sendable {
    case done(Worker.Phase)
    case progress(Interval)
    /// The run cannot go on.
    case broken(String)
    /// All operations of a limited run that are this worker's have ended.
    case limitReached
}

/// A thread of the generator with its share of the connections.
///
///     connecting ─▶ ready ─▶ running ─▶ draining ─▶ checking ─▶ closing ─▶ over
///
/// `@unchecked Sendable`: everything mutable is touched on the loop's thread only, or before it runs and
/// after it was joined.
final class Worker: ClientDelegate, ScenarioDelegate, @unchecked Sendable {
    enum Phase: Int, Comparable, Sendable {
        case seeded, ready, running, drained, checked, finished, closed, cleaned

        static func < (left: Phase, right: Phase) -> Bool { left.rawValue < right.rawValue }
    }

    /// Attempts to connect at a time; a server's backlog takes as many.
    private static let connectingLimit = 64

    let context: WorkerContext
    let index: Int
    let plan: Plan
    let loop: EventLoop
    private(set) var clients: [Client] = []
    /// The mailboxes of all workers, by number; set before the loops run.
    var commands: [Mailbox<Command>] = []
    var notices: Mailbox<Notice>?
    /// Arrivals that were due and found no place by the end of the run.
    var unsentCount = 0
    /// The run's data could not be removed. Read after the loop is over.
    private(set) var leftDataBehind = false
    /// The scenario's ``Scenario/published`` when everything was checked; read by the coordinator after the
    /// notice.
    let published = Mutex<[Int: Int]>([:])

    private let parts: WorkerParts
    private var made: Scenario?
    private var begunCount = 0
    private var upCount = 0
    private var readyCount = 0
    /// The connection that seeds and cleans up.
    private(set) var control: Client?

    // The run's own, see `Worker+Run.swift` and `Worker+End.swift`.
    var senders: [Client] = []
    var arrivals: Arrivals?
    /// Operations begin when others end.
    var isClosedLoop = false
    /// Operations that may still begin in a closed loop.
    var operationsLeft = Int.max
    var sendTimer: PreciseTimer?
    var senderTurn = 0
    var checkedCount = 0
    var endedCount = 0
    var isRunning = false
    var isDraining = false
    var isClosing = false
    var startMoment = 0
    var endMoment = 0

    init(
        _ index: Int, _ plan: Plan, _ parts: WorkerParts, origin: UInt64, leaveTimes: LeaveTimes
    ) throws(SocketError) {
        self.index = index
        self.parts = parts
        self.plan = plan
        var configuration = EventLoop.Configuration()
        configuration.outboundByteLimit = 256 << 20
        loop = try EventLoop(configuration)
        context = WorkerContext(index, plan, on: loop, origin: origin, leaveTimes: leaveTimes)
        made = parts.makeScenario(context, self)
        sendTimer = try PreciseTimer(on: loop) { [unowned self] in timerFired() }
    }

    var scenario: Scenario {
        guard let made else { preconditionFailure("made in init") }
        return made
    }

    var publishedAtRest: [Int: Int] { published.withLock { $0 } }

    // MARK: Commands

    func handle(_ command: Command) {
        context.readClock()
        switch command {
        case .seed: startControl()
        case .connect: connectAll()
        case .start(let moment): start(at: moment)
        case .stop: stop()
        case .check: checkAll()
        case .finish(let published):
            scenario.finish(published)
            post(.done(.finished))
        case .close: closeAll()
        case .cleanUp: cleanUp()
        case .deliveredToAll(let topic, let number): scenario.deliveredToAll(topic: topic, number: number)
        }
    }

    func post(_ notice: Notice) { notices?.post(notice) }

    func deliveredToAll(topic: Int, number: Int, of worker: Int) {
        let command = Command.deliveredToAll(topic: topic, number: number)
        if worker == index { handle(command) } else { commands[worker].post(command) }
    }

    // MARK: Set-up

    private func makeClient(_ index: Int) -> Client {
        parts.makeClient(index, context, self, scenario)
    }

    /// The control connection has the number -1: it seeds and cleans up.
    private func startControl() {
        let made = makeClient(-1)
        control = made
        made.connect()
    }

    func seeded() { post(.done(.seeded)) }

    func cleaned(completely: Bool = true) {
        if !completely { leftDataBehind = true }
        post(.done(.cleaned))
    }

    private func connectAll() {
        clients = stride(from: index, to: plan.connectionCount, by: plan.threads).map {
            makeClient($0)
        }
        senders = clients.filter(\.isSender)
        if clients.isEmpty { post(.done(.ready)) }
        connectMore()
    }

    private func connectMore() {
        while begunCount < clients.count, begunCount - upCount < Self.connectingLimit {
            begunCount += 1
            clients[begunCount - 1].connect()
        }
    }

    func clientIsUp(_ client: Client) {
        context.readClock()
        context.noteProgress()
        if client === control { return scenario.seed(with: client) }
        guard client.upCount == 1 else { return scenario.reconnected(client) }
        upCount += 1
        scenario.prepare(client)
        connectMore()
    }

    func ready(_ client: Client) {
        readyCount += 1
        context.noteProgress()
        if readyCount == clients.count { post(.done(.ready)) }
    }

    func clientEnded(_ client: Client, problem: String?) {
        context.readClock()
        context.noteProgress()
        if problem != nil, scenario.survivesLosses, !isClosing, isPrepared(client) {
            while let lost = client.pending.popFirst() { requestLost(client, lost.request) }
            return scenario.lost(client)
        }
        if let problem {
            let words =
                client === control
                ? "the connection for set-up: \(problem)" : "connection \(client.index): \(problem)"
            context.findings.add(\.lostConnections, words)
            context.statistics.failed()
            if readyCount < clients.count || client === control { return post(.broken(words)) }
        }
        while let lost = client.pending.popFirst() { requestLost(client, lost.request) }
        if isClosing, client !== control {
            endedCount += 1
            if endedCount == clients.count { post(.done(.closed)) }
        } else if client !== control, problem == nil {
            scenario.left(client)
        }
    }

    /// The set-up does not wait for this connection any more.
    private func isPrepared(_ client: Client) -> Bool {
        client === control || !clients.isEmpty && readyCount == clients.count
    }

    /// Breaks the reference cycle of the worker, its clients and its scenario, after the loop has ended.
    func release() {
        (clients, senders, control, made, sendTimer) = ([], [], nil, nil, nil)
    }
}

import PandoBytes
import PandoReactor
import PandoTraffic
import Synchronization

/// What the coordinator tells a worker, and workers tell each other.
enum Command: Sendable {
    case seed
    case connect
    case start(at: Int)
    case stop
    case check
    case finish([Int: Int])
    case close
    case cleanUp
    case everybodyHas(topic: Int, number: Int)
}

/// What a worker tells the coordinator.
enum Notice: Sendable {
    case done(Worker.Phase)
    case progress(Interval)
    /// The run cannot go on.
    case broken(String)
}

/// One thread of the harness with its share of the connections.
///
///     connecting ─▶ ready ─▶ running ─▶ draining ─▶ checking ─▶ closing ─▶ over
///
/// `@unchecked Sendable`: everything mutable is touched on the loop's thread only, or before it runs and
/// after it was joined.
final class Worker: @unchecked Sendable {
    enum Phase: Int, Comparable, Sendable {
        case seeded, ready, running, drained, checked, finished, closed, cleaned

        static func < (left: Phase, right: Phase) -> Bool { left.rawValue < right.rawValue }
    }

    /// Attempts to connect at a time; a server's backlog takes as many.
    private static let connectingLimit = 64

    let index: Int
    let plan: Plan
    let loop: EventLoop
    let maskingKeys = MaskingKeys()
    var findings = Findings() {
        didSet { errors.store(findings.total, ordering: .relaxed) }
    }
    let tally: Tally
    private(set) var clients: [Client] = []
    /// Everybody's, by number; set before the loops run.
    var commands: [Mailbox<Command>] = []
    var notices: Mailbox<Notice>?
    /// The run's shared moments, as presence needs them.
    let board: Board
    /// Arrivals that were due and found no place by the end of the run.
    var unsentCount = 0
    /// The run's data could not be removed. Read after the loop is over.
    private(set) var leftDataBehind = false
    /// The moment of what is being handled: of the read whose messages these are, of the command, of the
    /// alarm. What one read has brought was there at that moment, however long we take to look at all of it;
    /// and one reading of the clock serves many messages.
    private(set) var moment = 0
    /// Counts whatever happens, so that standing still is seen; and errors. Any thread may read them.
    private let movement = Atomic<Int>(0)
    private let errors = Atomic<Int>(0)
    /// The scenario's ``Scenario/published`` when everything was checked; read by the coordinator after the
    /// notice.
    let published = Mutex<[Int: Int]>([:])

    private let origin: UInt64
    private var made: Scenario?
    private var begunCount = 0
    private var upCount = 0
    private var readyCount = 0
    /// The connection that seeds and cleans up.
    private(set) var control: Client?

    // The run's own, see `Worker+Run.swift` and `Worker+End.swift`.
    var senders: [Client] = []
    var arrivals: Arrivals?
    /// Operations begin when others end: nothing is due by itself.
    var isClosedLoop = false
    var alarm: PreciseTimer?
    var senderTurn = 0
    var checkedCount = 0
    var endedCount = 0
    var isRunning = false
    var isDraining = false
    var isClosing = false
    var startMoment = 0
    var endMoment = 0

    init(_ index: Int, _ plan: Plan, origin: UInt64, board: Board) throws(SocketError) {
        self.index = index
        self.plan = plan
        self.origin = origin
        self.board = board
        var configuration = EventLoop.Configuration()
        configuration.outboundByteLimit = 256 << 20
        loop = try EventLoop(configuration)
        tally = Tally(seriesCount: plan.work.series.count)
        made = Scenario.make(self)
        alarm = try PreciseTimer(on: loop) { [unowned self] in alarmRang() }
    }

    var scenario: Scenario {
        guard let made else { preconditionFailure("made in init") }
        return made
    }

    /// Looks at the clock: nanoseconds since the process began, as the moments of stamps and plans are.
    var now: Int { Int(truncatingIfNeeded: MonotonicTime.now.nanoseconds &- origin) }

    /// The same on the machine's clock.
    func machineTime(_ nanoseconds: Int) -> MonotonicTime {
        MonotonicTime(nanoseconds: origin &+ UInt64(max(0, nanoseconds)))
    }

    /// Something is about to be handled: looks at the clock for all of it. Called first wherever the loop
    /// calls us for what is measured.
    func readClock() { moment = now }

    /// Something happened.
    func touched() {
        // Only this thread writes.
        movement.store(movement.load(ordering: .relaxed) &+ 1, ordering: .relaxed)
    }

    var movementSeen: Int { movement.load(ordering: .relaxed) }

    var errorsSeen: Int { errors.load(ordering: .relaxed) }

    var publishedAtRest: [Int: Int] { published.withLock { $0 } }

    // MARK: Commands

    func handle(_ command: Command) {
        readClock()
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
        case .everybodyHas(let topic, let number): scenario.everybodyHas(topic: topic, number: number)
        }
    }

    func post(_ notice: Notice) { notices?.post(notice) }

    func tell(_ worker: Int, _ command: Command) {
        if worker == index { handle(command) } else { commands[worker].post(command) }
    }

    private func makeClient(_ index: Int, as speech: WireProtocol) -> Client {
        switch speech {
        case .realtime: RealtimeClient(index, of: self)
        case .rest: RESTClient(index, of: self)
        case .redis: RedisClient(index, of: self)
        case .echo: EchoClient(index, of: self)
        }
    }

    // MARK: Set-up

    /// The control connection has the number -1: it seeds and cleans up.
    private func startControl() {
        let made = makeClient(-1, as: plan.target.speech)
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
            makeClient($0, as: plan.target.speech)
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
        readClock()
        touched()
        if client === control { return scenario.seed(with: client) }
        guard client.upCount == 1 else { return scenario.reconnected(client) }
        upCount += 1
        scenario.prepare(client)
        connectMore()
    }

    func ready(_ client: Client) {
        readyCount += 1
        touched()
        if readyCount == clients.count { post(.done(.ready)) }
    }

    func clientEnded(_ client: Client, problem: String?) {
        readClock()
        touched()
        if let problem {
            let words =
                client === control
                ? "the connection for set-up: \(problem)" : "connection \(client.index): \(problem)"
            findings.add(\.lostConnections, words)
            tally.failed()
            if readyCount < clients.count || client === control { return post(.broken(words)) }
        }
        while let lost = client.pending.popFirst() { gaveUp(client, lost.request) }
        if isClosing, client !== control {
            endedCount += 1
            if endedCount == clients.count { post(.done(.closed)) }
        } else if client !== control, problem == nil {
            scenario.left(client)
        }
    }

    /// After the loop is over: the worker, its clients and its scenario hold each other.
    func letGo() {
        (clients, senders, control, made, alarm) = ([], [], nil, nil, nil)
    }
}

extension Client {
    /// Connected and prepared.
    var canSend: Bool { isUp && !isDown }
}

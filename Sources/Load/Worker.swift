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
/// `@unchecked Sendable`: everything mutable is touched on the loop's thread only, or before it runs and after it
/// was joined.
final class Worker: @unchecked Sendable {
    enum Phase: Int, Comparable, Sendable {
        case seeded, ready, running, drained, checked, finished, closed, cleaned

        static func < (left: Phase, right: Phase) -> Bool { left.rawValue < right.rawValue }
    }

    /// Attempts to connect at a time; a server's backlog takes as many.
    private static let connectingLimit = 64
    /// Alarms are not set closer than this: at high rates several operations leave together.
    private static let shortestPause: Duration = .microseconds(50)
    private static let intervalLength = 1_000_000_000

    let index: Int
    let plan: Plan
    let loop: EventLoop
    let maskingKeys = MaskingKeys()
    var findings = Findings() {
        didSet { errors.store(findings.total, ordering: .relaxed) }
    }
    var tally: Tally
    private(set) var clients: [Client] = []
    /// Everybody's, by number; set before the loops run.
    var commands: [Mailbox<Command>] = []
    var notices: Mailbox<Notice>?
    /// The run's shared moments, as presence needs them.
    let board: Board
    /// Arrivals that were due and found no place by the end of the run.
    private(set) var unsentCount = 0
    /// The run's data could not be removed. Read after the loop is over.
    private(set) var leftDataBehind = false
    /// Counts whatever happens, so that standing still is seen; and errors. Any thread may read them.
    private let movement = Atomic<Int>(0)
    private let errors = Atomic<Int>(0)
    /// The scenario's ``Scenario/published`` when everything was checked; read by the coordinator after the notice.
    private let published = Mutex<[Int: Int]>([:])

    private let origin: UInt64
    private var made: Scenario?
    private var senders: [Client] = []
    private var control: Client?
    private var arrivals: Arrivals?
    private var alarm: Alarm?
    private var begunCount = 0
    private var upCount = 0
    private var readyCount = 0
    private var checkedCount = 0
    private var endedCount = 0
    private var senderTurn = 0
    private(set) var isRunning = false
    private var isDraining = false
    private var isClosing = false
    private var startMoment = 0
    private var endMoment = 0

    init(_ index: Int, _ plan: Plan, origin: UInt64, board: Board) throws(SocketError) {
        self.index = index
        self.plan = plan
        self.origin = origin
        self.board = board
        var configuration = EventLoop.Configuration()
        configuration.outboundByteLimit = 256 << 20
        loop = try EventLoop(configuration)
        tally = Tally(seriesCount: plan.work.series.count, window: 0..<0)
        made = Scenario.make(self)
        alarm = try Alarm(on: loop) { [unowned self] in sendDue() }
    }

    var scenario: Scenario {
        guard let made else { preconditionFailure("made in init") }
        return made
    }

    /// Nanoseconds since the process began: the moments of stamps and plans.
    var now: Int { Int(truncatingIfNeeded: MonotonicTime.now.nanoseconds &- origin) }

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

    private func makeClient(_ index: Int, as speech: Speech) -> Client {
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
        touched()
        if let problem {
            let words = client === control ? "the connection for set-up: \(problem)" : "connection \(client.index): \(problem)"
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

    // MARK: The run

    private func start(at moment: Int) {
        startMoment = moment
        let measured = moment + plan.warmUp
        endMoment = measured + plan.duration
        tally = Tally(seriesCount: plan.work.series.count, window: measured..<endMoment)
        isRunning = true
        scenario.begin()
        turnIntervals(second: 0)
        guard !senders.isEmpty else { return }
        if let pattern = plan.pattern {
            let share: (index: Int, count: Int)
            let own: Arrivals.Pattern
            switch pattern {
            // Everybody at once: each worker has its own senders.
            case .bursts(_, let every): (own, share) = (.bursts(of: senders.count, everyNanoseconds: every), (0, 1))
            case .even, .poisson: (own, share) = (pattern, senderShare)
            }
            arrivals = Arrivals(own, start: moment, share: share, seed: plan.seed)
            sendDue()
        } else {
            for client in senders { fill(client) }
        }
    }

    /// Which of the workers that have senders this one is.
    private var senderShare: (index: Int, count: Int) {
        let having = (0..<plan.threads).filter { worker in
            stride(from: worker, to: plan.connectionCount, by: plan.threads).contains { plan.isSender($0) }
        }
        return (having.firstIndex(of: index) ?? 0, max(1, having.count))
    }

    /// Open loop: sends what is due, and sets the alarm for the next.
    private func sendDue() {
        guard isRunning else { return }
        let now = now
        while let due = arrivals?.take(dueAt: min(now, endMoment - 1)) {
            let client = senders[senderTurn]
            senderTurn = (senderTurn + 1) % senders.count
            if client.inFlight < plan.inFlight, client.backlog.isEmpty {
                send(client, intended: due)
            } else {
                client.backlog.append(due)
            }
        }
        guard let next = arrivals?.next, next < endMoment else { return }
        alarm?.set(at: max(moment(next), .now + Self.shortestPause))
    }

    private func moment(_ nanoseconds: Int) -> MonotonicTime {
        MonotonicTime(nanoseconds: origin &+ UInt64(max(0, nanoseconds)))
    }

    /// Closed loop: as much as may be under way.
    private func fill(_ client: Client) {
        while client.inFlight < plan.inFlight { send(client, intended: now) }
    }

    private func send(_ client: Client, intended: Int) {
        guard client.canSend else {
            findings.add(\.unanswered, "connection \(client.index): lost, so an operation was not sent")
            return tally.failed()
        }
        client.inFlight += 1
        tally.sent(intended: intended, at: now)
        scenario.send(client, intended: intended)
    }

    /// The operation is over, with its latency in `series`: the next one may begin.
    func completed(_ client: Client, series: Int?, intended: Int) {
        let now = now
        if let series { tally.record(series, since: intended, at: now) }
        tally.operationDone(at: now)
        operationEnded(client)
    }

    /// A transaction tries again.
    func retried() {
        tally.retried()
        touched()
    }

    /// An operation failed; it was counted already.
    func operationFailed(_ client: Client) {
        tally.failed()
        operationEnded(client)
    }

    private func operationEnded(_ client: Client) {
        client.inFlight -= 1
        touched()
        guard isRunning else { return drainedIfIdle() }
        if arrivals == nil {
            if client.canSend { send(client, intended: now) }
        } else if let waiting = client.backlog.popFirst() {
            send(client, intended: waiting)
        }
    }

    func answered(_ client: Client, _ request: Pending, _ answer: Answer, _ text: RawSpan) {
        touched()
        switch request.purpose {
        case .check:
            if case .refused(let status) = answer { refused(client, status) }
            scenario.checked(client, text)
            checked(client)
        case .cleanUp:
            guard case .refused(let status) = answer else { return cleaned() }
            refused(client, status)
            cleaned(completely: false)
        case .operation, .otherOperation:
            if case .refused(let status) = answer {
                refused(client, status)
                return operationFailed(client)
            }
            scenario.answered(client, request, answer, text)
        case .setUp:
            if case .refused(let status) = answer {
                refused(client, status)
                return post(.broken("set-up was refused: \(status)"))
            }
            scenario.answered(client, request, answer, text)
        }
    }

    private func refused(_ client: Client, _ status: String) {
        findings.add(\.refused, "connection \(client.index): refused: \(status)")
    }

    /// The answer to this request will not come.
    func gaveUp(_ client: Client, _ request: Pending) {
        switch request.purpose {
        case .operation, .otherOperation:
            // Counted already when the check began.
            guard client.inFlight > 0 else { return }
            findings.add(\.unanswered, "connection \(client.index): an operation was never answered")
            operationFailed(client)
        case .check: checked(client)
        case .cleanUp: cleaned(completely: false)
        case .setUp: break
        }
    }

    private func turnIntervals(second: Int) {
        loop.schedule(at: moment(startMoment + (second + 1) * Self.intervalLength)) { [unowned self] in
            guard isRunning else { return }
            post(.progress(tally.turn(to: second + 1)))
            turnIntervals(second: second + 1)
        }
    }

    // MARK: The end

    private func stop() {
        guard isRunning else { return }
        isRunning = false
        isDraining = true
        let end = min(now, endMoment)
        for client in senders {
            // They were due and have waited until now: at least that long.
            while let waiting = client.backlog.popFirst() {
                unsentCount += 1
                tally.record(0, since: waiting, at: end)
            }
        }
        drainedIfIdle()
    }

    /// Tells the coordinator when nothing is under way any more.
    func drainedIfIdle() {
        guard isDraining, scenario.isQuiet, senders.allSatisfy({ $0.inFlight == 0 }) else { return }
        isDraining = false
        post(.done(.drained))
    }

    private func checkAll() {
        isDraining = false
        for client in clients {
            for _ in 0..<client.inFlight { findings.add(\.unanswered, "connection \(client.index): no end of an operation") }
            client.inFlight = 0
        }
        guard !clients.isEmpty else { return everythingIsChecked() }
        for client in clients {
            if client.canSend { scenario.check(client) } else { checked(client) }
        }
    }

    func checked(_ client: Client) {
        checkedCount += 1
        touched()
        if checkedCount == clients.count { everythingIsChecked() }
    }

    private func everythingIsChecked() {
        let counts = scenario.published
        published.withLock { $0 = counts }
        post(.done(.checked))
    }

    private func closeAll() {
        post(.progress(tally.turn(to: 0)))
        isClosing = true
        endedCount = clients.count(where: \.isDown)
        guard endedCount < clients.count else { return post(.done(.closed)) }
        for client in clients where !client.isDown { client.close() }
    }

    private func cleanUp() {
        guard let control, !control.isDown else { return cleaned(completely: false) }
        scenario.cleanUp(with: control)
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

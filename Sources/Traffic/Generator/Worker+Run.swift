import PandoBytes
import PandoReactor
import PandoTime

/// The run: operations are due or follow each other, and their responses arrive.
extension Worker {
    /// The timer is not set closer than this: at high rates several operations leave together.
    private static let shortestPause: Duration = .microseconds(50)
    private static let intervalLength = 1_000_000_000

    func start(at moment: Int) {
        startMoment = context.moment
        let measured = context.moment + plan.warmUp
        endMoment = measured + plan.duration
        context.statistics.begin(window: measured..<endMoment)
        isRunning = true
        scenario.begin()
        turnIntervals(second: 0)
        operationsLeft = plan.operationLimit.map { operationShare(of: $0) } ?? .max
        guard !senders.isEmpty else { return reportLimitIfIdle() }
        if let pattern = plan.pattern {
            let share: (index: Int, count: Int)
            let own: Arrivals.Pattern
            switch pattern {
            // All senders at once: each worker has its own.
            case .bursts(_, let every):
                (own, share) = (.bursts(of: senders.count, everyNanoseconds: every), (0, 1))
            case .even, .poisson: (own, share) = (pattern, senderShare)
            }
            arrivals = Arrivals(own, start: context.moment, share: share, seed: plan.seed)
            sendDue()
        } else {
            isClosedLoop = true
            for client in senders { fill(client) }
            if operationsLeft == 0 { reportLimitIfIdle() }
        }
    }

    /// This worker's part of the operations of a run.
    private func operationShare(of count: Int) -> Int {
        let share = senderShare
        guard !senders.isEmpty else { return 0 }
        return count / share.count + (share.index < count % share.count ? 1 : 0)
    }

    /// Reports that this worker has no more operations of a run that is limited to a number of them.
    private func reportLimitIfIdle() {
        guard plan.operationLimit != nil, senders.allSatisfy({ $0.inFlight == 0 }) else { return }
        post(.limitReached)
    }

    /// Which of the workers that have senders this one is.
    private var senderShare: (index: Int, count: Int) {
        let having = (0..<plan.threads).filter { worker in
            stride(from: worker, to: plan.connectionCount, by: plan.threads).contains { plan.isSender($0) }
        }
        return (having.firstIndex(of: index) ?? 0, max(1, having.count))
    }

    func timerFired() {
        context.readClock()
        sendDue()
    }

    /// Open loop: sends what is due, and sets the timer for the next.
    private func sendDue() {
        guard isRunning else { return }
        while let due = arrivals?.take(dueAt: min(context.moment, endMoment - 1)) {
            let client = senders[senderTurn]
            senderTurn = (senderTurn + 1) % senders.count
            if client.inFlight < plan.inFlight, client.backlog.isEmpty {
                send(client, intended: due)
            } else {
                client.backlog.append(due)
            }
        }
        guard let next = arrivals?.next, next < endMoment else { return }
        sendTimer?.set(at: max(context.machineTime(next), .now + Self.shortestPause))
    }

    /// Closed loop: as much as may be under way.
    private func fill(_ client: Client) {
        // The number is computed once: a connection that is lost takes none.
        for _ in client.inFlight..<max(client.inFlight, plan.inFlight) { sendNext(client) }
    }

    /// Closed loop: the next operation, unless the run has had all of them.
    private func sendNext(_ client: Client) {
        guard operationsLeft > 0 else { return }
        operationsLeft -= 1
        send(client, intended: context.moment)
    }

    private func send(_ client: Client, intended: Int) {
        guard client.canSend else {
            context.findings.add(
                \.unanswered, "connection \(client.index): lost, so an operation was not sent")
            return context.statistics.failed()
        }
        client.inFlight += 1
        // In a closed loop an operation is meant for the moment of the read that allowed it: nothing is due,
        // and the time the generator takes until it sends counts as the server's.
        if !isClosedLoop { context.statistics.sent(intended: intended, at: context.now) }
        scenario.send(client, intended: intended)
    }

    /// Counts an operation that has ended, with its latency in `series`, and begins the next one.
    func completed(_ client: Client, series: Int?, intended: Int, number: Int = 0) {
        if let series { context.statistics.record(series, since: intended, at: context.moment) }
        context.statistics.operationDone(at: context.moment, number: number)
        operationEnded(client)
    }

    /// A transaction tries again.
    func retried() {
        context.statistics.retried()
        context.noteProgress()
    }

    /// An operation failed; it was counted already.
    func operationFailed(_ client: Client) {
        context.statistics.failed()
        operationEnded(client)
    }

    private func operationEnded(_ client: Client) {
        client.inFlight -= 1
        context.noteProgress()
        guard isRunning else { return drainedIfIdle() }
        if isClosedLoop {
            if client.canSend { sendNext(client) }
            if operationsLeft == 0 { reportLimitIfIdle() }
        } else if let waiting = client.backlog.popFirst() {
            send(client, intended: waiting)
        }
    }

    func replied(_ client: Client, _ request: Pending, _ reply: Reply, _ text: RawSpan) {
        context.noteProgress()
        switch request.purpose {
        case .check:
            if case .refused(let status) = reply { refused(client, status) }
            scenario.checked(client, text)
            checked(client)
        case .cleanUp:
            guard case .refused(let status) = reply else { return cleaned() }
            refused(client, status)
            cleaned(completely: false)
        case .operation, .otherOperation:
            if case .refused(let status) = reply {
                refused(client, status)
                return operationFailed(client)
            }
            scenario.replied(client, request, reply, text)
        case .setUp:
            if case .refused(let status) = reply {
                refused(client, status)
                return post(.broken("set-up was refused: \(status)"))
            }
            scenario.replied(client, request, reply, text)
        }
    }

    private func refused(_ client: Client, _ status: String) {
        context.findings.add(\.refused, "connection \(client.index): refused: \(status)")
    }

    /// The response to this request will not come.
    func requestLost(_ client: Client, _ request: Pending) {
        switch request.purpose {
        case .operation, .otherOperation:
            // Counted already when the check began.
            guard client.inFlight > 0 else { return }
            context.findings.add(\.unanswered, "connection \(client.index): an operation was never answered")
            operationFailed(client)
        case .check: checked(client)
        case .cleanUp: cleaned(completely: false)
        case .setUp: break
        }
    }

    private func turnIntervals(second: Int) {
        loop.schedule(at: context.machineTime(startMoment + (second + 1) * Self.intervalLength)) {
            [unowned self] in
            guard isRunning else { return }
            post(.progress(context.statistics.turn(to: second + 1)))
            turnIntervals(second: second + 1)
        }
    }
}

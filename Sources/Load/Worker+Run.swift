import PandoBytes
import PandoReactor

/// The run: operations fall due or follow each other, and their answers come.
extension Worker {
    /// Alarms are not set closer than this: at high rates several operations leave together.
    private static let shortestPause: Duration = .microseconds(50)
    private static let intervalLength = 1_000_000_000

    func start(at moment: Int) {
        startMoment = moment
        let measured = moment + plan.warmUp
        endMoment = measured + plan.duration
        tally.begin(window: measured..<endMoment)
        isRunning = true
        scenario.begin()
        turnIntervals(second: 0)
        guard !senders.isEmpty else { return }
        if let pattern = plan.pattern {
            let share: (index: Int, count: Int)
            let own: Arrivals.Pattern
            switch pattern {
            // Everybody at once: each worker has its own senders.
            case .bursts(_, let every):
                (own, share) = (.bursts(of: senders.count, everyNanoseconds: every), (0, 1))
            case .even, .poisson: (own, share) = (pattern, senderShare)
            }
            arrivals = Arrivals(own, start: moment, share: share, seed: plan.seed)
            sendDue()
        } else {
            isClosedLoop = true
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

    func alarmRang() {
        readClock()
        sendDue()
    }

    /// Open loop: sends what is due, and sets the alarm for the next.
    private func sendDue() {
        guard isRunning else { return }
        while let due = arrivals?.take(dueAt: min(moment, endMoment - 1)) {
            let client = senders[senderTurn]
            senderTurn = (senderTurn + 1) % senders.count
            if client.inFlight < plan.inFlight, client.backlog.isEmpty {
                send(client, intended: due)
            } else {
                client.backlog.append(due)
            }
        }
        guard let next = arrivals?.next, next < endMoment else { return }
        alarm?.set(at: max(machineTime(next), .now + Self.shortestPause))
    }

    /// Closed loop: as much as may be under way.
    private func fill(_ client: Client) {
        // Not until so many are under way: a connection that is lost takes none.
        for _ in client.inFlight..<max(client.inFlight, plan.inFlight) { send(client, intended: moment) }
    }

    private func send(_ client: Client, intended: Int) {
        guard client.canSend else {
            findings.add(\.unanswered, "connection \(client.index): lost, so an operation was not sent")
            return tally.failed()
        }
        client.inFlight += 1
        // In a closed loop an operation is meant for the moment at which the read before it brought room:
        // nothing is due, and what the harness takes until it is sent counts against the server.
        if !isClosedLoop { tally.sent(intended: intended, at: now) }
        client.scenario.send(client, intended: intended)
    }

    /// The operation is over, with its latency in `series`: the next one may begin.
    func completed(_ client: Client, series: Int?, intended: Int) {
        if let series { tally.record(series, since: intended, at: moment) }
        tally.operationDone(at: moment)
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
        if isClosedLoop {
            if client.canSend { send(client, intended: moment) }
        } else if let waiting = client.backlog.popFirst() {
            send(client, intended: waiting)
        }
    }

    func answered(_ client: Client, _ request: Pending, _ answer: Answer, _ text: RawSpan) {
        touched()
        switch request.purpose {
        case .check:
            if case .refused(let status) = answer { refused(client, status) }
            client.scenario.checked(client, text)
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
            client.scenario.answered(client, request, answer, text)
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
        loop.schedule(at: machineTime(startMoment + (second + 1) * Self.intervalLength)) { [unowned self] in
            guard isRunning else { return }
            post(.progress(tally.turn(to: second + 1)))
            turnIntervals(second: second + 1)
        }
    }
}

import PandoDatabase
import PandoEngine
import PandoTime

// The polls of a session: which wait, when each is answered, and whether the client has received what it was
// answered.

extension LongPollingSession {
    /// Polls that may wait while what the client has sent does. Clients have two in progress.
    private static let pollLimit = 4
    /// Connections whose responses may not have arrived.
    private static let carrierLimit = 16
    /// Linux, and others, may be that late to acknowledge what was received (TCP_DELACK_MIN).
    private static let acknowledgementDelay: Duration = .milliseconds(50)

    // MARK: Polls

    mutating func hold(serial: UInt64?, on connection: SessionID, _ context: inout ConnectionContext) {
        let poll = HeldPolls.Poll(
            serial: serial, connection: connection, came: context.now,
            deadline: context.now + context.settings.pollHoldTime)
        if let lost = polls.append(poll) {
            context.append(.polling(.releasePoll(on: lost)))
            context.append(.polling(.reset(lost)))
        }
        context.append(.polling(.holdPoll(on: connection)))
        context.append(.polling(.pollWaits))
    }

    mutating func answerLater(_ context: inout ConnectionContext) {
        guard !isAnswerDue, !polls.isEmpty else { return }
        isAnswerDue = true
        context.append(.polling(.answerAtEndOfTick))
    }

    /// At the end of the tick: answers what is to be answered.
    package mutating func respondToPolls(_ context: inout ConnectionContext) {
        isAnswerDue = false
        // An older poll is answered when another comes, so that the client can send; it is not to send while
        // what it has sent waits.
        while let first = polls.first,
            answers.isUrgent || isFinished || polls.count > (isHolding ? Self.pollLimit : 1)
        {
            answer(first, &context)
        }
        schedule(&context)
    }

    /// Nothing more will come, and the client must be given the end.
    private var isFinished: Bool { phase == .finishing || phase == .former }

    mutating func answer(_ poll: HeldPolls.Poll, _ context: inout ConnectionContext) {
        let prefix = poll.serial == nil ? exchange(&startScript, with: []) : []
        let connections = polls.remove(poll)
        // The end names the last response that there is.
        let answer = answers.answer(
            serial: poll.serial, asked: poll.came, prefix: prefix, closes: isFinished && polls.isEmpty)
        for connection in connections {
            context.append(.polling(.releasePoll(on: connection)))
            send(answer, on: connection, &context)
        }
        noteNoPoll(&context)
    }

    mutating func send(
        _ answer: PollResponse, on connection: SessionID, _ context: inout ConnectionContext
    ) {
        if !carriers.contains(connection) {
            if carriers.count >= Self.carrierLimit {
                context.append(.polling(.loseDeliveries(on: carriers.removeFirst())))
            }
            carriers.append(connection)
        }
        context.append(.polling(.answer(answer, on: connection)))
    }

    /// A response could not be written: its connection is gone.
    package mutating func lost(_ answer: PollResponse, on connection: SessionID) {
        carriers.removeAll { $0 == connection }
        answers.note(answer.numbers, .lost)
    }

    mutating func noteNoPoll(_ context: inout ConnectionContext) {
        guard polls.isEmpty, phase != .over else { return }
        pollEnded = context.now
        context.append(.polling(.noPollWaits))
    }

    /// The connection of a poll broke before the response.
    package mutating func pollIsLost(on connection: SessionID, _ context: inout ConnectionContext) {
        guard polls.remove(on: connection) else { return }
        context.append(.polling(.releasePoll(on: connection)))
        noteNoPoll(&context)
        schedule(&context)
    }

    mutating func closePolls(_ context: inout ConnectionContext) {
        for connection in polls.removeAll() {
            context.append(.polling(.releasePoll(on: connection)))
            context.append(.polling(.respondClosed(on: connection)))
        }
    }

    // MARK: Deliveries

    /// What is known now of responses that a connection was given.
    /// - Parameter isLast: No others of this session are in doubt there.
    package mutating func note(
        _ numbers: [Int], on connection: SessionID, _ delivery: PollDelivery, isLast: Bool,
        _ context: inout ConnectionContext
    ) {
        if delivery != .acknowledged, isLast { carriers.removeAll { $0 == connection } }
        answers.note(numbers, delivery)
        noteDrained(&context)
        answerLater(&context)
        schedule(&context)
    }

    /// Whether the client has received nearly all that it was sent. Where it has not, its system may only be
    /// late to say so, and what the session says meanwhile is held back.
    mutating func noteDrained(_ context: inout ConnectionContext) {
        guard phase == .open else { return }
        guard answers.byteCount > context.settings.outboundLowWaterByteCount else {
            catchUpIfDrained(&context)
            return outputDrained(&context)
        }
        guard nextLook == nil, !polls.isEmpty, !carriers.isEmpty else { return }
        nextLook = context.now + Self.acknowledgementDelay
    }
}

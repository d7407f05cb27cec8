import PandoDatabase
import PandoEngine
import PandoTime

/// The polls of a session: which wait, when each is answered, and whether the client has received each
/// response. It appends the actions for polls; ``LongPollingSession`` decides when the session ends.
struct SessionPolls {
    /// Polls that may wait while what the client has sent does. Clients have two in progress.
    private static let pollLimit = 4
    /// Connections whose responses may not have arrived.
    private static let unconfirmedConnectionLimit = 16
    /// Linux, and others, may be that late to acknowledge what was received (TCP_DELACK_MIN).
    private static let acknowledgementDelay: Duration = .milliseconds(50)

    /// What polls are answered.
    var responses = PollResponses()
    private var held = HeldPolls()
    /// Connections with responses of which it is not known whether they were received.
    private(set) var unconfirmedConnections: [SessionID] = []
    /// What the first response begins with.
    private var startScript: [UInt8]
    /// When the last poll was answered.
    private(set) var lastEnd: MonotonicTime
    private var isAnswerDue = false
    /// When deliveries are checked again.
    private var nextDeliveryCheck: MonotonicTime?

    init(startScript: [UInt8], at now: MonotonicTime) {
        self.startScript = startScript
        lastEnd = now
    }

    /// No poll waits.
    var isEmpty: Bool { held.isEmpty }

    /// When the next poll must be answered, or deliveries be checked.
    var deadline: MonotonicTime? { [held.deadline, nextDeliveryCheck].compactMap { $0 }.min() }

    // MARK: Polls

    /// A poll has come: it waits, or is sent at once what it was answered before.
    /// - Parameter bringsData: It has segments.
    mutating func receive(
        _ serial: UInt64, bringsData: Bool, on connection: SessionID, _ context: inout ConnectionContext
    ) {
        if !held.contains(serial),
            let repeated = responses.receivedPoll(serial, bringsData: bringsData, at: context.now)
        {
            send(repeated, on: connection, &context)
            noteNoPollWaits(&context)
        } else {
            hold(serial: serial, on: connection, &context)
        }
    }

    /// - Parameter serial: nil for the request that starts the session.
    mutating func hold(serial: UInt64?, on connection: SessionID, _ context: inout ConnectionContext) {
        let poll = HeldPolls.Poll(
            serial: serial, connection: connection, came: context.now,
            deadline: context.now + context.settings.pollHoldTime)
        if let lost = held.append(poll) {
            context.append(.polling(.releasePoll(on: lost)))
            context.append(.polling(.reset(lost)))
        }
        context.append(.polling(.holdPoll(on: connection)))
        context.append(.polling(.pollWaits))
    }

    mutating func answerLater(_ context: inout ConnectionContext) {
        guard !isAnswerDue, !held.isEmpty else { return }
        isAnswerDue = true
        context.append(.polling(.answerAtEndOfTick))
    }

    /// At the end of the tick: answers what is to be answered.
    /// - Parameters:
    ///   - isHolding: What the client has sent waits: it is not to send more.
    ///   - ends: Nothing more will come, and the client must be given the end.
    mutating func respond(isHolding: Bool, ends: Bool, _ context: inout ConnectionContext) {
        isAnswerDue = false
        // An older poll is answered when another comes, so that the client can send.
        while let first = held.first,
            responses.isUrgent || ends || held.count > (isHolding ? Self.pollLimit : 1)
        {
            answer(first, ends: ends, &context)
        }
    }

    /// Answers the polls whose hold time is over; the response is empty unless messages are pending.
    mutating func answerOverdue(ends: Bool, _ context: inout ConnectionContext) {
        while let poll = held.overdue(at: context.now) { answer(poll, ends: ends, &context) }
    }

    /// Answers the poll that waits on a connection, though there may be nothing to say.
    mutating func hurry(on connection: SessionID, ends: Bool, _ context: inout ConnectionContext) {
        if let poll = held.poll(on: connection) { answer(poll, ends: ends, &context) }
    }

    private mutating func answer(
        _ poll: HeldPolls.Poll, ends: Bool, _ context: inout ConnectionContext
    ) {
        let prefix = poll.serial == nil ? exchange(&startScript, with: []) : []
        let connections = held.remove(poll)
        // The end names the last response that there is.
        let answer = responses.answer(
            serial: poll.serial, asked: poll.came, prefix: prefix, closes: ends && held.isEmpty)
        for connection in connections {
            context.append(.polling(.releasePoll(on: connection)))
            send(answer, on: connection, &context)
        }
        noteNoPollWaits(&context)
    }

    private mutating func send(
        _ answer: PollResponse, on connection: SessionID, _ context: inout ConnectionContext
    ) {
        // A late copy is sent nothing.
        if !answer.numbers.isEmpty, !unconfirmedConnections.contains(connection) {
            if unconfirmedConnections.count >= Self.unconfirmedConnectionLimit {
                context.append(.polling(.loseDeliveries(on: unconfirmedConnections.removeFirst())))
            }
            unconfirmedConnections.append(connection)
        }
        context.append(.polling(.answer(answer, on: connection)))
    }

    /// Notes since when no poll waits, where none does.
    mutating func noteNoPollWaits(_ context: inout ConnectionContext) {
        guard held.isEmpty else { return }
        lastEnd = context.now
        context.append(.polling(.noPollWaits))
    }

    /// The connection of a poll broke before the response.
    mutating func connectionLost(_ connection: SessionID, _ context: inout ConnectionContext) {
        guard held.remove(on: connection) else { return }
        context.append(.polling(.releasePoll(on: connection)))
        noteNoPollWaits(&context)
    }

    /// Nothing of the session goes to its client any more.
    mutating func close(_ context: inout ConnectionContext) {
        for connection in held.removeAll() {
            context.append(.polling(.releasePoll(on: connection)))
            context.append(.polling(.respondClosed(on: connection)))
        }
        unconfirmedConnections = []
        responses = PollResponses()
    }

    // MARK: Deliveries

    /// A response could not be written: its connection is gone.
    mutating func lost(_ answer: PollResponse, on connection: SessionID) {
        unconfirmedConnections.removeAll { $0 == connection }
        responses.note(answer.sent, .lost)
    }

    /// What is known now of responses that a connection was given.
    /// - Parameter isLast: No others of this session are in doubt there.
    mutating func note(
        _ sent: SentResponses, on connection: SessionID, _ delivery: PollDelivery, isLast: Bool
    ) {
        if delivery != .acknowledged, isLast { unconfirmedConnections.removeAll { $0 == connection } }
        responses.note(sent, delivery)
    }

    /// The client has much that it may not have received: its system may only be late to say so.
    mutating func scheduleDeliveryCheck(at now: MonotonicTime) {
        guard nextDeliveryCheck == nil, !held.isEmpty, !unconfirmedConnections.isEmpty else { return }
        nextDeliveryCheck = now + Self.acknowledgementDelay
    }

    /// - Returns: Whether deliveries are to be checked now.
    mutating func isDeliveryCheckDue(at now: MonotonicTime) -> Bool {
        guard let check = nextDeliveryCheck, check <= now else { return false }
        nextDeliveryCheck = nil
        return true
    }

    mutating func cancelDeliveryCheck() { nextDeliveryCheck = nil }
}

import PandoDatabase
import PandoEngine
import PandoTime

/// The polls of a session: which wait, when each is answered, and whether the client has received what it was
/// answered. It decides and appends the actions; when the session is over is the session's own matter.
struct SessionPolls {
    /// Polls that may wait while what the client has sent does. Clients have two in progress.
    private static let pollLimit = 4
    /// Connections whose responses may not have arrived.
    private static let carrierLimit = 16
    /// Linux, and others, may be that late to acknowledge what was received (TCP_DELACK_MIN).
    private static let acknowledgementDelay: Duration = .milliseconds(50)

    /// What polls are answered.
    var responses = PollResponses()
    private var held = HeldPolls()
    /// Connections with responses of which it is not known whether they were received.
    private(set) var carriers: [SessionID] = []
    /// What the first response begins with.
    private var startScript: [UInt8]
    /// When the last poll was answered.
    private(set) var lastEnd: MonotonicTime
    private var isAnswerDue = false
    /// When deliveries are looked at again.
    private var nextLook: MonotonicTime?

    init(startScript: [UInt8], at now: MonotonicTime) {
        self.startScript = startScript
        lastEnd = now
    }

    /// No poll waits.
    var isEmpty: Bool { held.isEmpty }

    /// When the next poll must be answered, or deliveries be looked at.
    var deadline: MonotonicTime? { [held.deadline, nextLook].compactMap { $0 }.min() }

    // MARK: Polls

    /// A poll has come: it waits, or is sent at once what it was answered before.
    mutating func receive(_ serial: UInt64, on connection: SessionID, _ context: inout ConnectionContext) {
        if let repeated = responses.receivedPoll(serial, at: context.now) {
            send(repeated, on: connection, &context)
            noteNone(&context)
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

    /// Answers the polls that have waited as long as one may, with nothing.
    mutating func answerOverdue(ends: Bool, _ context: inout ConnectionContext) {
        while let poll = held.overdue(at: context.now) { answer(poll, ends: ends, &context) }
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
        noteNone(&context)
    }

    private mutating func send(
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

    /// Notes since when no poll waits, where none does.
    mutating func noteNone(_ context: inout ConnectionContext) {
        guard held.isEmpty else { return }
        lastEnd = context.now
        context.append(.polling(.noPollWaits))
    }

    /// The connection of a poll broke before the response.
    mutating func isLost(on connection: SessionID, _ context: inout ConnectionContext) {
        guard held.remove(on: connection) else { return }
        context.append(.polling(.releasePoll(on: connection)))
        noteNone(&context)
    }

    /// Nothing of the session goes to its client any more.
    mutating func close(_ context: inout ConnectionContext) {
        for connection in held.removeAll() {
            context.append(.polling(.releasePoll(on: connection)))
            context.append(.polling(.respondClosed(on: connection)))
        }
        carriers = []
        responses = PollResponses()
    }

    // MARK: Deliveries

    /// A response could not be written: its connection is gone.
    mutating func lost(_ answer: PollResponse, on connection: SessionID) {
        carriers.removeAll { $0 == connection }
        responses.note(answer.numbers, .lost)
    }

    /// What is known now of responses that a connection was given.
    /// - Parameter isLast: No others of this session are in doubt there.
    mutating func note(_ numbers: [Int], on connection: SessionID, _ delivery: PollDelivery, isLast: Bool) {
        if delivery != .acknowledged, isLast { carriers.removeAll { $0 == connection } }
        responses.note(numbers, delivery)
    }

    /// The client has much that it may not have received: its system may only be late to say so.
    mutating func lookLater(at now: MonotonicTime) {
        guard nextLook == nil, !held.isEmpty, !carriers.isEmpty else { return }
        nextLook = now + Self.acknowledgementDelay
    }

    /// - Returns: Whether deliveries are to be looked at now.
    mutating func lookIsDue(at now: MonotonicTime) -> Bool {
        guard let look = nextLook, look <= now else { return false }
        nextLook = nil
        return true
    }

    mutating func stopLooking() { nextLook = nil }
}

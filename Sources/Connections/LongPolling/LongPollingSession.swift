import PandoBytes
import PandoDatabase
import PandoEngine
import PandoHTTP
import PandoIdentity
import PandoTime
import PandoWire

/// What carries a session by long polling (realtime §1.5): segments in, messages out in the responses to
/// polls. Every connection that brings one of its requests is moved to its loop.
///
///     open ──────── end(.finished) ───────▶ finishing ──┐ all messages answered, or no poll in time
///       │ `n` both ways, WebSocket joined               │
///       ├──────────────────────────────▶ former ────────┤ (the session goes on, over the WebSocket)
///       └── disconnect, failure, no poll in time ───────┴─▶ over
package struct LongPollingSession: RealtimeTransport {
    enum Phase {
        case open
        /// The session is over; its last messages go out, and behind them the end.
        case finishing
        /// A WebSocket has the session; what went before it goes out, and behind it the end of polling.
        case former
        case over
    }

    /// Responses that a client may leave without a sign that it has received them.
    private static let unconfirmedLimit = 256

    package internal(set) var session: RealtimeSession
    var outputs = OutputSequence()
    package internal(set) var pauses: PauseReasons = []
    var isLagging = false
    /// By which clients know the session.
    package let publicID: PublicSessionID
    /// As it was asked for when the session began.
    package let namespace: String?
    private let password: [UInt8]
    var phase = Phase.open
    var input: SegmentInput
    /// The client's page was left: what it had sent is handed on, and then the session is over.
    var isLeaving = false
    private var frames = FrameUnwrapper()
    var answers = PollResponses()
    var polls = HeldPolls()
    /// Connections with responses of which it is not known whether they were received.
    package internal(set) var carriers: [SessionID] = []
    /// What the first response begins with.
    var startScript: [UInt8]
    /// When the last poll was answered.
    var pollEnded: MonotonicTime
    var isAnswerDue = false
    /// When deliveries are looked at again.
    var nextLook: MonotonicTime?
    /// When what is ``Phase/finishing`` or ``Phase/former`` is over.
    var endDeadline: MonotonicTime?
    private var announcedDeadline: MonotonicTime?
    var handover = HandoverOffer()
    /// The databases have not had the message of the session's end.
    private var hasSession = true

    /// - Parameters:
    ///   - start: The request that starts it.
    ///   - connection: What brought the request, and gets the first response.
    ///   - password: ``LongPollingRequest/passwordCount`` letters and digits, which only its client will
    ///     know.
    package init(
        _ id: SessionID, _ start: LongPollingRequest.Start, on connection: SessionID,
        publicID: PublicSessionID, namespace: String?, password: [UInt8],
        _ context: inout ConnectionContext
    ) {
        self.publicID = publicID
        self.namespace = namespace
        self.password = password
        input = SegmentInput(messageByteLimit: context.settings.messageByteLimit)
        pollEnded = context.now
        var script: [UInt8] = []
        script.append(startScript: start.callback, id: id.rawValue, password: password)
        startScript = script
        session = RealtimeSession(id)
        hold(serial: nil, on: connection, &context)
        schedule(&context)
    }

    /// Takes the same time wherever the passwords differ.
    package func isPassword(_ other: [UInt8]) -> Bool { LongPollingPassword.areEqual(password, other) }

    /// Whether messages are sent and received.
    package var isOpen: Bool { phase == .open }

    /// Whether the client has a large share of all requests that wait.
    package var hasManyRequests: Bool { session.hasManyRequests }

    /// Whether many requests of the client, or large ones, are not answered yet.
    package var awaitsAnswers: Bool { session.awaitsAnswers }

    /// Bytes of memory that outputs take which wait for polls, or behind others. The rest is in
    /// ``SharedBytes``, which count themselves.
    package var waitingByteCount: Int { outputs.waitingByteCount + answers.pendingByteCount }

    /// Bytes of messages that are not complete, or not read.
    package var unfinishedByteCount: Int { input.unfinishedByteCount }

    /// Bytes of memory that this client takes.
    package var heldByteCount: Int {
        unfinishedByteCount + outputs.heldByteCount + answers.heldByteCount
    }

    // MARK: From the client

    /// A poll has come, perhaps with segments. What the client's system has acknowledged on ``carriers`` is
    /// to be noted first.
    package mutating func receive(
        _ poll: LongPollingRequest.Poll, _ query: QueryString, on connection: SessionID,
        _ context: inout ConnectionContext
    ) {
        defer { schedule(&context) }
        let new: [LongPollingRequest.Segment]
        do throws(LongPollingRequest.Malformed) {
            new = try LongPollingRequest.segments(query)
        } catch {
            return context.append(.polling(.refuse(error, on: connection)))
        }
        guard phase != .over, !isLeaving else {
            return context.append(.polling(.respondClosed(on: connection)))
        }
        if let repeated = answers.receivedPoll(poll.serial, at: context.now) {
            send(repeated, on: connection, &context)
            noteNoPoll(&context)
        } else {
            hold(serial: poll.serial, on: connection, &context)
        }
        if answers.unconfirmedCount > Self.unconfirmedLimit { return cut(&context) }
        noteDrained(&context)
        // Behind its `n` the client sends nothing: what comes is of a request that was sent again.
        if phase == .open, !handover.hasUpstreamEnded, !new.isEmpty { accept(new, &context) }
        answerLater(&context)
    }

    private mutating func accept(
        _ new: [LongPollingRequest.Segment], _ context: inout ConnectionContext
    ) {
        do throws(SegmentReassembler.Violation) {
            try input.accept(new)
        } catch {
            if error == .messageTooBig { context.append(.countLimit(.messageBytes)) }
            return cut(&context)
        }
        read(&context)
        if input.isOverLimit { return cut(&context) }
        countUnfinished()
    }

    /// Nothing more is read for now.
    var isHolding: Bool { input.isYielding || !pauses.isEmpty || session.isFull }

    private mutating func read(_ context: inout ConnectionContext) {
        guard !input.isReading else { return }
        input.beginReading()
        while phase == .open, !handover.hasUpstreamEnded, !isHolding, input.hasMessages {
            if input.mustYield() {
                context.append(.nextTurn)
                break
            }
            if let message = input.removeFirst() { finish(session.receive(message, &context), &context) }
        }
        input.endReading()
        if handover.hasUpstreamEnded { input.dropMessages() }
    }

    private mutating func finish(_ outcome: RealtimeSession.Outcome, _ context: inout ConnectionContext) {
        switch outcome {
        case .nothing: break
        case .ping: sendPong(&context)
        // `a` means nothing here.
        case .upgrade: break
        case .endOfTransmission:
            handover.upstreamEnded()
            input.dropSegments()
            moveIfAgreed(&context)
        case .malformed: cut(&context)
        // ``schedule(_:)`` asks for the time.
        case .delayed: break
        }
    }

    mutating func inputMayContinue(_ context: inout ConnectionContext) {
        read(&context)
        countUnfinished()
        cutIfLeft(&context)
        answerLater(&context)
    }

    mutating func readingResumed(_ context: inout ConnectionContext) { inputMayContinue(&context) }

    mutating func outputDrained(_ context: inout ConnectionContext) {
        if session.isPongOwed { sendPong(&context) }
        inputMayContinue(&context)
    }

    private mutating func countUnfinished() {
        // What is over, or has moved, holds nothing any more.
        guard phase == .open else { return }
        input.countUnfinished(inSession: session.heldByteCount)
    }

    /// Messages of the client wait, or are being parsed.
    var hasInput: Bool { input.hasMessages || session.heldByteCount > 0 }

    private mutating func cutIfLeft(_ context: inout ConnectionContext) {
        if isLeaving, !input.isReading, !hasInput { cut(&context) }
    }

    // MARK: Outputs

    func unsentByteCount(_ context: inout ConnectionContext) -> Int { answers.byteCount }

    mutating func write(_ frames: [UInt8], _ context: inout ConnectionContext) {
        write(frames.rawSpan, &context)
    }

    mutating func write(_ frames: SharedBytes, _ context: inout ConnectionContext) {
        write(frames.rawSpan, &context)
    }

    mutating func write(_ bytes: RawSpan, _ context: inout ConnectionContext) {
        guard !isLeaving else { return }
        frames.unwrap(bytes, into: &answers)
        outputChanged(&context)
    }

    private mutating func outputChanged(_ context: inout ConnectionContext) {
        if answers.byteCount > context.settings.outboundByteLimit { return cut(&context) }
        answerLater(&context)
    }

    /// The next piece follows when others have had their turn.
    mutating func pieceWasWritten(_ context: inout ConnectionContext) { context.append(.nextTurn) }

    func mayWriteNextPiece(_ context: inout ConnectionContext) -> Bool { false }

    mutating func outputsWereWritten(_ context: inout ConnectionContext) { moveIfAgreed(&context) }

    /// A message goes out in one response, and is kept until that was received.
    func canSend(_ message: LargeMessage, _ context: inout ConnectionContext) -> Bool {
        message.byteCount(from: 0) <= context.settings.outboundByteLimit / 2
    }

    mutating func refuse(_ message: LargeMessage, _ context: inout ConnectionContext) {
        answers.append(message.refusal.rawSpan)
        answers.endMessage()
        outputChanged(&context)
        if message.requestNumber == nil { end(.finished, &context) }
    }

    // MARK: Time

    /// Announces the next deadline. At the end of every event.
    mutating func schedule(_ context: inout ConnectionContext) {
        let delayEnd = phase == .open ? session.delayEnd : nil
        let deadlines = [polls.deadline, nextLook, endDeadline, delayEnd].compactMap { $0 }
        let next = phase == .over ? nil : deadlines.min()
        guard next != announcedDeadline else { return }
        announcedDeadline = next
        context.append(.wake(at: next))
    }

    /// The time of ``ConnectionAction/wake(at:)`` has come. What the client's system has acknowledged on
    /// ``carriers`` is to be noted first.
    package mutating func deadlinePassed(_ context: inout ConnectionContext) {
        announcedDeadline = nil
        // A poll has waited as long as one may: it is answered, with nothing.
        while let poll = polls.overdue(at: context.now) { answer(poll, &context) }
        if let look = nextLook, look <= context.now {
            nextLook = nil
            noteDrained(&context)
        }
        if let end = endDeadline, end <= context.now {
            endDeadline = nil
            cut(&context)
        }
        if let end = session.delayEnd, end <= context.now { finishDelay(&context) }
        schedule(&context)
    }

    /// Other connections have had their turn.
    package mutating func nextTurn(_ context: inout ConnectionContext) {
        sendPiece(&context)
        if input.turnCame() { inputMayContinue(&context) }
        schedule(&context)
    }

    /// Now and then: a client that has not polled for long is gone (realtime §1.5.3), and so is one whose
    /// message comes too slowly.
    package mutating func tick(_ context: inout ConnectionContext) {
        let isSilent = polls.isEmpty && context.now - pollEnded > context.settings.pollGap
        // While its polls are not answered it cannot send.
        let mayExpect = phase == .open && !isHolding
        if isSilent || input.isTooSlow(mayExpect: mayExpect, &context) { cut(&context) }
        schedule(&context)
    }

    /// Posts the end of the session to the databases, once.
    mutating func endSession(_ context: inout ConnectionContext) {
        guard hasSession else { return }
        hasSession = false
        context.post(.closed(session.id))
    }

    /// The session is a WebSocket's from now on.
    mutating func giveSession() -> RealtimeSession {
        hasSession = false
        let given = session
        session.leave()
        return given
    }
}

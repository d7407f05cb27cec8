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
    var outputs = OutputSequence(form: .script)
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
    var polls: SessionPolls
    /// When what is ``Phase/finishing`` or ``Phase/former`` is over.
    var endDeadline: MonotonicTime?
    private var announcedDeadline: MonotonicTime?
    var handover = HandoverOffer()
    private(set) var maySendToDatabases = true

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
        var script: [UInt8] = []
        script.append(startScript: start.callback, id: id.rawValue, password: password)
        polls = SessionPolls(startScript: script, at: context.now)
        session = RealtimeSession(id)
        polls.hold(serial: nil, on: connection, &context)
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
    package var waitingByteCount: Int { outputs.waitingByteCount + polls.responses.pendingByteCount }

    /// Bytes of messages that are not complete, or not read.
    package var unfinishedByteCount: Int { input.unfinishedByteCount }

    /// Bytes of memory that this client takes.
    package var heldByteCount: Int {
        unfinishedByteCount + outputs.heldByteCount + polls.responses.heldByteCount
    }

    // MARK: From the client

    /// A poll has come, perhaps with segments. What the client's system has acknowledged on
    /// ``unconfirmedConnections`` is to be noted first.
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
        polls.receive(poll.serial, bringsData: !new.isEmpty, on: connection, &context)
        if polls.responses.sentCount > Self.unconfirmedLimit { return cut(&context) }
        noteDrained(&context)
        // Behind its `n` the client sends nothing: what comes is of a request that was sent again.
        if phase == .open, !handover.hasUpstreamEnded, !new.isEmpty { accept(new, &context) }
        polls.answerLater(&context)
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
        polls.answerLater(&context)
    }

    mutating func inputMayContinueInTurn(_ context: inout ConnectionContext) {
        guard input.hasMessages, !input.isReading, !isHolding else { return inputMayContinue(&context) }
        input.yield()
        context.append(.nextTurn)
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

    // MARK: Polls

    /// Connections with responses of which it is not known whether they were received.
    package var unconfirmedConnections: [SessionID] { polls.unconfirmedConnections }

    /// Nothing more will come, and the client must be given the end.
    private var isFinished: Bool { phase == .finishing || phase == .former }

    /// At the end of the tick: answers what is to be answered.
    package mutating func respondToPolls(_ context: inout ConnectionContext) {
        polls.respond(isHolding: isHolding, ends: isFinished, &context)
        schedule(&context)
    }

    /// A response could not be written: its connection is gone.
    package mutating func lost(_ answer: PollResponse, on connection: SessionID) {
        polls.lost(answer, on: connection)
    }

    /// The connection of a poll broke before the response.
    package mutating func pollIsLost(on connection: SessionID, _ context: inout ConnectionContext) {
        polls.connectionLost(connection, &context)
        schedule(&context)
    }

    /// Something was sent behind the poll that waits on a connection. While what the client has sent waits,
    /// it is not to send more.
    package mutating func hurryPoll(on connection: SessionID, _ context: inout ConnectionContext) {
        guard !isHolding else { return }
        polls.hurry(on: connection, ends: isFinished, &context)
        schedule(&context)
    }

    /// What is known now of responses that a connection was given.
    /// - Parameter isLast: No others of this session are in doubt there.
    package mutating func note(
        _ sent: SentResponses, on connection: SessionID, _ delivery: PollDelivery, isLast: Bool,
        _ context: inout ConnectionContext
    ) {
        polls.note(sent, on: connection, delivery, isLast: isLast)
        noteDrained(&context)
        polls.answerLater(&context)
        schedule(&context)
    }

    /// Whether the client has received nearly all that it was sent. Where it has not, its system may only be
    /// late to say so, and what the session says meanwhile is held back.
    mutating func noteDrained(_ context: inout ConnectionContext) {
        guard phase == .open else { return }
        guard polls.responses.byteCount > context.settings.outboundLowWaterByteCount else {
            catchUpIfDrained(&context)
            return outputDrained(&context)
        }
        polls.scheduleDeliveryCheck(at: context.now)
    }

    // MARK: Outputs

    func unsentByteCount(_ context: inout ConnectionContext) -> Int { polls.responses.byteCount }

    mutating func write(_ frames: [UInt8], _ context: inout ConnectionContext) {
        write(frames.rawSpan, &context)
    }

    mutating func write(_ shared: SharedBytes, _ context: inout ConnectionContext) {
        guard !isLeaving else { return }
        polls.responses.append(script: shared, endsMessage: true, isShared: true)
        outputChanged(&context)
    }

    mutating func write(_ piece: OutputSequence.Piece, _ context: inout ConnectionContext) {
        guard !isLeaving else { return }
        polls.responses.append(
            script: piece.bytes, endsMessage: piece.endsMessage, isShared: piece.isShared)
        outputChanged(&context)
    }

    mutating func write(_ bytes: RawSpan, _ context: inout ConnectionContext) {
        guard !isLeaving else { return }
        frames.unwrap(bytes, into: &polls.responses)
        outputChanged(&context)
    }

    private mutating func outputChanged(_ context: inout ConnectionContext) {
        if polls.responses.byteCount > context.settings.outboundByteLimit { return cut(&context) }
        polls.answerLater(&context)
    }

    mutating func pieceWasWritten(_ context: inout ConnectionContext) {}

    /// A piece is not copied.
    func mayWriteNextPiece(_ context: inout ConnectionContext) -> Bool { true }

    mutating func outputsWereWritten(_ context: inout ConnectionContext) { moveIfAgreed(&context) }

    /// A message goes out in one response, and is kept until that was received.
    func canSend(_ message: LargeMessage, _ context: inout ConnectionContext) -> Bool {
        message.byteCount(from: 0, for: .script) <= context.settings.outboundByteLimit / 2
    }

    mutating func refuse(_ message: LargeMessage, _ context: inout ConnectionContext) {
        polls.responses.append(message.refusal.rawSpan)
        polls.responses.endMessage()
        outputChanged(&context)
        if message.requestNumber == nil { end(.finished, &context) }
    }

    // MARK: Time

    /// Announces the next deadline. At the end of every event.
    mutating func schedule(_ context: inout ConnectionContext) {
        let delayEnd = phase == .open ? session.delayEnd : nil
        let deadlines = [polls.deadline, endDeadline, delayEnd].compactMap { $0 }
        let next = phase == .over ? nil : deadlines.min()
        guard next != announcedDeadline else { return }
        announcedDeadline = next
        context.append(.wake(at: next))
    }

    /// The time of ``ConnectionAction/wake(at:)`` has come. What the client's system has acknowledged on
    /// ``unconfirmedConnections`` is to be noted first.
    package mutating func deadlinePassed(_ context: inout ConnectionContext) {
        announcedDeadline = nil
        polls.answerOverdue(ends: isFinished, &context)
        if polls.isDeliveryCheckDue(at: context.now) { noteDrained(&context) }
        if let end = endDeadline, end <= context.now {
            endDeadline = nil
            cut(&context)
        }
        if let end = session.delayEnd, end <= context.now { finishDelay(&context) }
        schedule(&context)
    }

    /// Other connections have had their turn.
    package mutating func nextTurn(_ context: inout ConnectionContext) {
        if input.turnCame() { inputMayContinue(&context) }
        schedule(&context)
    }

    /// Now and then: a client that has not polled for long is gone (realtime §1.5.3), and so is one whose
    /// message comes too slowly.
    package mutating func tick(_ context: inout ConnectionContext) {
        let isSilent = polls.isEmpty && context.now - polls.lastEnd > context.settings.pollGap
        // While its polls are not answered it cannot send.
        let mayExpect = phase == .open && !isHolding
        if isSilent || input.isTooSlow(mayExpect: mayExpect, &context) { cut(&context) }
        schedule(&context)
    }

    /// Posts the end of the session to the databases, once.
    mutating func endSession(_ context: inout ConnectionContext) {
        guard maySendToDatabases else { return }
        maySendToDatabases = false
        context.post(.closed(session.id))
    }

    /// The session is a WebSocket's from now on.
    mutating func giveSession() -> RealtimeSession {
        maySendToDatabases = false
        let given = session
        session.moveToOtherTransport()
        return given
    }
}

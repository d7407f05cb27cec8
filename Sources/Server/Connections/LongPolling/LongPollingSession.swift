import PandoBytes
import PandoDatabase
import PandoEngine
import PandoIdentity
import PandoReactor
import PandoWire

/// What carries a session by long polling (realtime §1.5): segments in, messages out in the answers to
/// polls. Confined to its loop, to which every connection that brings one of its requests is moved
/// (``SessionDirectory``).
///
///     open ──────── end(.finished) ───────▶ finishing ──┐ all messages answered, or no poll in time
///       │ `n` both ways, WebSocket joined               │
///       ├──────────────────────────────▶ former ────────┤ (the session goes on, over the WebSocket)
///       └── disconnect, failure, no poll in time ───────┴─▶ over
final class LongPollingSession: ClientSession {
    enum Phase {
        case open
        /// The session is over; its last messages go out, and behind them the end.
        case finishing
        /// A WebSocket has the session; what went before it goes out, and behind it the end of polling.
        case former
        case over
    }

    /// A poll that waits to be answered.
    struct HeldPoll {
        /// Nil for the request that started the session.
        let serial: UInt64?
        let connection: HTTPConnection
        let came: MonotonicTime
        var timer: TimerToken?
    }

    /// Bytes of messages that may wait for requests before them to be answered, beside one message: a client
    /// stops when its polls are not answered, so only what it had sent by then waits.
    private static let waitingMessageByteLimit = 1 << 20
    /// As many of them, and what each takes beside its bytes. What two requests bring is far less.
    private static let waitingMessageLimit = 1024
    private static let messageOverhead = 64
    /// Messages that are looked at before others have their turn.
    private static let turnMessageCount = 64
    /// Responses that a client may leave without a sign that it has received them.
    private static let unconfirmedLimit = 256

    let session: RealtimeSession
    let publicID: PublicSessionID
    /// As it was asked for when the session began.
    let namespace: String?
    private let password: [UInt8]
    private let startAddress: SocketAddress?
    var phase = Phase.open
    private var segments: SegmentReassembler
    /// The client's messages that wait, from ``messageHead`` on.
    private var messages: [[UInt8]] = []
    private var messageHead = 0
    private var messageByteCount = 0
    private var isReading = false
    /// The messages that wait go on when others have had their turn.
    private var continuesLater = false
    /// Of segments, all that came, and how fast the message that is not complete does; nil while none is
    /// under way.
    private var receivedByteCount = 0
    private var inputPace: MinimumRateMonitor?
    /// The client's page was left: what it had sent is handed on, and then the session is over.
    private(set) var isLeaving = false
    private var frames = FrameUnwrapper()
    var answers = PollAnswers()
    /// Oldest first.
    var polls: [HeldPoll] = []
    /// Connections with responses of which it is not known whether they were received.
    var carriers: [HTTPConnection] = []
    /// What the first response begins with.
    var startScript: [UInt8]
    /// When the last poll was answered.
    var pollEnded: MonotonicTime
    var isAnswerDue = false
    /// A timer looks at deliveries.
    var isLookingAgain = false
    /// ``PollAnswers/pendingByteCount`` as the loop has counted it.
    private var countedByteCount = 0
    /// The WebSocket that the client tries.
    var candidate: WebSocketSession?
    /// The client has said `n`.
    var hasUpstreamEnded = false

    /// - Parameters:
    ///   - start: The request that starts it.
    ///   - connection: What brought the request, and gets the first response.
    init(
        _ id: SessionID, _ start: LongPollingRequest.Start, on connection: HTTPConnection,
        publicID: PublicSessionID,
        namespace: String?, of owner: IOLoop
    ) {
        self.publicID = publicID
        self.namespace = namespace
        password = LongPollingPassword.make()
        startAddress = connection.channel.peerAddress
        segments = SegmentReassembler(messageByteLimit: owner.configuration.messageByteLimit)
        pollEnded = owner.loop.now
        var script: [UInt8] = []
        script.append(startScript: start.callback, id: id.rawValue, password: password)
        startScript = script
        session = RealtimeSession(id, of: owner)
        super.init(id, of: owner)
        session.transport = self
        hold(HeldPoll(serial: nil, connection: connection, came: owner.loop.now))
    }

    func isPassword(_ other: [UInt8]) -> Bool { LongPollingPassword.areEqual(password, other) }

    override var isOpen: Bool { phase == .open }

    override var peerAddress: SocketAddress? { startAddress }

    // MARK: From the client

    /// A poll has come, perhaps with segments.
    func receive(
        _ poll: LongPollingRequest.Poll, _ segments: [LongPollingRequest.Segment],
        on connection: HTTPConnection
    ) {
        guard phase != .over, !isLeaving else { return connection.answerClosed() }
        lastHeard = owner.loop.now
        settleDeliveries()
        if let repeated = answers.receivedPoll(poll.serial, at: owner.loop.now) {
            send(repeated, on: connection)
            noteDisconnected()
        } else {
            hold(HeldPoll(serial: poll.serial, connection: connection, came: owner.loop.now))
        }
        if answers.unconfirmedCount > Self.unconfirmedLimit { return cut() }
        noteDrained()
        // Behind its `n` the client sends nothing: what comes is of a request that was sent again.
        if phase == .open, !hasUpstreamEnded, !segments.isEmpty { take(segments) }
        answerLater()
    }

    private func take(_ new: [LongPollingRequest.Segment]) {
        do throws(SegmentReassembler.Violation) {
            var complete: [[UInt8]] = []
            for segment in new {
                receivedByteCount += segment.text.count
                try segments.accept(segment, into: &complete)
            }
            for message in complete {
                messageByteCount += message.count + Self.messageOverhead
                messages.append(message)
            }
        } catch {
            return fail(error == .messageTooBig ? .messageTooBig : .malformedMessage)
        }
        read()
        let waitingCount = messages.count - messageHead
        if messageByteCount > Self.waitingMessageByteLimit && waitingCount > 1
            || waitingCount > Self.waitingMessageLimit
        {
            return fail(.messageTooBig)
        }
        countUnfinished()
    }

    /// Nothing more is looked at for now.
    var isHolding: Bool { continuesLater || isReadingPaused || session.isHolding }

    private func read() {
        guard !isReading else { return }
        isReading = true
        var count = 0
        while phase == .open, !hasUpstreamEnded, !isHolding, messageHead < messages.count {
            guard count < Self.turnMessageCount else {
                continuesLater = true
                owner.nextTick(for: id)
                break
            }
            count += 1
            var message: [UInt8] = []
            swap(&message, &messages[messageHead])
            messageHead += 1
            messageByteCount -= message.count + Self.messageOverhead
            session.receive(message, over: self)
        }
        isReading = false
        if messageHead == messages.count || hasUpstreamEnded {
            dropMessages()
        } else if messageHead > Self.keptMessageCount, messageHead * 2 > messages.count {
            messages.removeFirst(messageHead)
            messageHead = 0
        }
    }

    /// Messages at the front that were handed on: those behind them do not move for each.
    private static let keptMessageCount = 64

    private func dropMessages() {
        messages = []
        messageHead = 0
        messageByteCount = 0
    }

    /// What is not read will not be.
    func dropInput() {
        segments = SegmentReassembler(messageByteLimit: owner.configuration.messageByteLimit)
        inputPace = nil
        dropMessages()
        owner.keepUnfinished(0, for: self)
    }

    override func inputMayGoOn() {
        read()
        countUnfinished()
        cutIfLeft()
        answerLater()
    }

    override func pauseReading() {}

    override func resumeReading() { inputMayGoOn() }

    override func outputDrained() {
        session.outputDrained()
        inputMayGoOn()
    }

    private func countUnfinished() {
        // What is over, or has moved, holds nothing any more.
        guard phase == .open else { return }
        owner.keepUnfinished(segments.byteCount + messageByteCount + session.parsingByteCount, for: self)
    }

    // MARK: Outputs

    override func write(_ bytes: RawSpan) {
        guard !isLeaving else { return }
        frames.unwrap(bytes, into: &answers)
        outputChanged()
    }

    override func write(_ bytes: SharedBytes) {
        write(bytes.rawSpan)
    }

    private func outputChanged() {
        countOutput()
        if unsentByteCount > owner.loop.configuration.outboundByteLimit { return cut() }
        answerLater()
    }

    override var unsentByteCount: Int { answers.byteCount }

    /// The rest is in ``SharedBytes``, which count themselves.
    func countOutput() {
        owner.waitingByteCount += answers.pendingByteCount - countedByteCount
        countedByteCount = answers.pendingByteCount
    }

    override var heldByteCount: Int { super.heldByteCount + answers.heldByteCount }

    /// The next piece follows when others have had their turn.
    override func pieceWasWritten() { owner.nextTick(for: id) }

    override func nextTick() {
        sendPieces()
        guard continuesLater else { return }
        continuesLater = false
        inputMayGoOn()
    }

    /// A message goes out in one response, and is kept until that was received.
    override func canTake(_ message: LargeMessage) -> Bool {
        message.byteCount(from: 0) <= owner.loop.configuration.outboundByteLimit / 2
    }

    override func sendMessage(_ message: RawSpan) {
        var frames: [UInt8] = []
        guard frames.append(framesOf: message) else { return cut() }
        send(frames.rawSpan)
    }

    override func refuse(_ message: LargeMessage) {
        let text = RealtimeSession.refusal(of: message)
        answers.append(text.rawSpan)
        answers.endMessage()
        outputChanged()
        if message.requestNumber == nil { end(.finished) }
    }

    // MARK: For the session

    override var holdsManyRequests: Bool { session.holdsManyRequests }

    override func windowMarkReturned() { session.windowMarkReturned() }

    override func finish(_ parsed: ParsedMessage) { session.finish(parsed) }

    override func finish(_ verdict: VerificationResult) { session.finish(verdict) }

    override func recheck(_ revocations: RevocationState) { session.recheck(revocations) }

    override func outputsWereWritten() { moveIfAgreed() }

    override func receive(_ control: TransportControl) {
        // `a` means nothing here.
        guard case .endOfTransmission = control else { return }
        hasUpstreamEnded = true
        segments = SegmentReassembler(messageByteLimit: owner.configuration.messageByteLimit)
        moveIfAgreed()
    }

    // MARK: The end

    /// The client's page was left.
    func disconnect() {
        // The page also says so when polling ends because a WebSocket has taken over.
        if phase == .former { return leaveFormer() }
        guard phase == .open, !hasUpstreamEnded, !isLeaving, hasInput else { return cut() }
        // What it has sent is done. Its answers go nowhere, and so hold nothing back.
        isLeaving = true
        candidate?.refuseMove()
        candidate = nil
        closePolls()
        answers = PollAnswers()
        carriers = []
        countOutput()
        segments = SegmentReassembler(messageByteLimit: owner.configuration.messageByteLimit)
        // No poll comes any more: ``checkIdle(at:)`` bounds how long it takes.
        noteDisconnected()
        noteDrained()
        inputMayGoOn()
    }

    /// Messages of the client wait, or are being read.
    private var hasInput: Bool { messageHead < messages.count || session.parsingByteCount > 0 }

    private func cutIfLeft() {
        if isLeaving, !isReading, !hasInput { cut() }
    }

    /// Where the server has said its last, that is delivered first; a client that is replaced, or whose
    /// server ends, gets the end at once.
    override func end(_ reason: DisconnectReason) {
        guard reason == .finished, phase == .open, !isLeaving else { return cut() }
        phase = .finishing
        endSession()
        dropInput()
        noteDisconnected()
        // However long the client goes on to ask.
        owner.loop.schedule(after: owner.configuration.pollGap) { [weak self] in self?.cut() }
        answerLater()
    }

    override func fail(_ failure: SessionFailure) { cut() }

    /// The process ends.
    override func endIfIdle() {
        if phase == .finishing { cut() }
    }

    /// Ends the session at once.
    override func cut() {
        guard phase != .over else { return }
        guard phase != .former else { return leaveFormer() }
        endSession()
        becomeOver()
        owner.removeLater(self)
    }

    private func endSession() {
        owner.endSession(self)
        session.close()
        candidate?.refuseMove()
        candidate = nil
    }

    func becomeOver() {
        phase = .over
        closePolls()
        carriers = []
        answers = PollAnswers()
        countOutput()
        dropInput()
        owner.connectedPolling(self)
        dropOutputs()
    }

    private func closePolls() {
        var closed: [HeldPoll] = []
        swap(&closed, &polls)
        for poll in closed {
            release(poll)
            poll.connection.answerClosed()
        }
    }

    /// A client that has not polled for long is gone (§1.5.3).
    override func checkIdle(at now: MonotonicTime) {
        let isSilent = polls.isEmpty && now - pollEnded > owner.configuration.pollGap
        if isSilent || isInputTooSlow(at: now) { cut() }
    }

    /// Whether a message that is not complete comes too slowly, or not at all: it is held for it.
    private func isInputTooSlow(at now: MonotonicTime) -> Bool {
        // While its polls are not answered it cannot send.
        let isExpected = phase == .open && !isHolding && segments.byteCount > 0
        return isInputTooSlow(receivedByteCount, whileExpected: isExpected, &inputPace, at: now)
    }
}

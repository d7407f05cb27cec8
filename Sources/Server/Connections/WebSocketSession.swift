import PandoBytes
import PandoDatabase
import PandoEngine
import PandoIdentity
import PandoReactor
import PandoWebSocket
import PandoWire

/// What carries a session over a WebSocket: frames in, messages out, and the reverse. Confined to its loop.
///
/// Bytes that may not be looked at yet (``RealtimeSession/isHolding``) wait as they came, and the socket is
/// not read.
final class WebSocketSession: ChannelSession {
    let session: RealtimeSession
    private var reader: MessageReader
    private var reassembler: Reassembler
    private var closing = CloseHandshake(role: .server)
    /// What came and is not looked at yet, from ``heldOffset`` on.
    private var held: [UInt8] = []
    private var heldOffset = 0
    /// The frames of a read are being looked at.
    private var isReading = false
    /// Bytes that came while a message was not complete, and how fast they come; nil while none is under way.
    private var receivedByteCount = 0
    private var inputPace: MinimumRateMonitor?
    private var liveness: Liveness
    /// What the last ping said that is not answered yet, because the client does not take what it is sent.
    private var owedPong: Box<[UInt8]>?
    /// The long-polling session that is to move here, or has moved; nil for most.
    var handover: Handover?

    /// - Parameter joining: The long-polling session that the client wants to move here; nil for a session of
    ///   its own.
    init(_ id: SessionID, on channel: Channel, joining: LongPollingSession? = nil, of owner: IOLoop) {
        let messageByteLimit = owner.configuration.messageByteLimit
        // Text is checked when a message is whole: C++ clients cut inside characters.
        reader = MessageReader(role: .server, messageByteLimit: messageByteLimit, checksText: false)
        reassembler = Reassembler(
            chunkLimit: owner.configuration.chunkCountLimit, messageByteLimit: messageByteLimit)
        liveness = Liveness(at: owner.loop.now)
        if let joining {
            handover = Handover(from: joining)
            session = joining.session
            super.init(id, on: channel, of: owner)
            // The database knows the session by another id.
            hasEnded = true
        } else {
            let session = RealtimeSession(id, of: owner)
            self.session = session
            super.init(id, on: channel, of: owner)
            session.transport = self
        }
        channel.readByteLimit = Self.readByteLimit
    }

    /// Bytes of one read: as many small requests as a ``RequestWindow`` takes, about. What is not read stays
    /// in the socket.
    private static let readByteLimit = 16 << 10

    override var isOpen: Bool { closing.isOpen }

    // MARK: From the socket

    override func received(_ bytes: inout MutableRawSpan, on channel: Channel) {
        received(&bytes, from: 0, on: channel)
    }

    /// Reads what a read event brought, from `offset` on.
    func received(_ bytes: inout MutableRawSpan, from offset: Int, on channel: Channel) {
        lastHeard = owner.loop.now
        receivedByteCount += bytes.byteCount
        liveness.heard(at: owner.loop.now)
        var offset = offset
        if !isHolding { read(&bytes, from: &offset) }
        if isHolding { hold(bytes.bytes.extracting(offset..<bytes.byteCount)) }
        countUnfinished()
    }

    /// Nothing more is looked at for now, or ever.
    private var isHolding: Bool {
        if let handover, handover.phase != .done { return handover.phase == .acknowledged }
        return isUnread || session.isHolding
    }

    private func hold(_ bytes: RawSpan) {
        guard closing.isOpen else { return }
        held.append(bytes)
        pause(.held)
    }

    /// Goes on with what was held, until ``isHolding``.
    private func readHeld() {
        // A read that is under way goes on by itself.
        guard !isReading, !isHolding else { return }
        var bytes: [UInt8] = []
        swap(&bytes, &held)
        do {
            var span = bytes.mutableSpan
            var raw = unsafe span.mutableBytes
            read(&raw, from: &heldOffset)
        }
        if isHolding {
            held = bytes
        } else {
            heldOffset = 0
            resume(.held)
        }
        countUnfinished()
    }

    override func inputMayGoOn() {
        guard !isReading else { return }
        if held.isEmpty, !isHolding { resume(.held) } else { readHeld() }
        countUnfinished()
    }

    override func outputDrained() {
        if let pong = owedPong.take()?.value { sendControl(.pong, pong.rawSpan) }
        session.outputDrained()
        readHeld()
    }

    /// Looks at frames until there are no more, or ``isHolding``.
    private func read(_ bytes: inout MutableRawSpan, from offset: inout Int) {
        isReading = true
        // The spans that the reader gives point into its memory, so it has no other owner meanwhile.
        var reader = MessageReader(role: .server, messageByteLimit: 0, checksText: false)
        swap(&reader, &self.reader)
        // In a local variable too: the compiler then omits the checks that a property needs.
        var reassembler = Reassembler(chunkLimit: 0, messageByteLimit: 0)
        swap(&reassembler, &self.reassembler)
        do {
            while !isHolding, let event = try reader.next(&bytes, from: &offset) {
                switch event {
                case .text(let payload)
                where payload.count > IOLoop.smallByteCount && !reassembler.isCollecting:
                    // A large message in one frame: not copied where it was put together here.
                    if let message = reader.takeBytes(of: payload) {
                        receive(message)
                    } else {
                        reader.withBytes(of: payload, in: bytes) { receiveFrame($0, &reassembler) }
                    }
                case .text(let payload):
                    reader.withBytes(of: payload, in: bytes) { receiveFrame($0, &reassembler) }
                case .binary: close(with: .unsupportedData)
                case .ping(let payload): reader.withBytes(of: payload, in: bytes) { answerPing($0) }
                case .pong: break
                case .close(let code, _): act(closing.receivedClose(code))
                }
            }
        } catch {
            act(closing.failed(error))
        }
        swap(&reader, &self.reader)
        swap(&reassembler, &self.reassembler)
        isReading = false
    }

    private func receiveFrame(_ frame: RawSpan, _ reassembler: inout Reassembler) {
        guard closing.isOpen else { return }
        do {
            switch try reassembler.accept(frame) {
            case .nothing: break
            case .payload where isJoining: receiveJoining(frame)
            case .payload: session.receive(frame, over: self)
            case .assembled(let message): receive(message)
            }
        } catch {
            close(with: .messageTooBig)
        }
    }

    private func receive(_ message: [UInt8]) {
        guard closing.isOpen else { return }
        if isJoining { receiveJoining(message.rawSpan) } else { session.receive(message, over: self) }
    }

    private func countUnfinished() {
        let parsing = isJoining ? 0 : session.parsingByteCount
        let byteCount = reader.ownedByteCount + reassembler.byteCount + parsing + held.count
        guard byteCount != unfinishedByteCount else { return }
        // A message that does not fit in one read is read in large pieces.
        let isMidMessage = byteCount - held.count >= Self.readByteLimit / 2
        channel.readByteLimit = isMidMessage ? .max : Self.readByteLimit
        owner.keepUnfinished(byteCount, for: self)
    }

    /// What was said before the session moved here is this client's, too.
    override var heldByteCount: Int { super.heldByteCount + (former?.heldByteCount ?? 0) }

    /// What is unread is thrown away with the connection; only what is half there can be refused in words.
    override func giveUpHeldBytes() {
        former?.leaveFormer()
        guard channel.outboundByteCount == 0 else { return channel.reset() }
        close(with: .tryAgainLater)
        // Now, not when the client has closed its side too.
        held = []
        reader = MessageReader(role: .server, messageByteLimit: 0, checksText: false)
        reassembler = Reassembler(chunkLimit: 0, messageByteLimit: 0)
        owner.keepUnfinished(0, for: self)
    }

    // MARK: For the session

    override var holdsManyRequests: Bool { session.holdsManyRequests }

    override func windowMarkReturned() { session.windowMarkReturned() }

    override func finish(_ parsed: ParsedMessage) { session.finish(parsed) }

    override func finish(_ verdict: VerificationResult) { session.finish(verdict) }

    override func recheck(_ revocations: RevocationState) {
        if !isJoining { session.recheck(revocations) }
    }

    override func sendMessage(_ message: RawSpan) {
        var frame: [UInt8] = []
        frame.append(frame: .text, payload: message)
        send(frame.rawSpan)
    }

    override func refuse(_ message: LargeMessage) {
        var frame: [UInt8] = []
        frame.append(frame: .text, payload: RealtimeSession.refusal(of: message).rawSpan)
        channel.write(frame.rawSpan)
        if message.requestNumber == nil { act(closing.close(.messageTooBig)) }
    }

    // MARK: To the socket

    /// Answers a WebSocket ping at once, or, while the client takes nothing, the last one later: then no
    /// other need be answered (RFC 6455 §5.5.3).
    private func answerPing(_ payload: RawSpan) {
        // From the low-water mark on, below which the channel tells.
        guard channel.outboundByteCount <= owner.loop.configuration.outboundLowWaterByteCount else {
            var copy: [UInt8] = []
            copy.append(payload)
            owedPong = Box(copy)
            return
        }
        sendControl(.pong, payload)
    }

    /// Sends a control frame at once: it may stand between any two frames.
    private func sendControl(_ opcode: Opcode, _ payload: RawSpan) {
        guard closing.isOpen else { return }
        var frame: [UInt8] = []
        frame.append(frame: opcode, payload: payload)
        channel.write(frame.rawSpan)
    }

    // MARK: The end

    override func end(_ reason: DisconnectReason) {
        switch reason {
        case .finished, .replaced: act(closing.close(.normal))
        case .goingAway: act(closing.close(.goingAway))
        }
    }

    override func fail(_ failure: SessionFailure) {
        switch failure {
        case .malformedMessage: close(with: .invalidPayload)
        case .messageTooBig: close(with: .messageTooBig)
        }
    }

    func close(with code: CloseCode) {
        act(closing.close(code))
    }

    /// The session ends with the first close frame of either side (realtime §3.4); the connection lives
    /// on until that is out and the client has closed its side, or some seconds.
    private func act(_ action: CloseHandshake.Action) {
        switch action {
        case .nothing, .awaitEnd: return
        case .send(let code):
            // The server is the one to end the connection; what the client still sends has no meaning for us.
            sendClose(code)
            channel.closeAfterFlush()
        case .sendThenDisconnect(let code), .sendThenAwaitEnd(let code):
            sendClose(code)
            channel.closeAfterFlush()
        case .disconnect: channel.closeAfterFlush()
        }
        owner.endSession(self)
    }

    private func sendClose(_ code: CloseCode?) {
        var frame: [UInt8] = []
        frame.append(closeFrame: code)
        channel.write(frame.rawSpan)
    }

    /// Asks a silent client whether it lives, and gives up on one that does not answer (§2.3).
    override func checkIdle(at now: MonotonicTime) {
        super.checkIdle(at: now)
        guard isOpen else { return }
        if isInputTooSlow(at: now) { return close(with: .policyViolation) }
        // What the client says is not read, so it cannot be called silent; that it takes what it is sent, the
        // pace shows.
        if isReadingPaused { liveness.heard(at: now) }
        switch liveness.check(
            at: now, timeout: owner.configuration.pingSilence, taken: { channel.acknowledgedByteCount })
        {
        case .nothing: break
        case .ping:
            sendControl(.ping, [UInt8]().rawSpan)
            liveness.pinged(behind: channel.writtenByteCount, at: now)
        case .close: channel.close()
        }
    }

    /// Whether a message that is not complete comes too slowly, or not at all: it is held for it.
    private func isInputTooSlow(at now: MonotonicTime) -> Bool {
        let isExpected = !isReadingPaused && reader.ownedByteCount + reassembler.byteCount > 0
        return isInputTooSlow(receivedByteCount, whileExpected: isExpected, &inputPace, at: now)
    }

    /// The client has closed its side: its session is over, also where it still reads.
    override func channelDidEnd(_ channel: Channel) {
        act(closing.peerVanished())
    }

    override func channelDidClose(_ channel: Channel, reason: ChannelCloseReason) {
        _ = closing.peerVanished()
        owner.endSession(self)
        if !isJoining { session.close() }
        leaveHandover()
        held = []
        owner.keepUnfinished(0, for: self)
        super.channelDidClose(channel, reason: reason)
    }
}

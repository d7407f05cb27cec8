import PandoBytes
import PandoDatabase
import PandoEngine
import PandoIdentity
import PandoTime
import PandoWebSocket
import PandoWire

/// A WebSocket that carries a ``RealtimeSession``: frames in, messages out, and the reverse.
///
///     open ──close frame of either side, peer's end──▶ closing: nothing is read or sent any more
///
/// Bytes that may not be read yet wait as they came, and the client is paused. How a session by long
/// polling moves here: ``Handover``.
package struct WebSocketConnection: RealtimeTransport {
    package internal(set) var session: RealtimeSession
    var outputs: OutputSequence
    package internal(set) var pauses: PauseReasons = []
    var isLagging = false
    var input: FrameInput
    var closing = CloseHandshake(role: .server)
    var outputRate = OutputRate()
    var liveness: Liveness
    /// The payload of the last ping that was not answered yet, because the client does not take what it is
    /// sent.
    var owedPong: Box<[UInt8]>?
    var handover: Handover
    var maySendToDatabases: Bool

    /// - Parameters:
    ///   - id: Of the session, or of the connection while a session by long polling may move here.
    ///   - polling: That session; nil for a session of its own.
    ///   - window: The deflate window of the client's side, where permessage-deflate was agreed on; nil where
    ///     it was not.
    ///   - answersPings: Whether the client may be pinged (``UpgradeRequest/answersPings``).
    package init(
        _ id: SessionID, joining polling: SessionID? = nil, compressingFor window: DeflateWindow? = nil,
        answersPings: Bool = true, _ context: inout ConnectionContext
    ) {
        let messageByteLimit = context.settings.messageByteLimit
        // Made at the handshake, so it is there.
        let inflater = window == nil ? nil : try? context.compression?.sharedInflater()
        // Text is checked when a message is whole: C++ clients cut inside characters.
        input = FrameInput(
            MessageReader(
                role: .server, messageByteLimit: messageByteLimit, checksText: false, inflater: inflater),
            Reassembler(
                chunkLimit: context.settings.chunkCountLimit, messageByteLimit: messageByteLimit))
        outputs = OutputSequence(form: OutputForm(compressingFor: window))
        liveness = Liveness(at: context.now, answersPings: answersPings)
        session = RealtimeSession(id)
        handover = polling.map { .offered(from: $0) } ?? .none
        // Of a session that may move here, the databases know another id.
        maySendToDatabases = polling == nil
    }

    /// Whether messages are sent and received.
    package var isOpen: Bool { closing.isOpen }

    /// Whether the client has a large share of all requests that wait.
    package var hasManyRequests: Bool { session.hasManyRequests }

    /// Whether many requests of the client, or large ones, are not answered yet.
    package var awaitsAnswers: Bool { session.awaitsAnswers }

    /// What the loop follows after each event. Mutating, so that it is read where the connection lies: the
    /// getter of a property would get a copy of it, and count each reference up and down.
    package mutating func status() -> ConnectionStatus {
        ConnectionStatus(
            unfinishedByteCount: unfinishedByteCount, waitingByteCount: waitingByteCount, pauses: pauses,
            readByteLimit: readByteLimit, needsAcknowledgedByteCount: needsAcknowledgedByteCount)
    }

    /// Bytes of a message that is not complete, or not read.
    package var unfinishedByteCount: Int { input.unfinishedByteCount }

    /// Bytes of the socket's next reads.
    package var readByteLimit: Int { input.readByteLimit }

    /// Bytes of memory that outputs take which wait behind others.
    package var waitingByteCount: Int { outputs.waitingByteCount }

    /// Bytes of memory that this client takes, beside the unsent bytes of its socket.
    package var heldByteCount: Int { unfinishedByteCount + outputs.heldByteCount }

    /// ``heldByteCount`` without a copy of the connection, as with ``status()``: thousands of connections are
    /// asked when memory is short.
    package mutating func heldByteCountInPlace() -> Int { heldByteCount }

    // MARK: From the socket

    /// Reads what a read event brought, from `offset` on.
    package mutating func received(
        _ bytes: inout MutableRawSpan, from offset: Int = 0, _ context: inout ConnectionContext
    ) {
        input.noteReceived(bytes.byteCount)
        liveness.noteActivity(at: context.now)
        var offset = offset
        if !isHolding { read(&bytes, from: &offset, &context) }
        if isHolding { keep(bytes.bytes.extracting(offset..<bytes.byteCount)) }
        countUnfinished()
    }

    /// Nothing more is read for now, or ever.
    private var isHolding: Bool {
        if input.isYielding { return true }
        return switch handover {
        case .none, .done: pauses.contains(.unsentOutput) || session.isFull
        case .offered: false
        case .acknowledged: true
        }
    }

    private mutating func keep(_ bytes: RawSpan) {
        guard closing.isOpen else { return }
        input.keep(bytes)
        pauses.insert(.input)
    }

    /// Goes on with what waits, until ``isHolding``.
    private mutating func readWaiting(_ context: inout ConnectionContext) {
        // A read that is in progress goes on by itself.
        guard !input.isReading, !isHolding else { return }
        var (bytes, offset) = input.beginWaiting()
        do {
            var span = bytes.mutableSpan
            var raw = unsafe span.mutableBytes
            read(&raw, from: &offset, &context)
        }
        let isHolding = isHolding
        input.endWaiting(bytes, from: isHolding ? offset : bytes.count)
        if !isHolding { resume(.input, &context) }
        countUnfinished()
    }

    mutating func inputMayContinue(_ context: inout ConnectionContext) {
        guard !input.isReading else { return }
        if input.isEmpty, !isHolding { resume(.input, &context) } else { readWaiting(&context) }
        countUnfinished()
    }

    /// Up to 128 requests may wait, which take 0.2 ms to read, and one batch of outputs may return the marks
    /// of hundreds of sessions. So the requests of each session are read in a turn of its own.
    mutating func inputMayContinueInTurn(_ context: inout ConnectionContext) {
        guard !input.isEmpty, !input.isReading, !isHolding else { return inputMayContinue(&context) }
        input.yield()
        context.append(.nextTurn)
    }

    mutating func outputDrained(_ context: inout ConnectionContext) {
        if let pong = owedPong.take()?.value { sendControl(.pong, pong.rawSpan, &context) }
        if session.isPongOwed { sendPong(&context) }
        readWaiting(&context)
    }

    /// Reads frames until there are no more, or ``isHolding``.
    private mutating func read(
        _ bytes: inout MutableRawSpan, from offset: inout Int, _ context: inout ConnectionContext
    ) {
        input.isReading = true
        // The spans that the reader gives point into its memory, so it has no other owner meanwhile.
        var reader = exchange(&input.reader, with: FrameInput.emptyReader)
        // In a local variable too: the compiler then omits the checks that a property needs.
        var reassembler = exchange(&input.reassembler, with: FrameInput.emptyReassembler)
        do {
            while !isHolding, let event = try reader.next(&bytes, from: &offset) {
                switch event {
                case .text(let payload)
                where payload.count > ConnectionLimits.smallByteCount && !reassembler.isCollecting:
                    // A large message in one frame: not copied where it was put together here.
                    if let message = reader.takeBytes(of: payload) {
                        receive(message, &context)
                    } else {
                        reader.withBytes(of: payload, in: bytes) { receiveFrame($0, &reassembler, &context) }
                    }
                case .text(let payload):
                    reader.withBytes(of: payload, in: bytes) { receiveFrame($0, &reassembler, &context) }
                case .compressed(isText: true, let payload):
                    var message = reader.takeBytes(of: payload)
                    if message == nil {
                        reader.withBytes(of: payload, in: bytes) { message = [UInt8](copying: $0) }
                    }
                    receiveCompressed(message ?? [], &reassembler, &context)
                case .compressed, .binary: close(with: .unsupportedData, &context)
                case .ping(let payload):
                    reader.withBytes(of: payload, in: bytes) { answerPing($0, &context) }
                case .pong: break
                case .close(let code, _): act(closing.receivedClose(code), &context)
                }
                if reader.hasInflatedEnough, !input.isYielding {
                    input.yield()
                    context.append(.nextTurn)
                }
            }
        } catch {
            if error.closeCode == .messageTooBig { context.append(.countLimit(.messageBytes)) }
            act(closing.failed(error), &context)
        }
        swap(&reader, &input.reader)
        swap(&reassembler, &input.reassembler)
        input.isReading = false
    }

    private mutating func receiveFrame(
        _ frame: RawSpan, _ reassembler: inout Reassembler, _ context: inout ConnectionContext
    ) {
        guard closing.isOpen else { return }
        do {
            switch try reassembler.accept(frame) {
            case .nothing: break
            case .payload where isJoining: receiveJoining(frame, &context)
            case .payload: finish(session.receive(frame, &context), &context)
            case .assembled(let message): receive(message, &context)
            }
        } catch {
            context.append(.countLimit(.messageBytes))
            close(with: .messageTooBig, &context)
        }
    }

    /// Takes a message that the reader has left compressed: it becomes long, or the loop has inflated enough
    /// in this tick.
    private mutating func receiveCompressed(
        _ message: [UInt8], _ reassembler: inout Reassembler, _ context: inout ConnectionContext
    ) {
        guard closing.isOpen else { return }
        guard isJoining || reassembler.isCollecting else {
            return session.receiveCompressed(message, &context)
        }
        // A worker would take a chunk for a message. So it is inflated here all the same, one in each turn;
        // long ones there are none.
        do throws(ProtocolViolation) {
            guard let inflater = try? context.compression?.sharedInflater() else { throw .noMemoryToInflate }
            let frame = try inflater.inflate(
                message.rawSpan, byteLimit: ConnectionLimits.smallByteCount, isBrief: true)
            input.yield()
            context.append(.nextTurn)
            receiveFrame(frame.rawSpan, &reassembler, &context)
        } catch {
            if isJoining { return close(with: .invalidPayload, &context) }
            if error.closeCode == .messageTooBig { context.append(.countLimit(.messageBytes)) }
            act(closing.failed(error), &context)
        }
    }

    /// Others have had their turn.
    package mutating func nextTurn(_ context: inout ConnectionContext) {
        if input.turnCame() { inputMayContinue(&context) }
    }

    /// A worker has inflated and parsed a message.
    mutating func parsedOrRefused(_ message: ParsedMessage, _ context: inout ConnectionContext) {
        guard let violation = message.violation else {
            return finish(session.parsed(message, isOpen: isOpen, &context), &context)
        }
        session.parsingFailed()
        if violation.closeCode == .messageTooBig { context.append(.countLimit(.messageBytes)) }
        act(closing.failed(violation), &context)
    }

    private mutating func receive(_ message: [UInt8], _ context: inout ConnectionContext) {
        guard closing.isOpen else { return }
        if isJoining {
            receiveJoining(message.rawSpan, &context)
        } else {
            finish(session.receive(message, &context), &context)
        }
    }

    mutating func finish(_ outcome: RealtimeSession.Outcome, _ context: inout ConnectionContext) {
        switch outcome {
        case .nothing: break
        case .ping: sendPong(&context)
        // The session has moved, or never polled.
        case .upgrade, .endOfTransmission: break
        case .malformed: close(with: .invalidPayload, &context)
        case .delayed(let end): context.append(.wake(at: end))
        }
    }

    private mutating func countUnfinished() {
        input.countUnfinished(inSession: isJoining ? 0 : session.heldByteCount)
    }

    // MARK: Outputs

    /// Sends whole frames.
    package mutating func send(_ frames: RawSpan, _ context: inout ConnectionContext) -> SendOutcome {
        guard closing.isOpen else { return .drop }
        guard outputs.isReady else {
            sendInOrder([UInt8](copying: frames), &context)
            return .carryOut
        }
        return noteWritten(frames.byteCount, &context)
    }

    /// Sends whole frames that others get, too.
    package mutating func send(_ frames: SharedBytes, _ context: inout ConnectionContext) -> SendOutcome {
        guard closing.isOpen else { return .drop }
        guard outputs.isReady else {
            sendInOrder(frames, &context)
            return .carryOut
        }
        return noteWritten(frames.count, &context)
    }

    private mutating func noteWritten(_ byteCount: Int, _ context: inout ConnectionContext) -> SendOutcome {
        context.socket.unsentByteCount += byteCount
        // Nearly always.
        guard
            context.socket.unsentByteCount + outputs.waitingByteCount > ConnectionLimits.laggingByteCount
        else { return .write }
        pauseIfMuchIsUnsent(&context)
        return .writeAndCarryOut
    }

    /// Sends a large message.
    package mutating func send(_ message: LargeMessage, _ context: inout ConnectionContext) {
        sendInOrder(message, &context)
    }

    /// A worker has encoded a large message.
    package mutating func encoded(_ message: LargeMessage, _ context: inout ConnectionContext) {
        sendEncoded(message, &context)
    }

    /// The client has taken nearly all that was written.
    package mutating func drained(_ context: inout ConnectionContext) { outputWasTaken(&context) }

    func unsentByteCount(_ context: inout ConnectionContext) -> Int { context.socket.unsentByteCount }

    func canSend(_ message: LargeMessage, _ context: inout ConnectionContext) -> Bool { true }

    mutating func write(_ frames: [UInt8], _ context: inout ConnectionContext) { context.write(frames) }

    mutating func write(_ shared: SharedBytes, _ context: inout ConnectionContext) { context.write(shared) }

    mutating func write(_ piece: OutputSequence.Piece, _ context: inout ConnectionContext) {
        context.write(piece.bytes)
    }

    // The next piece follows with ``drained(_:)``.
    mutating func pieceWasWritten(_ context: inout ConnectionContext) {}

    func mayWriteNextPiece(_ context: inout ConnectionContext) -> Bool { context.isDrained }

    mutating func outputsWereWritten(_ context: inout ConnectionContext) {}

    mutating func readingResumed(_ context: inout ConnectionContext) {}

    mutating func refuse(_ message: LargeMessage, _ context: inout ConnectionContext) {
        var frame: [UInt8] = []
        frame.append(frame: .text, payload: message.refusal.rawSpan)
        context.write(frame)
        if message.requestNumber == nil { close(with: .messageTooBig, &context) }
    }

    /// The session by long polling moves here (``Handover``).
    mutating func adopt(_ session: RealtimeSession) {
        self.session = session
        maySendToDatabases = true
        // It was to come by the other id.
        _ = input.turnCame()
    }
}

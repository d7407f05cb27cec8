import PandoBytes
import PandoEngine
import PandoIdentity
import PandoReactor
import PandoRules
import PandoTree
import PandoWebSocket
import PandoWire

/// One client on a WebSocket: frames in, requests out; outputs in, frames out. Confined to its loop.
///
/// Requests are handed on strictly in order. While a token is being verified nothing is read (wire-protocol §3.4: the
/// authentication is finished before the next message is looked at); what the last read has brought behind it waits as
/// it came.
final class RealtimeSession: ClientSession {
    /// Tokens that may be refused one after the other before the connection ends. Ours: clients close after one.
    private static let refusalLimit = 64
    /// Sign-ins that may queue something over one connection's life; at one more it ends, and the client comes back. Ours:
    /// a token that is made anew each hour and forgets when its bearer signed in needs ten days.
    private static let signInLimit = 256

    private var reader: MessageReader
    private var reassembler: Reassembler
    private var closing = CloseHandshake(role: .server)
    private var credential = PandoRules.Credential.anonymous
    /// What is being verified, and the number to answer with.
    private var verifying: Rare<(asked: PandoWire.Credential, number: Int64)>?
    private var refusalCount = 0
    /// Whose ``credential`` is; nil for nobody's.
    private var identity: Rare<Identity>?
    private var expiry: WallTimer?
    /// The sign-ins that have queued something for the end of the connection, each once; a number is the place plus one.
    /// They are kept when they are over: what they queued is not.
    private var signIns: [SignIn] = []
    /// What came behind a token that is being verified, from ``heldOffset`` on; nothing of it is looked at yet.
    private var held: [UInt8] = []
    private var heldOffset = 0
    /// The frames of a read are being looked at.
    private var isReading = false
    private var window = RequestWindow()
    /// Bytes of the message that a worker reads; 0 for none.
    private var parsingByteCount = 0
    /// Bytes that came while a message was not complete, and how fast they come; nil while none is under way.
    private var receivedByteCount = 0
    private var inputPace: Pace?
    private var liveness: Liveness
    /// What the last ping said that is not answered yet, because the client does not take what it is sent.
    private var owedPong: Rare<[UInt8]>?
    private var isPongOwed = false

    override init(_ id: SessionID, on channel: Channel, of owner: IOLoop) {
        let messageByteLimit = owner.configuration.chunkCountLimit * Segmenter.chunkUnitLimit
        // Text is checked when a message is whole: C++ clients cut inside characters.
        reader = MessageReader(role: .server, messageByteLimit: messageByteLimit, checksText: false)
        reassembler = Reassembler(
            chunkLimit: owner.configuration.chunkCountLimit, messageByteLimit: messageByteLimit)
        liveness = Liveness(at: owner.loop.now)
        super.init(id, on: channel, of: owner)
        channel.readByteLimit = Self.readByteLimit
    }

    /// Bytes of one read: as many small requests as a ``RequestWindow`` takes, about. What is not read stays in the socket.
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
        window.isFull || parsingByteCount > 0 || verifying != nil || isUnread || refusalCount >= Self.refusalLimit
    }

    private func hold(_ bytes: RawSpan) {
        guard closing.isOpen else { return }
        held.append(bytes)
        pause(.held)
    }

    /// Goes on with what was held, up to the next token that must be waited for.
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

    override var holdsManyRequests: Bool { window.isLarge }

    override func windowMarkReturned() {
        window.returnMark()
        if held.isEmpty { resume(.held) } else { readHeld() }
    }

    override func outputDrained() {
        if let pong = owedPong.take()?.value { sendControl(.pong, pong.rawSpan) }
        if isPongOwed { sendPong() }
        readHeld()
    }

    /// Looks at frames until there are no more, or a token must be waited for.
    private func read(_ bytes: inout MutableRawSpan, from offset: inout Int) {
        isReading = true
        // The reader lends memory of its own, so nobody else may hold it meanwhile.
        var reader = MessageReader(role: .server, messageByteLimit: 0, checksText: false)
        swap(&reader, &self.reader)
        // Out of this class as well: of a local the compiler knows that nobody else touches it.
        var reassembler = Reassembler(chunkLimit: 0, messageByteLimit: 0)
        swap(&reassembler, &self.reassembler)
        do {
            while !isHolding, let event = try reader.next(&bytes, from: &offset) {
                switch event {
                case .text(let payload):
                    reader.withBytes(of: payload, in: bytes) { receiveFrame($0, &reassembler) }
                case .binary: fail(.unsupportedData)
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

    private func countUnfinished() {
        let byteCount = reader.ownedByteCount + reassembler.byteCount + parsingByteCount + held.count
        guard byteCount != unfinishedByteCount else { return }
        // A message that does not fit in one read is read in large pieces.
        let isMidMessage = byteCount - held.count >= Self.readByteLimit / 2
        channel.readByteLimit = isMidMessage ? .max : Self.readByteLimit
        owner.keepUnfinished(byteCount, for: self)
    }

    /// What is unread is thrown away with the connection; only what is half there can be refused in words.
    override func giveUpHeldBytes() {
        guard channel.outboundByteCount == 0 else { return channel.reset() }
        fail(.tryAgainLater)
        // Now, not when the client has closed its side too.
        held = []
        reader = MessageReader(role: .server, messageByteLimit: 0, checksText: false)
        reassembler = Reassembler(chunkLimit: 0, messageByteLimit: 0)
        owner.keepUnfinished(0, for: self)
    }

    private func receiveFrame(_ frame: RawSpan, _ reassembler: inout Reassembler) {
        guard closing.isOpen else { return }
        do {
            switch try reassembler.accept(frame) {
            case .nothing: break
            case .payload where frame.byteCount > IOLoop.smallByteCount:
                var copy: [UInt8] = []
                copy.append(frame)
                parseElsewhere(copy)
            case .payload: receive(frame)
            case .assembled(let message) where message.count > IOLoop.smallByteCount: parseElsewhere(message)
            case .assembled(let message): receive(message.rawSpan)
            }
        } catch {
            fail(.messageTooBig)
        }
    }

    private func receive(_ message: RawSpan) {
        guard closing.isOpen else { return }
        do {
            switch try ClientMessage(parsing: message) {
            case .request(let request): take(request, byteCount: message.byteCount)
            case .ping: sendPong()
            // A WebSocket is never the second transport of a session here (§1.6: refused by ignoring).
            case .upgrade, .endOfTransmission, .unknownControl: break
            }
        } catch {
            // Malformed JSON, or a member that must be there is not: no answer could reach the right request (§4.0).
            fail(.invalidPayload)
        }
    }

    /// Has a worker read a large message: others on this loop would wait for milliseconds. What comes behind it waits.
    private func parseElsewhere(_ message: [UInt8]) {
        parsingByteCount = message.count
        owner.parse(message, for: id)
    }

    override func finish(_ parsed: ParsedMessage) {
        parsingByteCount = 0
        guard closing.isOpen else { return countUnfinished() }
        switch parsed.result {
        case .success(.request(let request)): take(request, byteCount: parsed.byteCount)
        case .success: break  // Control messages are small.
        case .failure: fail(.invalidPayload)
        }
        countUnfinished()
        readHeld()
    }

    // MARK: Requests

    private func take(_ request: consuming Request, byteCount: Int) {
        let number = request.number
        var signIn: UInt32 = 0
        switch request.action {
        case .listen, .unlisten, .get, .put, .merge, .onDisconnectCancel: break
        case .onDisconnectPut, .onDisconnectMerge:
            guard let number = signInNumber() else { return answer(.finished, byteCount) }
            signIn = number
        case .authenticate(let credential): return authenticate(credential, number)
        case .unauthenticate:
            become(.anonymous, nil)
            return answer(.unauthenticated(number), byteCount)
        case .statistics: return answer(.ok(number), byteCount)
        case .appCheck, .dropAppCheck: return answer(.ok(number), byteCount)
        case .unknown: return answer(.unknownAction(number), byteCount)
        case .invalid(_, let problem): return answer(.invalid(number, problem), byteCount)
        }
        // In one place only: it is moved there, not copied.
        owner.post(
            .request(id, request, credential, signIn: signIn, byteCount: byteCount), byteCount: byteCount, for: self)
        markWindow(byteCount)
    }

    /// The number of the sign-in that is in force, under which something is queued; 0 for none. Nil when there have been
    /// too many.
    private func signInNumber() -> UInt32? {
        guard let signIn = identity?.value.signIn else { return 0 }
        if let place = signIns.lastIndex(of: signIn) { return UInt32(place) + 1 }
        guard signIns.count < Self.signInLimit else { return nil }
        signIns.append(signIn)
        return UInt32(signIns.count)
    }

    private func answer(_ answer: Answer, _ byteCount: Int) {
        owner.post(.answer(id, answer, byteCount: byteCount), byteCount: byteCount, for: self)
        markWindow(byteCount)
    }

    private func markWindow(_ byteCount: Int) {
        if window.add(byteCount: byteCount) { owner.post(.windowMark(id), byteCount: 0, for: nil) }
    }

    private func authenticate(_ credential: PandoWire.Credential, _ number: Int64) {
        verifying = Rare((credential, number))
        owner.verify(credential.token, for: self)
    }

    /// - Parameter identity: Whose the credential is; nil for nobody's.
    private func become(_ credential: PandoRules.Credential, _ identity: Identity?) {
        self.credential = credential
        self.identity = identity.map { Rare($0) }
        expiry?.cancel(on: owner.loop)
        expiry = identity?.validUntil.map { end in
            owner.atWallTime(end) { [weak self] in self?.revoke(Self.expiredText) }
        }
        owner.post(.identity(id, credential), byteCount: 0, for: self)
    }

    /// The credential is over: the client hears so, and is nobody until it has shown a fresh one (auth.md §4.2). Clients
    /// fetch a fresh one at once, and back off when that one is refused too.
    private func revoke(_ reason: Text) {
        guard closing.isOpen else { return }
        var message: [UInt8] = []
        message.append(authRevoked: .expiredToken, reason: reason)
        var frame: [UInt8] = []
        frame.append(frame: .text, payload: message.rawSpan)
        send(frame.rawSpan)
        become(.anonymous, nil)
    }

    /// What a revoked sign-in has queued is dropped, also where another is in force by now: mere expiry leaves it.
    override func recheck(_ standing: Standing) {
        let revoked = signIns.indices.filter { !standing.holds(signIns[$0]) }
        if !revoked.isEmpty { owner.post(.revoked(id, Set(revoked.map { UInt32($0) + 1 })), byteCount: 0, for: self) }
        guard let identity = identity?.value, !standing.holds(identity) else { return }
        revoke(Self.revokedText)
    }

    private static let expiredText: Text = "Auth token is expired."
    private static let revokedText: Text = "Auth token is no longer accepted."

    override func finish(_ verdict: Verdict) {
        guard let (asked, number) = verifying.take()?.value else { return }
        refusalCount += 1
        switch verdict {
        case .accepted(let identity):
            do throws(NotAnAdministrator) {
                let credential = try identity.credential(asking: asked)
                refusalCount = 0
                become(credential, identity)
                answer(
                    .authenticated(number, authVariable: credential.authVariable, expires: identity.expires), 0)
            } catch {
                answer(.authenticationFailed(number, isExpired: false, reason: "Access denied."), 0)
            }
        case .refused(.expired):
            answer(.authenticationFailed(number, isExpired: true, reason: "Auth token is expired."), 0)
        case .refused(.keysUnavailable):
            answer(.authenticationUnavailable(number, reason: "The token cannot be verified at the moment."), 0)
        case .refused(.tooManyFailures):
            answer(.authenticationUnavailable(number, reason: "Too many bad credentials from this address."), 0)
        case .refused:
            answer(.authenticationFailed(number, isExpired: false, reason: "Could not parse auth token."), 0)
        }
        if refusalCount >= Self.refusalLimit { answer(.finished, 0) }
        // A verdict that comes at once finds the frames being read, and they go on.
        readHeld()
    }

    // MARK: To the socket

    /// More than clients can take in one message (wire-protocol §2.2, §14): a request is answered so; data that a
    /// listen waits for cannot be left out, so the connection says why and ends.
    override func refuse(_ message: LargeMessage) {
        var text: [UInt8] = []
        if let number = message.requestNumber {
            text.append(response: number, .tooBig, .text(Self.oversizedText))
        } else {
            text.append(errorNotice: Self.oversizedText)
        }
        var frame: [UInt8] = []
        frame.append(frame: .text, payload: text.rawSpan)
        channel.write(frame.rawSpan)
        if message.requestNumber == nil { act(closing.close(.messageTooBig)) }
    }

    private static let oversizedText: Text =
        "The specified payload is too large, please request a location with less data."

    /// Answers a WebSocket ping at once, or, while the client takes nothing, the last one later: then no other need be
    /// answered (RFC 6455 §5.5.3).
    private func answerPing(_ payload: RawSpan) {
        guard channel.outboundByteCount <= pongByteLimit else {
            var copy: [UInt8] = []
            copy.append(payload)
            owedPong = Rare(copy)
            return
        }
        sendControl(.pong, payload)
    }

    /// Unsent bytes from which on only the last ping will be answered: the channel's low-water mark, below which it tells.
    private var pongByteLimit: Int { owner.loop.configuration.outboundLowWaterByteCount }

    /// A text frame, so it has its place in the order of the others (§15.10: none between the chunks of a message).
    private func sendPong() {
        guard channel.outboundByteCount <= pongByteLimit else { return isPongOwed = true }
        isPongOwed = false
        var message: [UInt8] = []
        message.appendPong()
        var frame: [UInt8] = []
        frame.append(frame: .text, payload: message.rawSpan)
        send(frame.rawSpan)
    }

    /// Sends a control frame at once: it may stand between any two frames.
    private func sendControl(_ opcode: Opcode, _ payload: RawSpan) {
        guard closing.isOpen else { return }
        var frame: [UInt8] = []
        frame.append(frame: opcode, payload: payload)
        channel.write(frame.rawSpan)
    }

    // MARK: The end

    override func end(_ reason: OutputBatch.CloseReason) {
        switch reason {
        case .finished, .replaced: act(closing.close(.normal))
        case .goingAway: act(closing.close(.goingAway))
        }
    }

    private func fail(_ code: CloseCode) {
        act(closing.close(code))
    }

    private func act(_ action: CloseHandshake.Action) {
        switch action {
        case .nothing, .awaitEnd: break
        case .send(let code):
            // The server is the one to end the connection; what the client still sends has no meaning for us.
            sendClose(code)
            channel.closeAfterFlush()
        case .sendThenDisconnect(let code), .sendThenAwaitEnd(let code):
            sendClose(code)
            channel.closeAfterFlush()
        case .disconnect: channel.closeAfterFlush()
        }
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
        if isInputTooSlow(at: now) { return fail(.policyViolation) }
        // What the client says is not read, so it cannot be called silent; that it takes what it is sent, the pace shows.
        if isReadingPaused { liveness.heard(at: now) }
        switch liveness.check(at: now, timeout: owner.configuration.idleTimeout, taken: { channel.takenByteCount }) {
        case .nothing: break
        case .ping:
            sendControl(.ping, [UInt8]().rawSpan)
            liveness.pinged(behind: channel.writtenByteCount, at: now)
        case .close: channel.close()
        }
    }

    /// Whether a message that is not complete comes too slowly, or not at all: it is held for it.
    private func isInputTooSlow(at now: MonotonicTime) -> Bool {
        guard !isReadingPaused, reader.ownedByteCount + reassembler.byteCount > 0 else {
            inputPace = nil
            return false
        }
        var pace = inputPace ?? Pace(receivedByteCount, at: now)
        defer { inputPace = pace }
        return pace.isTooSlow(
            receivedByteCount, at: now, window: owner.configuration.requestTimeout,
            bytesPerSecond: Self.slowestBytesPerSecond)
    }

    override func channelDidEnd(_ channel: Channel) {
        _ = closing.peerVanished()
        channel.closeAfterFlush()
    }

    override func channelDidClose(_ channel: Channel, reason: PandoReactor.CloseReason) {
        _ = closing.peerVanished()
        expiry?.cancel(on: owner.loop)
        verifying = nil
        if parsingByteCount > 0 { owner.abandonJobs(of: id) }
        held = []
        owner.keepUnfinished(0, for: self)
        super.channelDidClose(channel, reason: reason)
    }
}

/// A large value that most sessions do not have: a word where there is none.
private final class Rare<Value> {
    let value: Value

    init(_ value: Value) { self.value = value }
}

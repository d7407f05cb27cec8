import PandoBytes
import PandoDatabase
import PandoEngine
import PandoIdentity
import PandoReactor
import PandoRules
import PandoTree
import PandoWire

/// How a client has broken the protocol; its connection ends.
enum SessionFailure {
    /// Malformed JSON, or a member that must be there is not: no answer could reach the right request
    /// (realtime §4.0).
    case malformedMessage
    case messageTooBig
}

/// What a client says about the transports of its session (realtime §1.6).
enum TransportControl {
    /// `a`: it is about to send on the WebSocket on which it says so.
    case upgrade
    /// `n`: it sends nothing more by long polling.
    case endOfTransmission
}

/// One client of the realtime protocol, whatever carries its messages: messages in, requests out. Confined to
/// its loop.
///
///     WebSocketSession ────┐ messages                        requests, answers
///                          ├──────────▶ RealtimeSession ──────────────────────▶ database thread
///     LongPollingSession ──┘     as whom it acts, what it has queued, how much may wait
///
/// Requests are handed on strictly in order. While a token is being verified nothing is read (realtime
/// §3.4: the authentication is finished before the next message is looked at); what comes behind it waits
/// with the transport.
final class RealtimeSession {
    /// Tokens that may be refused one after the other before the connection ends. Ours: clients close after
    /// one.
    private static let refusalLimit = 64
    /// Sign-ins that may queue something over one connection's life; at one more it ends, and the client
    /// comes back. Ours: a token that is made anew each hour and forgets when its bearer signed in needs ten
    /// days.
    private static let signInLimit = 256

    let id: SessionID
    private let owner: IOLoop
    /// What carries the messages; it holds this session. Nil before there is any, and after the end.
    unowned var transport: ClientSession?
    private var credential = PandoRules.Credential.anonymous
    /// What is being verified, and the number to answer with.
    private var verifying: Box<(asked: PandoWire.Credential, number: Int64)>?
    private var refusalCount = 0
    /// Whose ``credential`` is; nil for a client that is not signed in.
    private var identity: Box<Identity>?
    private var expiry: WallTimer?
    /// The sign-ins that have queued something for the end of the connection, each once; a number is the
    /// place plus one. They are kept when they are over: what they queued is not.
    private var signIns: [SignIn] = []
    private var window = RequestWindow()
    /// Bytes of the message that a worker reads; 0 for none.
    private(set) var parsingByteCount = 0
    private var isPongOwed = false

    init(_ id: SessionID, of owner: IOLoop) {
        self.id = id
        self.owner = owner
    }

    /// Nothing more is taken for now, or ever.
    var isHolding: Bool {
        window.isFull || parsingByteCount > 0 || verifying != nil || refusalCount >= Self.refusalLimit
    }

    var holdsManyRequests: Bool { window.isLarge }

    // MARK: Messages

    /// Takes the next message.
    /// - Precondition: ``isHolding`` is false, and the transport is open.
    /// - Parameter transport: What brings it: ``transport``, which is not looked up here.
    func receive(_ message: RawSpan, over transport: ClientSession) {
        guard message.byteCount <= IOLoop.smallByteCount else {
            var copy: [UInt8] = []
            copy.append(message)
            return parseElsewhere(copy)
        }
        do {
            switch try ClientMessage(parsing: message) {
            case .request(let request): take(request, byteCount: message.byteCount, over: transport)
            case .ping: sendPong()
            case .upgrade: transport.receive(.upgrade)
            case .endOfTransmission: transport.receive(.endOfTransmission)
            case .unknownControl: break
            }
        } catch {
            transport.fail(.malformedMessage)
        }
    }

    /// As above; a large message is not copied.
    func receive(_ message: [UInt8], over transport: ClientSession) {
        if message.count > IOLoop.smallByteCount {
            parseElsewhere(message)
        } else {
            receive(message.rawSpan, over: transport)
        }
    }

    /// Has a worker read a large message: others on this loop would wait for milliseconds. What comes behind
    /// it waits.
    private func parseElsewhere(_ message: [UInt8]) {
        parsingByteCount = message.count
        owner.parse(message, for: id)
    }

    func finish(_ parsed: ParsedMessage) {
        parsingByteCount = 0
        guard let transport else { return }
        if transport.isOpen {
            switch parsed.result {
            case .success(.request(let request)): take(request, byteCount: parsed.byteCount, over: transport)
            case .success: break  // Control messages are small.
            case .failure: transport.fail(.malformedMessage)
            }
        }
        transport.inputMayGoOn()
    }

    // MARK: Requests

    private func take(_ request: consuming Request, byteCount: Int, over transport: ClientSession) {
        let number = request.number
        var signIn: UInt32 = 0
        switch request.action {
        case .listen, .unlisten, .get, .put, .merge, .onDisconnectCancel: break
        case .onDisconnectPut, .onDisconnectMerge:
            guard let number = signInNumber() else { return answer(.finished, byteCount) }
            signIn = number
        case .authenticate(let credential): return authenticate(credential, number, over: transport)
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
            .request(id, request, credential, signIn: signIn, byteCount: byteCount), byteCount: byteCount,
            for: transport)
        markWindow(byteCount)
    }

    /// The number of the sign-in that is in force, under which something is queued; 0 for none. Nil when
    /// there have been too many.
    private func signInNumber() -> UInt32? {
        guard let signIn = identity?.value.signIn else { return 0 }
        if let place = signIns.lastIndex(of: signIn) { return UInt32(place) + 1 }
        guard signIns.count < Self.signInLimit else { return nil }
        signIns.append(signIn)
        return UInt32(signIns.count)
    }

    private func answer(_ answer: SessionResponse, _ byteCount: Int) {
        owner.post(.answer(id, answer, byteCount: byteCount), byteCount: byteCount, for: transport)
        markWindow(byteCount)
    }

    private func markWindow(_ byteCount: Int) {
        if window.add(byteCount: byteCount) { owner.post(.windowMark(id), byteCount: 0, for: nil) }
    }

    func windowMarkReturned() {
        window.returnMark()
        transport?.inputMayGoOn()
    }

    // MARK: As whom it acts

    private func authenticate(
        _ credential: PandoWire.Credential, _ number: Int64, over transport: ClientSession
    ) {
        verifying = Box((credential, number))
        owner.verify(credential.token, for: transport)
    }

    /// - Parameter identity: Whose the credential is; nil for a client that is not signed in.
    private func become(_ credential: PandoRules.Credential, _ identity: Identity?) {
        self.credential = credential
        self.identity = identity.map { Box($0) }
        expiry?.cancel(on: owner.loop)
        expiry = identity?.validUntil.map { end in
            owner.atWallTime(end) { [weak self] in self?.revoke(Self.expiredText) }
        }
        owner.post(.identity(id, credential), byteCount: 0, for: transport)
    }

    /// The credential is over: the client gets a message that says so, and is signed out until it sends a
    /// fresh one (auth §4.2). Clients fetch a fresh one at once, and back off when that one is refused
    /// too.
    private func revoke(_ reason: Text) {
        guard let transport, transport.isOpen else { return }
        var message: [UInt8] = []
        message.append(authRevoked: .expiredToken, reason: reason)
        transport.sendMessage(message.rawSpan)
        become(.anonymous, nil)
    }

    /// What a revoked sign-in has queued is dropped, also where another is in force by now: mere expiry
    /// leaves it.
    func recheck(_ revocations: RevocationState) {
        let revoked = signIns.indices.filter { !revocations.allows(signIns[$0]) }
        if !revoked.isEmpty {
            owner.post(.revoked(id, Set(revoked.map { UInt32($0) + 1 })), byteCount: 0, for: transport)
        }
        guard let identity = identity?.value, !revocations.allows(identity) else { return }
        revoke(Self.revokedText)
    }

    private static let expiredText: Text = "Auth token is expired."
    private static let revokedText: Text = "Auth token is no longer accepted."

    func finish(_ verdict: VerificationResult) {
        guard let (asked, number) = verifying.take()?.value else { return }
        refusalCount += 1
        switch verdict {
        case .accepted(let identity):
            do throws(NotAnAdministrator) {
                let credential = try identity.credential(asking: asked)
                refusalCount = 0
                become(credential, identity)
                answer(
                    .authenticated(number, authVariable: credential.authVariable, expires: identity.expires),
                    0)
            } catch {
                answer(.authenticationFailed(number, isExpired: false, reason: "Access denied."), 0)
            }
        case .refused(.expired):
            answer(.authenticationFailed(number, isExpired: true, reason: "Auth token is expired."), 0)
        case .refused(.keysUnavailable):
            answer(
                .authenticationUnavailable(number, reason: "The token cannot be verified at the moment."), 0)
        case .refused(.tooManyFailures):
            answer(
                .authenticationUnavailable(number, reason: "Too many bad credentials from this address."), 0)
        case .refused:
            answer(.authenticationFailed(number, isExpired: false, reason: "Could not parse auth token."), 0)
        }
        if refusalCount >= Self.refusalLimit { answer(.finished, 0) }
        // A verdict that comes at once finds the transport reading, and it goes on.
        transport?.inputMayGoOn()
    }

    // MARK: What it says itself

    /// More than clients can take in one message (realtime §2.2, §14): a request is answered so; data
    /// that a listen waits for cannot be left out, so the connection says why and ends.
    static func refusal(of message: LargeMessage) -> [UInt8] {
        var text: [UInt8] = []
        if let number = message.requestNumber {
            text.append(response: number, .tooBig, .text(oversizedText))
        } else {
            text.append(errorNotice: oversizedText)
        }
        return text
    }

    private static let oversizedText: Text =
        "The specified payload is too large, please request a location with less data."

    /// Answers a ping of the protocol, in the order of the other messages (§15.10: none between the chunks of
    /// one). While more than the low-water mark is unsent the answer is postponed, and one then answers all
    /// pings.
    private func sendPong() {
        guard let transport else { return }
        guard transport.unsentByteCount <= owner.loop.configuration.outboundLowWaterByteCount else {
            return isPongOwed = true
        }
        isPongOwed = false
        var message: [UInt8] = []
        message.appendPong()
        transport.sendMessage(message.rawSpan)
    }

    /// The client has taken nearly all that it was sent.
    func outputDrained() {
        if isPongOwed { sendPong() }
    }

    // MARK: The end

    /// What carried it is gone.
    func close() {
        expiry?.cancel(on: owner.loop)
        verifying = nil
        if parsingByteCount > 0 { owner.abandonJobs(of: id) }
        transport = nil
    }
}

/// A large value that most sessions do not have: a word where there is none.
final class Box<Value> {
    let value: Value

    init(_ value: Value) { self.value = value }
}

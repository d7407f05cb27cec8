import PandoBytes
import PandoDatabase
import PandoEngine
import PandoIdentity
import PandoREST
import PandoRules
import PandoTime
import PandoTree
import PandoWire

/// One client of the realtime protocol, whatever carries its messages: messages in, requests to the databases
/// out.
///
///     WebSocketConnection ──┐ messages                        requests, replies
///                           ├──────────▶ RealtimeSession ──────────────────────▶ databases
///     LongPollingSession  ──┘     whose credential, which writes it may queue, how many requests may wait
///
/// Requests are posted strictly in order. While a token is being verified nothing is read (realtime §3.4: the
/// authentication is finished before the next message is looked at); what follows waits with the transport.
package struct RealtimeSession {
    /// What a message asks of what carries it.
    enum Outcome: Equatable {
        case nothing
        case ping
        /// `a`: the client is about to send on the WebSocket on which it says so (realtime §1.6).
        case upgrade
        /// `n`: the client sends nothing more by long polling.
        case endOfTransmission
        /// Malformed JSON, or a required member is missing: no reply could reach the right request (realtime
        /// §4.0).
        case malformed
        /// A write waits for its rate: ``delayIsOver(_:)`` is to be called then. No message is taken before.
        case delayed(until: MonotonicTime)
    }

    /// A write that waits for its rate, and was counted.
    private struct DelayedWrite {
        let request: Request
        let byteCount: Int
        let end: MonotonicTime
    }

    /// Why a client is signed out.
    enum SignOutReason {
        case expired
        case revoked

        fileprivate var text: Text {
            switch self {
            case .expired: "Auth token is expired."
            case .revoked: "Auth token is no longer accepted."
            }
        }
    }

    /// Tokens that may be refused one after the other before the connection ends. Our own limit: clients
    /// close after one.
    private static let refusalLimit: UInt8 = 64
    /// Sign-ins of one connection that may queue onDisconnect writes; at one more the connection ends, and
    /// the client connects again. Our own limit: with a new sign-in each hour it is reached after ten
    /// days.
    private static let signInLimit = 256

    /// By which the databases know the session.
    package let id: SessionID
    private var credential = Credential.anonymous
    /// What is being verified, and the number to answer with.
    private var verifying: Box<(asked: AuthenticationRequest, number: Int64)>?
    private var refusalCount: UInt8 = 0
    /// Whose ``credential`` is; nil for a client that is not signed in.
    private var identity: Box<Identity>?
    /// Credentials with which the client has signed in so far: the last one has this number.
    private var credentialCount: UInt32 = 0
    /// The sign-ins that have queued onDisconnect writes, each once; the number of a sign-in is its index
    /// plus one. They stay here after a sign-out, as their writes do.
    private var signIns: [SignIn] = []
    /// Nil until there is something to note.
    private var allowance: ConnectionAllowance?
    private var window = RequestWindow()
    /// Bytes of the message that a worker parses; 0 for none.
    private(set) var parsingByteCount = 0
    /// Nil for most sessions.
    private var delayed: Box<DelayedWrite>?
    /// A ping waits for its pong until the client has taken what it was sent.
    var isPongOwed = false

    init(_ id: SessionID) {
        self.id = id
    }

    /// No message is taken for now, or ever.
    var isFull: Bool {
        window.isFull || parsingByteCount > 0 || verifying != nil || delayed != nil
            || refusalCount >= Self.refusalLimit
    }

    /// Bytes of a message that was taken and is not posted yet.
    var heldByteCount: Int { parsingByteCount + (delayed?.value.byteCount ?? 0) }

    /// When the write that waits is to be made; nil where none waits.
    var delayEnd: MonotonicTime? { delayed?.value.end }

    /// Whether the client has sent more while requests of its own waited: where the databases are behind, it
    /// is paused, and a client that waits for its replies is not (``RequestWindow/isLarge``).
    var hasManyRequests: Bool { window.isLarge }

    /// Whether a mark of the request window has not come back.
    var awaitsAnswers: Bool { window.awaitsMark }

    /// When the credential expires, in seconds since 1970; nil where it does not.
    var expiry: Int64? { identity?.value.validUntil }

    // MARK: Messages

    /// Takes the next message.
    /// - Precondition: ``isFull`` is false, and the transport is open.
    mutating func receive(_ message: RawSpan, _ context: inout ConnectionContext) -> Outcome {
        guard message.byteCount <= ConnectionLimits.smallByteCount else {
            return parseElsewhere([UInt8](copying: message), &context)
        }
        do {
            return try accept(ClientMessage(parsing: message), byteCount: message.byteCount, &context)
        } catch {
            return .malformed
        }
    }

    private mutating func accept(
        _ message: consuming ClientMessage, byteCount: Int, grant: ParsingBudget.Grant? = nil,
        _ context: inout ConnectionContext
    ) -> Outcome {
        let outcome: Outcome
        switch message {
        case .request:
            // Moved out of the message: nothing of a request is copied on its way to the databases.
            guard case .request(let request) = consume message else { return .nothing }
            return admit(request, byteCount: byteCount, grant: grant, &context)
        case .ping: outcome = .ping
        case .upgrade: outcome = .upgrade
        case .endOfTransmission: outcome = .endOfTransmission
        case .unknownControl: outcome = .nothing
        }
        // Nothing is posted for it; but a client that sends nothing else takes its turns like all others.
        markWindow(byteCount, &context)
        return outcome
    }

    /// As above; a large message is not copied.
    mutating func receive(_ message: [UInt8], _ context: inout ConnectionContext) -> Outcome {
        if message.count > ConnectionLimits.smallByteCount {
            parseElsewhere(message, &context)
        } else {
            receive(message.rawSpan, &context)
        }
    }

    /// Has a worker parse a large message: others on this loop would wait for milliseconds. What follows it
    /// waits.
    private mutating func parseElsewhere(_ message: [UInt8], _ context: inout ConnectionContext) -> Outcome {
        parsingByteCount = message.count
        context.append(.parse(message))
        return .nothing
    }

    /// As above, of a message that a worker inflates, too (RFC 7692): to do it here would take as long as its
    /// text is, which may be 4000 times as long as this; or the loop has inflated enough in this tick.
    mutating func receiveCompressed(_ message: [UInt8], _ context: inout ConnectionContext) {
        parsingByteCount = message.count
        context.append(.inflate(message))
    }

    /// A message could not be inflated.
    mutating func parsingFailed() { parsingByteCount = 0 }

    /// A worker has parsed a large message.
    /// - Parameter isOpen: Whether its request is posted.
    mutating func parsed(_ message: ParsedMessage, isOpen: Bool, _ context: inout ConnectionContext)
        -> Outcome
    {
        parsingByteCount = 0
        guard isOpen else { return .nothing }
        return switch message.result {
        case .success(let content):
            accept(content, byteCount: message.byteCount, grant: message.grant, &context)
        case .failure: .malformed
        }
    }

    // MARK: Requests

    /// - Parameter grant: The memory of a large request. A request that waits for its user's rate does not
    ///   hold the grant, since other sessions' requests could not be parsed meanwhile.
    private mutating func admit(
        _ request: consuming Request, byteCount: Int, grant: ParsingBudget.Grant? = nil,
        _ context: inout ConnectionContext
    ) -> Outcome {
        guard request.action.countsAsWrite, !context.settings.limits.rates.isUnlimited,
            identity?.value.credential.isAdmin != true
        else {
            post(request, byteCount: byteCount, grant: grant, &context)
            return .nothing
        }
        let client = identity.flatMap { LimitedUser($0.value) }.map { LimitedClient.user($0) }
        switch madeAllowance().takeWrite(
            byteCount, of: client, waitingAtMost: WriteRates.longestDelay, at: context.now,
            context.settings.limits)
        {
        case .now: post(request, byteCount: byteCount, grant: grant, &context)
        case .later(let excess):
            context.append(.countDelay(excess.limit))
            let end = context.now + excess.wait
            delayed = Box(DelayedWrite(request: request, byteCount: byteCount, end: end))
            return .delayed(until: end)
        case .refused(let excess):
            context.append(.countLimit(excess.limit))
            reply(.limitExceeded(request.number, excess.limit), byteCount, &context)
        }
        return .nothing
    }

    /// The time of a write that has waited has come: as if it were read now. Nothing happens where none
    /// waits.
    mutating func delayIsOver(_ context: inout ConnectionContext) {
        guard let write = delayed.take()?.value else { return }
        post(write.request, byteCount: write.byteCount, &context)
    }

    /// Posts a request, or replies to it.
    private mutating func post(
        _ request: consuming Request, byteCount: Int, grant: ParsingBudget.Grant? = nil,
        _ context: inout ConnectionContext
    ) {
        let number = request.number
        var signIn: UInt32 = 0
        switch request.action {
        case .listen, .unlisten, .get, .put, .transaction, .merge, .onDisconnectCancel: break
        case .onDisconnectPut, .onDisconnectMerge:
            guard let number = signInNumber() else { return reply(.finished, byteCount, &context) }
            signIn = number
        case .authenticate(let authentication):
            verifying = Box((authentication, number))
            return context.append(.verify(authentication.token))
        case .unauthenticate:
            changeCredential(to: .anonymous, nil, &context)
            return reply(.unauthenticated(number), byteCount, &context)
        case .statistics: return reply(.ok(number), byteCount, &context)
        case .appCheck, .dropAppCheck: return reply(.ok(number), byteCount, &context)
        case .unknown: return reply(.unknownAction(number), byteCount, &context)
        case .invalid(_, let problem): return reply(.invalid(number, problem), byteCount, &context)
        }
        // In one place only: it is moved there, not copied.
        context.post(
            .request(
                id, request, credential, credentialNumber: credentialNumber, signIn: signIn,
                byteCount: byteCount, received: context.now, grant: grant),
            byteCount: byteCount)
        markWindow(byteCount, &context)
    }

    private mutating func madeAllowance() -> ConnectionAllowance {
        if let allowance { return allowance }
        let made = ConnectionAllowance()
        allowance = made
        return made
    }

    /// Counts the connection as one of the user from now on, if the user may have one more.
    /// - Returns: Whether it does.
    private mutating func tryToCount(as identity: Identity, _ context: inout ConnectionContext) -> Bool {
        let limits = context.settings.limits
        guard let users = limits.users, users.connectionLimit > 0 else { return true }
        return madeAllowance().become(LimitedUser(identity), at: context.now, limits)
    }

    /// The number of the sign-in that is in force, under which something is queued; 0 for none. Nil when
    /// there have been too many.
    private mutating func signInNumber() -> UInt32? {
        guard let signIn = identity?.value.signIn else { return 0 }
        if let place = signIns.lastIndex(of: signIn) { return UInt32(place) + 1 }
        guard signIns.count < Self.signInLimit else { return nil }
        signIns.append(signIn)
        return UInt32(signIns.count)
    }

    private mutating func reply(
        _ reply: SessionReply, _ byteCount: Int, _ context: inout ConnectionContext
    ) {
        context.post(.reply(id, reply, byteCount: byteCount), byteCount: byteCount)
        markWindow(byteCount, &context)
    }

    private mutating func markWindow(_ byteCount: Int, _ context: inout ConnectionContext) {
        if window.add(byteCount: byteCount) { context.post(.windowMark(id)) }
    }

    /// Everything before a mark of the request window was sent.
    mutating func windowMarkReturned() { window.returnMark() }

    // MARK: The credential

    /// The number of ``credential``; 0 for a client that is not signed in.
    private var credentialNumber: UInt32 { identity == nil ? 0 : credentialCount }

    /// The client has another credential from now on, and the databases learn of it.
    /// - Parameter identity: Whose the credential is; nil for a client that is not signed in.
    private mutating func changeCredential(
        to credential: Credential, _ identity: Identity?, _ context: inout ConnectionContext
    ) {
        // A client that signs in for hours on end must not make the server trap.
        if identity != nil { credentialCount &+= 1 }
        setCredential(credential, identity, &context)
        context.post(.credentialChanged(id, credential, number: credentialNumber))
    }

    /// Without a message to the databases.
    private mutating func setCredential(
        _ credential: Credential, _ identity: Identity?, _ context: inout ConnectionContext
    ) {
        let oldExpiry = expiry
        if identity == nil { allowance?.userGrant = nil }
        self.credential = credential
        self.identity = identity.map { Box($0) }
        if expiry != oldExpiry { context.append(.expire(at: expiry)) }
    }

    /// The client has shown an administrator's certificate with its connection: it need not sign in.
    mutating func becomeAdministrator(_ context: inout ConnectionContext) {
        allowance?.userGrant = nil
        changeCredential(to: .admin, Identity(credential: .admin), &context)
    }

    /// The credential has ended (it has expired, or was revoked): the client is signed out until it sends a
    /// fresh one (auth §4.2). Clients fetch a fresh one at once, and back off when that one is refused, too.
    /// The databases learn of it before they execute what the client has sent, and refuse that.
    /// - Returns: The message that says so.
    mutating func signOut(_ reason: SignOutReason, _ context: inout ConnectionContext) -> [UInt8] {
        var message: [UInt8] = []
        message.append(authRevoked: .expiredToken, reason: reason.text)
        let number = credentialNumber
        setCredential(.anonymous, nil, &context)
        context.post(.credentialEnded(id, number: number))
        return message
    }

    /// Keys or revocations have changed. The onDisconnect writes of revoked sign-ins are dropped, also
    /// those of earlier sign-ins of this session. (A sign-in that only expires keeps its writes.)
    /// - Returns: Whether the client must be signed out.
    mutating func recheck(_ revocations: RevocationState, _ context: inout ConnectionContext) -> Bool {
        let revoked = signIns.indices.filter { !revocations.allows(signIns[$0]) }
        if !revoked.isEmpty {
            context.post(.revoked(id, Set(revoked.map { UInt32($0) + 1 }), upTo: credentialCount))
        }
        guard let identity = identity?.value else { return false }
        return !revocations.allows(identity)
    }

    /// A token was verified. Does nothing where none was being verified.
    mutating func verified(_ result: VerificationResult, _ context: inout ConnectionContext) {
        guard let (asked, number) = verifying.take()?.value else { return }
        refusalCount += 1
        switch result {
        case .accepted(let identity):
            do throws(NotAnAdministrator) {
                let credential = try identity.credential(asking: asked)
                guard tryToCount(as: identity, &context) else {
                    context.append(.countLimit(.connectionsPerUser))
                    reply(.limitExceeded(number, .connectionsPerUser), 0, &context)
                    break
                }
                refusalCount = 0
                changeCredential(to: credential, identity, &context)
                reply(
                    .authenticated(number, authVariable: credential.authVariable, expires: identity.expires),
                    0, &context)
            } catch {
                reply(.authenticationFailed(number, isExpired: false, reason: "Access denied."), 0, &context)
            }
        case .refused(let error): refuse(error, number, &context)
        }
        if refusalCount >= Self.refusalLimit { reply(.finished, 0, &context) }
    }

    private mutating func refuse(_ error: TokenError, _ number: Int64, _ context: inout ConnectionContext) {
        switch error {
        case .expired:
            reply(
                .authenticationFailed(number, isExpired: true, reason: "Auth token is expired."), 0, &context)
        case .keysUnavailable:
            reply(
                .authenticationUnavailable(number, reason: "The token cannot be verified at the moment."), 0,
                &context)
        case .tooManyFailures:
            reply(
                .authenticationUnavailable(number, reason: "Too many bad credentials from this address."), 0,
                &context)
        default:
            reply(
                .authenticationFailed(number, isExpired: false, reason: "Could not parse auth token."), 0,
                &context)
        }
    }

    // MARK: The end

    /// What carries it is gone, or goes on without it.
    mutating func close(_ context: inout ConnectionContext) {
        if expiry != nil { context.append(.expire(at: nil)) }
        verifying = nil
        delayed = nil
        allowance = nil
        if parsingByteCount > 0 { context.append(.abandonJobs) }
    }

    /// Another transport carries it from now on, with a copy of it.
    mutating func moveToOtherTransport() {
        allowance = nil
    }
}

extension Action {
    /// Whether ``WriteRates`` count it.
    fileprivate var countsAsWrite: Bool {
        switch self {
        case .put, .transaction, .merge, .onDisconnectPut, .onDisconnectMerge: true
        case .listen, .unlisten, .get, .onDisconnectCancel, .authenticate, .unauthenticate, .statistics,
            .appCheck, .dropAppCheck, .unknown, .invalid:
            false
        }
    }
}

extension LargeMessage {
    /// What is sent in place of a message that is larger than clients can take (realtime §2.2, §14): a
    /// request is answered so; data that a listen waits for cannot be left out, so the connection says why
    /// and ends.
    var refusal: [UInt8] {
        var text: [UInt8] = []
        if let number = requestNumber {
            text.append(reply: number, .tooBig, .text(Self.oversizedText))
        } else {
            text.append(errorNotice: Self.oversizedText)
        }
        return text
    }

    private static let oversizedText: Text =
        "The specified payload is too large, please request a location with less data."
}

import PandoBytes
import PandoDatabase
import PandoEngine
import PandoHTTP
import PandoREST
import PandoStaticFiles
import PandoTime

/// One REST request of a connection, from its head to its response; the next one begins when that is sent.
///
///     none ─▶ body ─▶ answering ─▶ responding ─▶ none
///      └──▶ admitting ⇅  │            ▲    a large body comes only where something may come of it
///                        └────────────┴──▶ none: an event stream
///
/// From the head, through the body and the verification of the token, to a call of the databases; how its
/// result becomes the response is in `RESTExchange+Results.swift`.
struct RESTExchange {
    enum State {
        /// No request is in progress.
        case none
        /// ``body`` gathers its bytes.
        case body(PendingRequest)
        /// A large body waits, announced or begun, until it is known that the request is not refused whatever
        /// it says.
        case admitting(PendingRequest)
        /// It waits for ``work``, or for the databases.
        case answering(PendingRequest)
        /// The response is known, and on its way. nil where nothing is left of the request.
        case responding(PendingRequest?)
    }

    /// What the connection does next.
    enum Step {
        /// Nothing, until something else has happened.
        case wait
        /// Read the body.
        case readBody
        /// Send the response; then ``end(_:)``.
        case respond(RESTResponse)
        /// Begin the event stream.
        case stream(RESTRequest, PendingRequest)
        /// Refuse what is no request: nothing can be read behind it.
        case refuse(HTTPStatus, ResponseContext)
    }

    /// By which the databases know the connection.
    let id: SessionID
    /// The connection was accepted in the administrators' reserve.
    let isReserved: Bool
    var state = State.none
    /// What another thread does for the request.
    var work = RequestWork.none
    /// About the bytes of memory of a result that waits for its turn, as far as they are not the tree's.
    private(set) var waitingByteCount = 0
    /// Bytes of memory that the response keeps and the tree has no longer.
    var keptByteCount: Int {
        switch state {
        case .answering(let pending), .responding(let pending?): pending.pin?.byteCount ?? 0
        case .none, .body, .admitting, .responding(nil): 0
        }
    }

    var body: RequestBody
    var limits = RequestLimits()
    /// The request has a time of its own.
    var hasTimeout = false
    /// A request was posted to the databases.
    private var hasPosted = false

    init(_ id: SessionID, isReserved: Bool, at now: MonotonicTime) {
        self.id = id
        self.isReserved = isReserved
        body = RequestBody(at: now)
    }

    /// Bytes of a body that is not complete, or that a thread has.
    var unfinishedByteCount: Int { body.unfinishedByteCount }

    /// The body is read.
    var awaitsBody: Bool { if case .body = state { true } else { false } }

    /// What follows the head or the body waits: it is with the databases or another thread, or its response
    /// is on its way.
    var isUnderWay: Bool {
        switch state {
        case .admitting, .answering, .responding: true
        case .none, .body: false
        }
    }

    /// The request was read to its end, and its response is due or on its way.
    var isDue: Bool {
        switch state {
        case .answering, .responding: true
        case .none, .body, .admitting: false
        }
    }

    // MARK: The head

    /// Begins a request whose head is there.
    mutating func begin(
        _ head: RequestHead, of client: inout RequestClient, _ context: inout ConnectionContext
    ) -> Step {
        var response = ResponseContext(
            head, dateLine: context.dateLine, compressor: context.settings.compressor)
        // Its place in the reserve is for one request.
        if isReserved { response.keepsAlive = false }
        if !isReserved, StaticSite.mayHave(head), let site = context.settings.siteHolder?.site,
            let file = site.response(to: head, acceptsGzip: response.acceptsGzip)
        {
            // Content means nothing in a GET (RFC 9110 §9.3.1). It is not read, so nothing behind it can be.
            if head.hasContent { response.keepsAlive = false }
            return respond(.file(file.status, head: file.head, body: file.body, response), nil)
        }
        let address = RESTAddress(head)
        if address.isPreflight, !isReserved {
            return respond(.preflight(head, dateLine: context.dateLine), nil)
        }
        guard limits.admits(client, &context) else {
            // Its body is not read, so nothing behind it can be.
            if head.hasContent { response.keepsAlive = false }
            return respond(.error(.limitExceeded(.connectionsPerAddress, retrySeconds: 1), response), nil)
        }
        let namespace =
            address.namespace.map(NamespaceName.received) ?? client.namespace(fromHost: head.authorityBytes)
        let request: RESTRequest
        do throws(RESTError) {
            request = try RESTRequest(head, address, acceptsUploads: context.settings.isDevelopment)
        } catch {
            // Its body is not read, so nothing behind it can be.
            if head.hasContent { response.keepsAlive = false }
            let pending = PendingRequest(response, namespace: namespace, began: context.now)
            return post(.refuse(error), pending, byteCount: 0, &context)
        }
        let pending = PendingRequest(response, request, namespace: namespace, began: context.now)
        pending.hasCertificate =
            context.socket.isAdministrator
            && head.mayUseCertificate(inScript: request.form.callback != nil)
        if isReserved, request.credential.token == nil, !pending.hasCertificate {
            return refuseReserved(pending.response, &context)
        }
        // Most reads: no body, and so no state in which it is awaited.
        if head.framing == .none { return process(pending, &context) }
        do throws(RequestContent.Refusal) {
            try body.begin(of: head, byteLimit: context.settings.writeByteLimit)
        } catch {
            return refuse(error, pending, &context)
        }
        pending.expectsContinue = head.expectsContinue
        // No body is waited for before it is known to be an administrator's.
        if isReserved { return admit(pending, &context) }
        if case .length(let count) = head.framing, count > ConnectionLimits.smallByteCount {
            return admit(pending, &context)
        }
        return awaitBody(pending, &context)
    }

    // MARK: The body

    /// Asks whether anything may come of the request, before a large body is read: whose it is, and may they
    /// write at all?
    private mutating func admit(_ pending: PendingRequest, _ context: inout ConnectionContext) -> Step {
        state = .admitting(pending)
        return verify(pending, &context)
    }

    mutating func awaitBody(_ pending: PendingRequest, _ context: inout ConnectionContext) -> Step {
        if pending.expectsContinue { context.write(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)) }
        pending.expectsContinue = false
        body.restartRate(at: context.now)
        state = .body(pending)
        return .readBody
    }

    /// Reads bytes of the body from `offset` on, and moves `offset` behind them.
    /// - Returns: ``Step/readBody`` when more bytes are needed.
    mutating func readBody(
        _ bytes: RawSpan, from offset: inout Int, _ context: inout ConnectionContext
    ) -> Step {
        guard case .body(let pending) = state else { return .wait }
        do throws(RequestContent.Refusal) {
            if try body.read(bytes, from: &offset) { return process(pending, &context) }
            if body.isLarge, !pending.isAdmitted { return admit(pending, &context) }
            return .readBody
        } catch {
            return refuse(error, pending, &context)
        }
    }

    /// Nothing more is read of a body, so nothing behind it can be. Its problem is reported in the order of
    /// checks of rest §9.
    private mutating func refuse(
        _ refusal: RequestContent.Refusal, _ pending: PendingRequest, _ context: inout ConnectionContext
    ) -> Step {
        dropBody(&context)
        switch refusal {
        case .http(let error): return .refuse(error.status, pending.response)
        case .request(let error):
            pending.response.keepsAlive = false
            pending.bodyProblem = error
            return process(pending, &context)
        }
    }

    /// Now and then, while the body comes.
    /// - Parameter isRead: A paused client cannot be too slow.
    private mutating func checkBodyRate(
        _ pending: PendingRequest, isRead: Bool, _ context: inout ConnectionContext
    ) -> Step {
        guard isRead else {
            body.restartRate(at: context.now)
            return .wait
        }
        guard body.isTooSlow(at: context.now, window: context.settings.requestTimeout) else { return .wait }
        dropBody(&context)
        return .refuse(.requestTimeout, pending.response)
    }

    // MARK: To the databases

    /// Posts a request that is in progress, or waits to be admitted.
    /// - Parameter grant: What a large body takes of the process's memory.
    mutating func post(
        _ action: RESTCall.Action, _ pending: PendingRequest, byteCount: Int,
        grant: ParsingBudget.Grant? = nil, _ context: inout ConnectionContext
    ) -> Step {
        switch state {
        case .admitting: break
        case .none, .body, .answering, .responding: state = .answering(pending)
        }
        if case .refuse(.payloadTooLarge) = action { context.append(.countLimit(.bodyBytes)) }
        hasPosted = true
        let call = RESTCall(
            namespace: pending.namespace, action: action, pin: pending.pin, grant: grant)
        context.post(.rest(id, call, byteCount: byteCount), byteCount: byteCount)
        return .wait
    }

    // MARK: Refusals

    /// The response is known.
    mutating func respond(_ response: consuming RESTResponse, _ pending: PendingRequest?) -> Step {
        state = .responding(pending)
        return .respond(response)
    }

    /// Refuses a request, or the handshake of a WebSocket, that a `--dev` server does not serve.
    mutating func refuse(
        _ head: RequestHead, _ request: ForeignRequest, _ context: inout ConnectionContext
    ) -> Step {
        context.append(.http(.reportForeign(request)))
        var response = ResponseContext(head, dateLine: context.dateLine)
        // A body is not read, so nothing behind it can be.
        response.keepsAlive = false
        return respond(.error(.forbidden, text: request.reason, response), nil)
    }

    /// The connection is in the administrators' reserve, and the request is no administrator's.
    mutating func refuseReserved(
        _ response: consuming ResponseContext, _ context: inout ConnectionContext
    ) -> Step {
        context.append(.http(.countRefusal))
        cancelTimeout(&context)
        dropBody(&context)
        response.keepsAlive = false
        return respond(.error(.tooManyConnections, response), nil)
    }

    // MARK: The request's own time

    mutating func setTimeout(_ timeout: Duration, _ context: inout ConnectionContext) {
        hasTimeout = true
        context.append(.wake(at: context.now + timeout))
    }

    mutating func cancelTimeout(_ context: inout ConnectionContext) {
        guard hasTimeout else { return }
        hasTimeout = false
        context.append(.wake(at: nil))
    }

    /// Now and then: whether the body comes too slowly, or the response takes too long.
    /// - Parameter isRead: The socket is read.
    mutating func tick(isRead: Bool, _ context: inout ConnectionContext) -> Step {
        switch state {
        case .body(let pending): return checkBodyRate(pending, isRead: isRead, &context)
        case .answering(let pending):
            let isTooLate = context.now - pending.began > RESTLimits.timeout
            return pending.request?.method.isRead == true && isTooLate ? giveUp(&context) : .wait
        case .none, .admitting, .responding: return .wait
        }
    }

    // MARK: The end

    /// The response was sent, or never will be.
    mutating func end(_ context: inout ConnectionContext) {
        releaseLargeUpdate(&context)
        limits.release()
        state = .none
    }

    /// The connection is gone.
    mutating func close(_ context: inout ConnectionContext) {
        dropBody(&context)
        limits.release()
        cancelWork(&context)
        cancelTimeout(&context)
        releaseLargeUpdate(&context)
        state = .none
    }

    /// What another thread finds comes too late: its job is dropped, where it has not begun.
    mutating func cancelWork(_ context: inout ConnectionContext) {
        switch work {
        case .measuring, .inspecting, .readingHistory: context.append(.abandonJobs)
        case .readingBody:
            body.ended()
            context.append(.cancelBody)
        case .none, .verifying, .awaitingTurn: break
        }
        endWork()
    }

    /// Nothing is waited for any more.
    mutating func endWork() {
        work = .none
        waitingByteCount = 0
    }

    /// The result is there, and others have their turn before it is printed.
    mutating func awaitTurn(
        _ result: RESTCallResult, etag: String?, _ pending: PendingRequest,
        _ context: inout ConnectionContext
    ) {
        work = .awaitingTurn(result, etag: etag)
        waitingByteCount = result.ownedByteCount(for: pending.request)
        context.append(.nextTurn)
    }

    /// Posts the end of the connection to the databases, where a request of it was posted before.
    mutating func endSession(_ context: inout ConnectionContext) {
        guard hasPosted else { return }
        hasPosted = false
        context.post(.closed(id))
    }

    /// Drops the body, or what of it is here.
    mutating func dropBody(_ context: inout ConnectionContext) { release(body.take().bytes, &context) }

    /// Frees the bytes of a body; where that takes long, another thread does.
    func release(_ bytes: consuming ByteBlocks, _ context: inout ConnectionContext) {
        if bytes.takesLongToFree { context.append(.releaseBody(bytes)) }
    }

    /// Has another thread free the body of the request, where it is large.
    private func releaseLargeUpdate(_ context: inout ConnectionContext) {
        switch state {
        case .answering(let pending), .responding(let pending?):
            if let update = pending.takeLargeUpdate() { context.append(.release(update)) }
        case .none, .body, .admitting, .responding(nil): break
        }
    }
}

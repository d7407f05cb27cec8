import PandoBytes
import PandoDatabase
import PandoEngine
import PandoHTTP
import PandoIdentity
import PandoREST

// From the result of a call to the response, and the response to the socket.

extension HTTPConnection {
    // MARK: Results

    /// The databases have finished a request.
    package mutating func receive(_ result: RESTCallResult, _ context: inout ConnectionContext) {
        // A response that is being sent is that of a request that was given up, whose result comes too late.
        if case .admitting(let pending) = stage {
            if case .admitted = result {
                pending.isAdmitted = true
                awaitBody(pending, &context)
                return readAhead(&context)
            }
            // Behind a body that is not read nothing can be.
            takeBody()
            pending.response.keepsAlive = false
            stage = .answering(pending)
        }
        guard case .answering(let pending) = stage, !response.isActive else { return }
        guard let request = pending.request else {
            return send(result.response(to: nil, nil, etag: nil, pending.response), pending, &context)
        }
        if case .deferred(let job) = result {
            work = .inspecting
            return context.append(.inspect(job))
        }
        if case .stream = result { return openStream(request, pending, &context) }
        let byteLimit = result.isRead && !request.isShallow ? context.settings.readByteLimit : nil
        if case .filtered(let node, let query) = result {
            work = .measuring(result)
            return context.append(
                .measure(node, query, byteLimit: byteLimit, wantsETag: request.returnsETag))
        }
        let wantsETag = result.wantsETag(request)
        guard let node = result.node, byteLimit != nil || wantsETag else {
            return respond(result, etag: nil, pending, &context)
        }
        let isLarge = node.isHeavier(than: min(StreamOutput.measuredByteCount, byteLimit ?? .max))
        if isLarge, let byteLimit, byteLimit <= StreamOutput.measuredByteCount {
            return respond(.refused(.readTooLarge), etag: nil, pending, &context)
        }
        guard isLarge else { return respond(result, etag: wantsETag ? node.etag : nil, pending, &context) }
        work = .measuring(result)
        context.append(.measure(node, nil, byteLimit: byteLimit, wantsETag: wantsETag))
    }

    /// A worker has measured the data of the result in ``work``, or a stream's first event.
    package mutating func measured(_ size: NodeSizeCheck, _ context: inout ConnectionContext) {
        switch stage {
        case .answering(let pending):
            guard case .measuring(var result) = work else { return }
            work = .none
            if let filtered = size.filtered {
                result = pending.request?.page == nil ? .read(filtered) : .page(filtered, end: size.endOfPage)
            }
            respond(size.isTooHeavy ? .refused(.readTooLarge) : result, etag: size.etag, pending, &context)
        case .streaming:
            stream?.measured(isTooHeavy: size.isTooHeavy)
            sendEvents(&context)
        case .head, .body, .admitting, .draining, .ended: break
        }
    }

    /// Another thread has done what the databases have deferred.
    package mutating func inspected(_ report: RESTReport, _ context: inout ConnectionContext) {
        guard case .answering(let pending) = stage, case .inspecting = work else { return }
        work = .none
        respond(.report(report), etag: nil, pending, &context)
    }

    private mutating func respond(
        _ result: RESTCallResult, etag: String?, _ pending: PendingRequest,
        _ context: inout ConnectionContext
    ) {
        guard !context.printing.isUsedUp || !pending.isLong(result) else {
            work = .awaitingTurn(result, etag: etag)
            return context.append(.nextTurn)
        }
        print(result, etag: etag, pending, &context)
    }

    private mutating func print(
        _ result: RESTCallResult, etag: String?, _ pending: PendingRequest,
        _ context: inout ConnectionContext
    ) {
        cancelTimeout(&context)
        if pending.response.acceptsGzip, !context.mayCompress { pending.response.acceptsGzip = false }
        send(
            result.response(to: pending.request, pending.update, etag: etag, pending.response), pending,
            &context)
    }

    // MARK: Sending

    mutating func send(
        _ response: consuming RESTResponse, _ pending: PendingRequest, _ context: inout ConnectionContext
    ) {
        stage = .answering(pending)
        logAccess(response.status, &context)
        outputRate.begin(context.socket)
        advance(self.response.begin(response, &context), &context)
    }

    private mutating func sendMore(isTurn: Bool = false, _ context: inout ConnectionContext) {
        if response.isActive { advance(response.proceed(isTurn: isTurn, &context), &context) }
    }

    private mutating func advance(_ progress: ResponseOutput.Progress, _ context: inout ConnectionContext) {
        switch progress {
        case .waits: break
        case .yields: context.append(.nextTurn)
        case .ended(let closes): endResponse(closes: closes, &context)
        }
    }

    /// All of the response was written.
    mutating func endResponse(closes: Bool, _ context: inout ConnectionContext) {
        releaseLargeUpdate(&context)
        client.release()
        guard !closes, !endsAfterResponse else { return endConnection(&context) }
        guard !polls.mustDrain(context) else { return stage = .draining }
        stage = .head
        readByteLimit = RequestInput.headReadByteCount
        activity = .idle
        idleSince = context.now
        readAhead(&context)
    }

    /// Has another thread free the body of the request in progress, where it is large.
    mutating func releaseLargeUpdate(_ context: inout ConnectionContext) {
        guard case .answering(let pending) = stage, let update = pending.takeLargeUpdate() else { return }
        context.append(.release(update))
    }

    /// Nothing more is read or written.
    mutating func endConnection(_ context: inout ConnectionContext) {
        client.release()
        stage = .ended
        activity = .idle
        context.append(.closeAfterFlush)
    }

    /// Other connections have had their turn.
    package mutating func nextTurn(_ context: inout ConnectionContext) {
        response.turnCame()
        stream?.turnCame()
        switch stage {
        case .answering(let pending):
            guard case .awaitingTurn(let result, let etag) = work else {
                return sendMore(isTurn: true, &context)
            }
            work = .none
            print(result, etag: etag, pending, &context)
        case .streaming: sendEvents(isTurn: true, &context)
        case .head where isYielding && !endsAfterResponse: readAhead(&context)
        case .head, .body, .admitting, .draining, .ended: break
        }
    }

    /// The client has taken nearly all that was written.
    package mutating func drained(_ context: inout ConnectionContext) {
        sendMore(&context)
        if case .draining = stage { endResponse(closes: endsAfterResponse, &context) }
        sendEvents(&context)
    }

    // MARK: Refusals

    /// The response to what is no request. Nothing can be read behind it.
    mutating func refuse(_ status: HTTPStatus, isHead: Bool, _ context: inout ConnectionContext) {
        takeBody()
        var response = RESTResponse.refusal(status, isHead: isHead, dateLine: context.dateLine)
        while let bytes = response.next() { context.write(bytes) }
        endConnection(&context)
    }

    /// Refuses a request, or the handshake of a WebSocket, that a `--dev` server does not serve.
    mutating func refuse(
        _ head: RequestHead, _ request: ForeignRequest, _ context: inout ConnectionContext
    ) {
        context.append(.http(.reportForeign(request)))
        var response = ResponseContext(head, dateLine: context.dateLine)
        // A body is not read, so nothing behind it can be.
        response.keepsAlive = false
        send(
            .error(.forbidden, text: request.reason, response), PendingRequest(response, began: context.now),
            &context)
    }

    /// The connection is in the administrators' reserve, and the request is no administrator's.
    mutating func refuseReserved(_ pending: PendingRequest, _ context: inout ConnectionContext) {
        context.append(.http(.countRefusal))
        cancelTimeout(&context)
        takeBody()
        pending.response.keepsAlive = false
        send(.error(.tooManyConnections, pending.response), pending, &context)
    }

    /// The request's own time is over (rest §4). A result that still comes is dropped, and the connection
    /// ends behind the refusal.
    mutating func giveUpRequest(_ context: inout ConnectionContext) {
        guard case .answering(let pending) = stage, !response.isActive else { return }
        pending.response.keepsAlive = false
        if case .inspecting = work { context.append(.abandonJobs) }
        cancelWork(&context)
        cancelTimeout(&context)
        send(.error(.readTimedOut, pending.response), pending, &context)
    }

    /// What another thread finds comes too late.
    mutating func cancelWork(_ context: inout ConnectionContext) {
        if case .readingBody = work { context.append(.cancelBody) }
        work = .none
    }

    // MARK: Event streams

    private mutating func openStream(
        _ request: RESTRequest, _ pending: PendingRequest, _ context: inout ConnectionContext
    ) {
        logAccess(.ok, &context)
        cancelTimeout(&context)
        stage = .streaming
        stream = StreamOutput(
            id, request, for: pending.identity, dateLine: pending.response.dateLine, &context)
        resume()
    }

    /// The databases have events for the stream.
    package mutating func receive(_ events: [StreamEvent], _ context: inout ConnectionContext) {
        guard case .streaming = stage else { return }
        if stream?.append(events, &context) == false { return context.append(.reset) }
        sendEvents(&context)
        stream?.noteLag(&context)
        // A client that has closed its side gets what there is: it cannot be seen whether it still reads.
        if endsAfterResponse { context.append(.closeAfterFlush) }
    }

    private mutating func sendEvents(isTurn: Bool = false, _ context: inout ConnectionContext) {
        guard case .streaming = stage else { return }
        if stream?.send(isTurn: isTurn, &outputRate, &context) == false { context.append(.closeAfterFlush) }
    }

    /// The credential of the stream is over.
    package mutating func expired(_ context: inout ConnectionContext) {
        stream?.expired()
        receive([.authRevoked], &context)
    }

    /// Keys or revocations have changed.
    package mutating func recheck(_ revocations: RevocationState, _ context: inout ConnectionContext) {
        if stream?.recheck(revocations) == true { receive([.authRevoked], &context) }
    }

    // MARK: The log

    /// The response to the request begins.
    mutating func logAccess(_ status: HTTPStatus, _ context: inout ConnectionContext) {
        guard let request = loggedRequest.take() else { return }
        request.status = status.code
        request.ended = context.now
        context.append(.http(.logAccess(request)))
    }
}

import PandoDatabase
import PandoEngine
import PandoREST

// From the result of a call to the response.

extension RESTExchange {
    /// The databases have finished a request.
    mutating func receive(_ result: RESTCallResult, _ context: inout ConnectionContext) -> Step {
        if case .admitting(let pending) = state {
            if case .admitted = result {
                pending.isAdmitted = true
                return awaitBody(pending, &context)
            }
            // Behind a body that is not read nothing can be.
            dropBody(&context)
            pending.response.keepsAlive = false
            state = .answering(pending)
        }
        // That of a request that was given up comes too late.
        guard case .answering(let pending) = state else { return .wait }
        guard let request = pending.request else {
            return respond(result.response(to: nil, nil, etag: nil, pending.response), nil)
        }
        switch ResultStep(result, of: request, readByteLimit: context.settings.readByteLimit) {
        case .inspect(let job):
            work = RequestWork(job)
            context.append(.inspect(job))
            return .wait
        case .stream:
            cancelTimeout(&context)
            state = .none
            return .stream(request, pending)
        case .measure(let node, let query, let byteLimit, let wantsETag):
            work = .measuring(result)
            context.append(.measure(node, query, byteLimit: byteLimit, wantsETag: wantsETag))
            return .wait
        case .respond(let etag): return respond(result, etag: etag, pending, &context)
        case .refuse(let error): return respond(.refused(error), etag: nil, pending, &context)
        }
    }

    /// A worker has measured the data of the result in ``work``.
    mutating func measured(_ size: NodeSizeCheck, _ context: inout ConnectionContext) -> Step {
        guard case .answering(let pending) = state, case .measuring(var result) = work else { return .wait }
        work = .none
        if let filtered = size.filtered {
            result = pending.request?.page == nil ? .read(filtered) : .page(filtered, end: size.endOfPage)
        }
        return respond(size.isTooHeavy ? .refused(.readTooLarge) : result, etag: size.etag, pending, &context)
    }

    /// Another thread has done what the databases have deferred.
    mutating func inspected(_ report: RESTReport, _ context: inout ConnectionContext) -> Step {
        guard case .answering(let pending) = state else { return .wait }
        switch work {
        case .inspecting, .readingHistory: break
        case .none, .verifying, .readingBody, .measuring, .awaitingTurn: return .wait
        }
        work = .none
        return respond(.report(report), etag: nil, pending, &context)
    }

    private mutating func respond(
        _ result: RESTCallResult, etag: String?, _ pending: PendingRequest,
        _ context: inout ConnectionContext
    ) -> Step {
        guard !context.printing.isUsedUp || !pending.isLong(result) else {
            awaitTurn(result, etag: etag, pending, &context)
            return .wait
        }
        return print(result, etag: etag, pending, &context)
    }

    private mutating func print(
        _ result: RESTCallResult, etag: String?, _ pending: PendingRequest,
        _ context: inout ConnectionContext
    ) -> Step {
        cancelTimeout(&context)
        if pending.response.acceptsGzip, !context.mayCompress { pending.response.acceptsGzip = false }
        // Without a Content-Length, a client with HTTP/1.0 cannot tell a whole body from a part of one.
        pending.response.mayBufferWhole = context.mayBuffer || pending.response.version == .http10
        return respond(
            result.response(to: pending.request, pending.update, etag: etag, pending.response), pending)
    }

    /// Other connections have had their turn.
    mutating func nextTurn(_ context: inout ConnectionContext) -> Step {
        guard case .answering(let pending) = state, case .awaitingTurn(let result, let etag) = work else {
            return .wait
        }
        endWork()
        return print(result, etag: etag, pending, &context)
    }

    // MARK: Giving up

    /// The request's own time is over (rest §4). A result that still comes is dropped, and the connection
    /// ends behind the refusal.
    mutating func giveUp(_ context: inout ConnectionContext) -> Step {
        guard case .answering(let pending) = state else { return .wait }
        pending.response.keepsAlive = false
        cancelWork(&context)
        cancelTimeout(&context)
        return respond(.error(.readTimedOut, pending.response), pending)
    }

    /// What the connection must do with a request whose memory was given up.
    enum MemoryRefusal {
        /// Nothing: a worker may be reading its body, which is whole.
        case none
        /// Disconnect the client.
        case reset
        case refuse(RESTResponse)
    }

    /// Memory is short. Of a body, only what is still coming is given up.
    mutating func giveUpMemory(_ context: inout ConnectionContext) -> MemoryRefusal {
        switch state {
        case .body(let pending), .admitting(let pending):
            dropBody(&context)
            pending.response.keepsAlive = false
            state = .responding(pending)
            return .refuse(.error(.unavailable, pending.response))
        case .answering, .responding:
            if case .readingBody = work { return .none }
            return .reset
        case .none: return .reset
        }
    }
}

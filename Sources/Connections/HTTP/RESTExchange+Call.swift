import PandoBytes
import PandoDatabase
import PandoIdentity
import PandoREST

// From a request that was read, through the verification of its token, to a call of the databases.

extension RESTExchange {
    // MARK: The token

    /// The request is there: first of all, whose is it (auth §1)?
    mutating func process(_ pending: PendingRequest, _ context: inout ConnectionContext) -> Step {
        state = .answering(pending)
        if let request = pending.request, request.method.isRead, request.timeout < RESTLimits.timeout {
            setTimeout(request.timeout, &context)
        }
        if pending.identity != nil { return call(pending, &context) }
        return verify(pending, &context)
    }

    mutating func verify(_ pending: PendingRequest, _ context: inout ConnectionContext) -> Step {
        guard let token = pending.request?.credential.token else {
            // A token counts more than the connection's certificate: an administrator may try what others
            // see.
            let result =
                pending.hasCertificate ? VerificationResult.accepted(Identity(credential: .admin)) : nil
            return proceed(pending, result, &context)
        }
        work = .verifying
        context.append(.verify(token))
        return .wait
    }

    /// The token of the request was verified.
    mutating func verified(_ result: VerificationResult, _ context: inout ConnectionContext) -> Step {
        guard case .verifying = work else { return .wait }
        work = .none
        switch state {
        case .admitting(let pending), .answering(let pending): return proceed(pending, result, &context)
        case .none, .body, .responding: return .wait
        }
    }

    /// - Parameter result: Nil where there is no token.
    private mutating func proceed(
        _ pending: PendingRequest, _ result: VerificationResult?, _ context: inout ConnectionContext
    ) -> Step {
        if isReserved {
            guard case .accepted(let identity) = result, identity.credential.isAdmin else {
                return refuseReserved(pending.response, &context)
            }
            context.append(.http(.keepReserved))
        }
        do throws(RESTError) {
            try pending.identify(result)
        } catch {
            if case .answering = state { dropBody(&context) }
            return post(.refuse(error), pending, byteCount: 0, &context)
        }
        guard case .admitting = state, let request = pending.request else { return call(pending, &context) }
        do throws(RESTError) {
            try pending.checkPlace(isDevelopment: context.settings.isDevelopment)
            return post(.admit(request, pending.credential), pending, byteCount: 0, &context)
        } catch {
            return post(.refuse(error), pending, byteCount: 0, &context)
        }
    }

    // MARK: The call

    /// Checks what the request wants, in the order of rest §9, and posts it, or first gives its body to a
    /// thread.
    /// - Precondition: Its client is known.
    private mutating func call(_ pending: PendingRequest, _ context: inout ConnectionContext) -> Step {
        let (bytes, isGzip) = body.take()
        guard let request = pending.request else { return .wait }
        do throws(RESTError) {
            try pending.checkExpiry(context.wallSeconds)
            try pending.checkPlace(isDevelopment: context.settings.isDevelopment)
            if let problem = pending.bodyProblem { throw problem }
            try limits.check(request, pending, byteCount: bytes.count, &context)
            if let question = try pending.serverQuestion() {
                let job = InspectionJob.server(question)
                work = RequestWork(job)
                context.append(.inspect(job))
                release(bytes, &context)
                return .wait
            }
            guard request.method.isWrite, request.method != .delete else {
                // Content means nothing in these (RFC 9110 §9.3.1, §9.3.5).
                let step = try post(pending.call([]), pending, byteCount: bytes.count, &context)
                release(bytes, &context)
                return step
            }
            guard isGzip || bytes.count > ConnectionLimits.smallByteCount else {
                return try post(whole: bytes.joined(), request, pending, &context)
            }
            if isGzip, case .data = request.location, !pending.isAdministrators,
                !context.settings.limits.rates.isUnlimited
            {
                pending.countedByteCount = bytes.count
            }
            body.gave(bytes.count)
            work = .readingBody
            context.append(.readBody(bytes, isGzip: isGzip, request))
            return .wait
        } catch {
            release(bytes, &context)
            return post(.refuse(error), pending, byteCount: 0, &context)
        }
    }

    /// Parses a small body here, and posts what it asks.
    private mutating func post(
        whole bytes: [UInt8], _ request: RESTRequest, _ pending: PendingRequest,
        _ context: inout ConnectionContext
    ) throws(RESTError) -> Step {
        guard case .data = request.location else {
            return try post(pending.call(bytes), pending, byteCount: bytes.count, &context)
        }
        let body = try request.readBody(bytes.rawSpan, byteLimit: context.settings.writeByteLimit)
        return try post(pending.write(body), pending, byteCount: bytes.count, &context)
    }

    /// The body was inflated and parsed.
    mutating func bodyRead(_ result: BodyResult, _ context: inout ConnectionContext) -> Step {
        guard case .answering(let pending) = state, case .readingBody = work else { return .wait }
        work = .none
        body.ended()
        limits.countInflated(result.byteCount, of: pending, &context)
        do throws(RESTError) {
            switch result.content {
            case .data(let content):
                return try post(
                    pending.write(content), pending, byteCount: result.byteCount, grant: result.grant,
                    &context)
            case .evaluation(let evaluation):
                return try post(
                    pending.evaluation(evaluation), pending, byteCount: result.byteCount,
                    grant: result.grant, &context)
            case .bytes(let bytes):
                return try post(
                    pending.call(bytes), pending, byteCount: bytes.count, grant: result.grant, &context)
            case .refused(let error): throw error
            }
        } catch {
            return post(.refuse(error), pending, byteCount: 0, &context)
        }
    }
}

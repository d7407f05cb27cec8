import PandoBytes
import PandoDatabase
import PandoHTTP
import PandoIdentity
import PandoREST
import PandoStaticFiles
import PandoTime

// From a request whose head is there, through its body and the verification of its token, to a call of the
// databases.

extension HTTPConnection {
    // MARK: The head

    /// Begins a request whose head is there.
    mutating func begin(_ head: RequestHead, _ context: inout ConnectionContext) {
        var response = ResponseContext(
            head, dateLine: context.dateLine, compressor: context.settings.compressor)
        // Its place in the reserve is for one request.
        if isReserved { response.keepsAlive = false }
        if !isReserved, StaticSite.mayHave(head), let site = context.settings.siteHolder?.site,
            let file = site.response(to: head, acceptsGzip: response.acceptsGzip)
        {
            return send(
                .file(file.status, head: file.head, body: file.body, response),
                PendingRequest(response, began: context.now), &context)
        }
        let address = RESTAddress(head)
        if address.isPreflight, !isReserved {
            return send(
                .preflight(head, dateLine: context.dateLine), PendingRequest(response, began: context.now),
                &context)
        }
        guard client.admits(&context) else {
            // Its body is not read, so nothing behind it can be.
            if head.framing != .none, head.framing != .length(0) { response.keepsAlive = false }
            return send(
                .error(.limitExceeded(.connectionsPerAddress, retrySeconds: 1), response),
                PendingRequest(response, began: context.now), &context)
        }
        let namespace = address.namespace ?? client.namespace(fromHost: head.authorityBytes)
        let request: RESTRequest
        do throws(RESTError) {
            request = try RESTRequest(head, address, acceptsUploads: context.settings.isDevelopment)
        } catch {
            // Its body is not read, so nothing behind it can be.
            if head.framing != .none, head.framing != .length(0) { response.keepsAlive = false }
            let pending = PendingRequest(response, namespace: namespace, began: context.now)
            return post(.refuse(error), pending, byteCount: 0, &context)
        }
        let pending = PendingRequest(response, request, namespace: namespace, began: context.now)
        pending.hasCertificate =
            context.socket.isAdministrator
            && head.mayUseCertificate(inScript: request.form.callback != nil)
        if isReserved, request.credential.token == nil, !pending.hasCertificate {
            return refuseReserved(pending, &context)
        }
        // Most reads: no body, and so no stage in which it is awaited.
        if head.framing == .none { return process(pending, &context) }
        do throws(RequestContent.Refusal) {
            try input.beginBody(of: head, byteLimit: context.settings.writeByteLimit)
        } catch {
            return refuse(error, pending, &context)
        }
        pending.expectsContinue = head.expectsContinue
        // No body is waited for before it is known to be an administrator's.
        if isReserved { return admit(pending, &context) }
        if case .length(let count) = head.framing, count > ConnectionLimits.smallByteCount {
            admit(pending, &context)
        } else {
            awaitBody(pending, &context)
        }
    }

    // MARK: The body

    /// Asks whether anything may come of the request, before a large body is read: whose it is, and may they
    /// write at all?
    mutating func admit(_ pending: PendingRequest, _ context: inout ConnectionContext) {
        stage = .admitting(pending)
        verify(pending, &context)
    }

    mutating func awaitBody(_ pending: PendingRequest, _ context: inout ConnectionContext) {
        if pending.expectsContinue { context.write(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)) }
        pending.expectsContinue = false
        input.restartBodyRate(at: context.now)
        readByteLimit = .max
        stage = .body(pending)
    }

    /// - Returns: false when more bytes are needed, or none of them any more.
    mutating func readBody(
        _ pending: PendingRequest, _ bytes: RawSpan, from offset: inout Int,
        _ context: inout ConnectionContext
    ) -> Bool {
        do throws(RequestContent.Refusal) {
            let isComplete = try input.readBody(bytes, from: &offset)
            let byteCount = input.bodyByteCount
            unfinishedByteCount = byteCount
            if isComplete {
                process(pending, &context)
            } else if byteCount > ConnectionLimits.smallByteCount, !pending.isAdmitted {
                admit(pending, &context)
            } else {
                return false
            }
        } catch {
            refuse(error, pending, &context)
        }
        return true
    }

    /// Removes what is here of the body.
    @discardableResult
    mutating func takeBody() -> (bytes: [UInt8], isGzip: Bool) {
        unfinishedByteCount = 0
        return input.takeBody()
    }

    /// Nothing more is read of a body, so nothing behind it can be. Its problem is reported in the order of
    /// checks of rest §9.
    mutating func refuse(
        _ refusal: RequestContent.Refusal, _ pending: PendingRequest, _ context: inout ConnectionContext
    ) {
        takeBody()
        switch refusal {
        case .http(let error): refuse(error.status, isHead: pending.response.isHead, &context)
        case .request(let error):
            pending.response.keepsAlive = false
            pending.bodyProblem = error
            process(pending, &context)
        }
    }

    // MARK: The token

    /// The request is there: first of all, whose is it (auth §1)?
    mutating func process(_ pending: PendingRequest, _ context: inout ConnectionContext) {
        stage = .answering(pending)
        if let request = pending.request, request.method.isRead, request.timeout < RESTLimits.timeout {
            setTimeout(request.timeout, &context)
        }
        if pending.identity != nil { return call(pending, &context) }
        verify(pending, &context)
    }

    private mutating func verify(_ pending: PendingRequest, _ context: inout ConnectionContext) {
        guard let token = pending.request?.credential.token else {
            // A token counts more than the connection's certificate: an administrator may try what others
            // see.
            let result =
                pending.hasCertificate ? VerificationResult.accepted(Identity(credential: .admin)) : nil
            return proceed(pending, result, &context)
        }
        work = .verifying
        context.append(.verify(token))
    }

    /// The token of the request was verified.
    package mutating func verified(_ result: VerificationResult, _ context: inout ConnectionContext) {
        guard case .verifying = work else { return }
        work = .none
        switch stage {
        case .admitting(let pending): proceed(pending, result, &context)
        case .answering(let pending) where !response.isActive: proceed(pending, result, &context)
        case .head, .body, .answering, .draining, .streaming, .ended: break
        }
    }

    /// - Parameter result: Nil where there is no token.
    private mutating func proceed(
        _ pending: PendingRequest, _ result: VerificationResult?, _ context: inout ConnectionContext
    ) {
        if isReserved {
            guard case .accepted(let identity) = result, identity.credential.isAdmin else {
                return refuseReserved(pending, &context)
            }
            context.append(.http(.keepReserved))
        }
        do throws(RESTError) {
            try pending.identify(result)
        } catch {
            if case .answering = stage { takeBody() }
            return post(.refuse(error), pending, byteCount: 0, &context)
        }
        guard case .admitting = stage, let request = pending.request else { return call(pending, &context) }
        do throws(RESTError) {
            try pending.checkPlace(isDevelopment: context.settings.isDevelopment)
            post(.admit(request, pending.credential), pending, byteCount: 0, &context)
        } catch {
            post(.refuse(error), pending, byteCount: 0, &context)
        }
    }

    // MARK: The call

    /// Checks what the request wants, in the order of rest §9, and posts it, or first gives its body to a
    /// thread.
    /// - Precondition: Its client is known.
    private mutating func call(_ pending: PendingRequest, _ context: inout ConnectionContext) {
        let (bytes, isGzip) = takeBody()
        guard let request = pending.request else { return }
        do throws(RESTError) {
            try pending.checkExpiry(context.wallSeconds)
            try pending.checkPlace(isDevelopment: context.settings.isDevelopment)
            if let problem = pending.bodyProblem { throw problem }
            try client.checkLimits(of: request, pending, byteCount: bytes.count, &context)
            if let question = pending.serverQuestion, request.method.isRead {
                let job = InspectionJob.server(question)
                work = .inspecting
                return context.append(.inspect(job))
            }
            guard request.method.isWrite, request.method != .delete else {
                return try post(pending.call(bytes), pending, byteCount: bytes.count, &context)
            }
            guard isGzip || bytes.count > ConnectionLimits.smallByteCount else {
                guard case .data = request.location else {
                    return try post(pending.call(bytes), pending, byteCount: bytes.count, &context)
                }
                let body = try request.readBody(
                    bytes.rawSpan, byteLimit: context.settings.writeByteLimit)
                return try post(pending.write(body), pending, byteCount: bytes.count, &context)
            }
            if isGzip, case .data = request.location, !pending.isAdministrators,
                !context.settings.limits.rates.isUnlimited
            {
                pending.countedByteCount = bytes.count
            }
            // The thread holds them.
            unfinishedByteCount = bytes.count
            work = .readingBody
            context.append(.readBody(bytes, isGzip: isGzip, request))
        } catch {
            post(.refuse(error), pending, byteCount: 0, &context)
        }
    }

    /// The body was inflated and parsed.
    package mutating func bodyRead(_ body: BodyResult, _ context: inout ConnectionContext) {
        guard case .answering(let pending) = stage, case .readingBody = work else { return }
        work = .none
        unfinishedByteCount = 0
        client.countInflated(body.byteCount, of: pending, &context)
        do throws(RESTError) {
            switch body.content {
            case .data(let content):
                try post(
                    pending.write(content), pending, byteCount: body.byteCount, grant: body.grant, &context)
            case .bytes(let bytes):
                try post(pending.call(bytes), pending, byteCount: bytes.count, grant: body.grant, &context)
            case .refused(let error): throw error
            }
        } catch {
            post(.refuse(error), pending, byteCount: 0, &context)
        }
    }
}

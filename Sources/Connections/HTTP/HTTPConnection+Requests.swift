import PandoBytes
import PandoDatabase
import PandoHTTP
import PandoIdentity
import PandoREST
import PandoTime

// From a request whose head is there, its body and a verdict on its token, to a call of the databases.

extension HTTPConnection {
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
        bodyRate = MinimumRateMonitor(content?.bytes.count ?? 0, at: context.now)
        readByteLimit = .max
        stage = .body(pending)
    }

    /// - Returns: false when more bytes are needed, or none of them any more.
    mutating func readBody(
        _ pending: PendingRequest, _ bytes: RawSpan, from offset: inout Int,
        _ context: inout ConnectionContext
    ) -> Bool {
        do throws(RequestContent.Refusal) {
            let isComplete = try content?.take(bytes, from: &offset) ?? true
            let byteCount = content?.bytes.count ?? 0
            unfinishedByteCount = byteCount
            if isComplete {
                run(pending, &context)
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

    mutating func takeContent() -> [UInt8] {
        guard content != nil else { return [] }
        let taken = content?.takeBytes() ?? []
        content = nil
        unfinishedByteCount = 0
        return taken
    }

    /// Nothing more is read of a body, so nothing behind it can be. Its problem is reported in the order of checks
    /// of rest §9.
    mutating func refuse(
        _ refusal: RequestContent.Refusal, _ pending: PendingRequest, _ context: inout ConnectionContext
    ) {
        _ = takeContent()
        switch refusal {
        case .http(let error): refuse(error.status, isHead: pending.response.isHead, &context)
        case .request(let error):
            pending.response.keepsAlive = false
            pending.bodyProblem = error
            run(pending, &context)
        }
    }

    // MARK: The token

    /// The request is there: first of all, whose is it (auth §1)?
    mutating func run(_ pending: PendingRequest, _ context: inout ConnectionContext) {
        stage = .answering(pending)
        if let request = pending.request, request.method.isRead, request.timeout < RESTLimits.timeout {
            setTimeout(request.timeout, &context)
        }
        if pending.identity != nil { return call(pending, &context) }
        verify(pending, &context)
    }

    private mutating func verify(_ pending: PendingRequest, _ context: inout ConnectionContext) {
        guard let token = pending.request?.credential.token else {
            // A token counts more than the connection's certificate: an administrator may try what others see.
            let verdict =
                pending.hasCertificate ? VerificationResult.accepted(Identity(credential: .admin)) : nil
            return proceed(pending, verdict, &context)
        }
        isVerifying = true
        context.append(.verify(token))
    }

    /// The token of the request was verified.
    package mutating func verified(_ verdict: VerificationResult, _ context: inout ConnectionContext) {
        guard isVerifying else { return }
        isVerifying = false
        switch stage {
        case .admitting(let pending): proceed(pending, verdict, &context)
        case .answering(let pending) where !response.isActive: proceed(pending, verdict, &context)
        case .head, .body, .answering, .draining, .streaming, .ended: break
        }
    }

    /// - Parameter verdict: Nil where there is no token.
    private mutating func proceed(
        _ pending: PendingRequest, _ verdict: VerificationResult?, _ context: inout ConnectionContext
    ) {
        if isReserved {
            guard case .accepted(let identity) = verdict, identity.credential.isAdmin else {
                return refuseReserved(pending, &context)
            }
            context.append(.http(.keepReserved))
        }
        do throws(RESTError) {
            try pending.identify(verdict)
        } catch {
            if case .answering = stage { _ = takeContent() }
            return post(.refuse(error), pending, byteCount: 0, &context)
        }
        guard case .admitting = stage, let request = pending.request else { return call(pending, &context) }
        do throws(RESTError) {
            try pending.checkPlace()
            post(.admit(request, pending.credential), pending, byteCount: 0, &context)
        } catch {
            post(.refuse(error), pending, byteCount: 0, &context)
        }
    }

    // MARK: The call

    /// Checks what the request wants, in the order of rest §9, and posts it, or first gives its body to a thread.
    /// - Precondition: Its client is known.
    private mutating func call(_ pending: PendingRequest, _ context: inout ConnectionContext) {
        let isGzip = content?.isGzip ?? false
        let bytes = takeContent()
        guard let request = pending.request else { return }
        do throws(RESTError) {
            try pending.checkExpiry(context.wallSeconds)
            try pending.checkPlace()
            if let problem = pending.bodyProblem { throw problem }
            try checkLimits(of: request, pending, byteCount: bytes.count, &context)
            if let question = pending.serverQuestion, request.method.isRead {
                let job = InspectionJob.server(question)
                measured = .deferred(job)
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
                !context.settings.rates.isUnlimited
            {
                pending.countedByteCount = bytes.count
            }
            // The thread holds them.
            unfinishedByteCount = bytes.count
            isReadingBody = true
            context.append(.readBody(bytes, isGzip: isGzip, request))
        } catch {
            post(.refuse(error), pending, byteCount: 0, &context)
        }
    }

    /// The body was inflated and parsed.
    package mutating func bodyRead(_ body: BodyResult, _ context: inout ConnectionContext) {
        guard case .answering(let pending) = stage, isReadingBody else { return }
        isReadingBody = false
        unfinishedByteCount = 0
        countInflated(body.byteCount, of: pending, &context)
        do throws(RESTError) {
            switch body.content {
            case .data(let content):
                try post(pending.write(content), pending, byteCount: body.byteCount, &context)
            case .bytes(let bytes):
                try post(pending.call(bytes), pending, byteCount: bytes.count, &context)
            case .refused(let error): throw error
            }
        } catch {
            post(.refuse(error), pending, byteCount: 0, &context)
        }
    }
}

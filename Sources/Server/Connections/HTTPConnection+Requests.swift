import PandoBytes
import PandoDatabase
import PandoEngine
import PandoIdentity
import PandoREST
import PandoReactor
import PandoRules
import PandoTree

// From a request that is there, and a verdict on whoever sent it, to a call of the database thread.

extension HTTPConnection {
    // MARK: Whether it may come

    /// Asks whether anything may come of the request, before a large body is read: who asks, and may they
    /// write at all?
    func admit(_ pending: PendingRequest) {
        stage = .admitting(pending)
        verify(pending)
    }

    private func admit(_ pending: PendingRequest, _ request: RESTRequest, as verdict: VerificationResult?) {
        do throws(RESTError) {
            pending.identity = try identity(of: request, verdict)
            try checkPlace(pending, request)
            post(.admit(request, pending.credential), pending, byteCount: 0)
        } catch {
            post(.refuse(error), pending, byteCount: 0)
        }
    }

    // MARK: What it wants

    /// The request is there: first of all, who asks (auth §1)?
    func run(_ pending: PendingRequest) {
        stage = .answering(pending)
        if let request = pending.request, request.method.isRead, request.timeout < RESTLimits.timeout {
            timeout = owner.loop.schedule(after: request.timeout) { [weak self] in self?.giveUp() }
        }
        if let identity = pending.identity { return run(pending, as: .accepted(identity), isNew: false) }
        verify(pending)
    }

    private func verify(_ pending: PendingRequest) {
        guard let token = pending.request?.credential.token else {
            return proceed(pending, as: nil)
        }
        isVerifying = true
        owner.verify(token, for: self)
    }

    func take(_ verdict: VerificationResult) {
        guard isVerifying else { return }
        isVerifying = false
        switch stage {
        case .admitting(let pending): proceed(pending, as: verdict)
        case .answering(let pending) where !isAnswering: proceed(pending, as: verdict)
        case .head, .body, .answering, .draining, .streaming, .ended: break
        }
    }

    /// - Parameter verdict: Nil where there is no token.
    private func proceed(_ pending: PendingRequest, as verdict: VerificationResult?) {
        if channel.isReserved {
            guard case .accepted(let identity) = verdict, identity.credential.isAdmin else {
                return refuseForWantOfConnections(pending)
            }
            owner.keepReserved(self)
        }
        if case .admitting = stage, let request = pending.request {
            return admit(pending, request, as: verdict)
        }
        run(pending, as: verdict, isNew: true)
    }

    /// Looks at what the request wants, in the order of rest §9, and hands it to the database thread, or
    /// first its body to the helper thread.
    /// - Parameter isNew: The verdict is about the token as it came, not about ``PendingRequest/identity``.
    private func run(_ pending: PendingRequest, as verdict: VerificationResult?, isNew: Bool) {
        let isGzip = isContentGzip
        let bytes = takeContent()
        guard let request = pending.request else { return }
        do throws(RESTError) {
            if isNew {
                pending.identity = try identity(of: request, verdict)
            } else if let end = pending.identity?.validUntil, end <= owner.seconds {
                // A large body took longer than the token lives.
                throw .tokenExpired
            }
            try checkPlace(pending, request)
            if let problem = pending.bodyProblem { throw problem }
            guard request.method.isWrite, request.method != .delete else {
                return try call(pending, request, bytes)
            }
            guard isGzip || bytes.count > IOLoop.smallByteCount else {
                guard case .data = request.location else { return try call(pending, request, bytes) }
                let body = try request.readBody(bytes.rawSpan, byteLimit: owner.configuration.writeByteLimit)
                return try write(pending, request, body, byteCount: bytes.count)
            }
            // Still kept, by the helper thread.
            owner.keepUnfinished(bytes.count, for: self)
            bodyJob = owner.readBody(bytes, isGzip: isGzip, of: request, for: id)
        } catch {
            post(.refuse(error), pending, byteCount: 0)
        }
    }

    func take(_ body: BodyOutcome) {
        guard case .answering(let pending) = stage, let request = pending.request, bodyJob != nil else {
            return
        }
        bodyJob = nil
        owner.keepUnfinished(0, for: self)
        do throws(RESTError) {
            switch body.content {
            case .data(let content): try write(pending, request, content, byteCount: body.byteCount)
            case .bytes(let bytes): try call(pending, request, bytes)
            case .refused(let error): throw error
            }
        } catch {
            post(.refuse(error), pending, byteCount: 0)
        }
    }

    private func write(
        _ pending: PendingRequest, _ request: RESTRequest, _ body: RESTBody, byteCount: Int
    ) throws(RESTError) {
        try request.checkConditions()
        if case .update(let updates) = body { pending.updates = updates }
        post(.data(request, body, pending.credential), pending, byteCount: byteCount)
    }

    /// Everything but a write with a body that is data.
    private func call(_ pending: PendingRequest, _ request: RESTRequest, _ bytes: [UInt8]) throws(RESTError) {
        let credential = pending.credential
        switch request.location {
        case .data where request.method == .delete:
            try write(pending, request, .value(Draft(.empty)), byteCount: 0)
        case .data:
            try request.checkConditions()
            post(.data(request, nil, credential), pending, byteCount: 0)
        case .settings("rules"):
            post(.rules(request, source: bytes, credential), pending, byteCount: bytes.count)
        case .settings(let name):
            post(.setting(name, request, value: bytes, credential), pending, byteCount: bytes.count)
        case .inspect("databases", isPage: false): post(.listDatabases(credential), pending, byteCount: 0)
        case .inspect("denials", isPage: false): post(.listDenials(credential), pending, byteCount: 0)
        case .inspect("backup", isPage: true): post(.backup(credential), pending, byteCount: 0)
        case .inspect: throw .invalidPath
        }
    }

    /// - Returns: Nil for who brings no token.
    private func identity(of request: RESTRequest, _ verdict: VerificationResult?) throws(RESTError)
        -> Identity?
    {
        switch verdict {
        case nil:
            // For administrators only.
            guard request.authVariableOverride == nil else { throw .unauthorized }
            return nil
        case .accepted(var identity):
            do throws(NotAnAdministrator) {
                identity.credential = try identity.credential(asking: request.authVariableOverride)
            } catch {
                throw .unauthorized
            }
            return identity
        case .refused(.expired): throw .tokenExpired
        case .refused(.keysUnavailable): throw .unavailable
        case .refused(.tooManyFailures): throw .tooManyFailures
        case .refused: throw request.credential.refusal
        }
    }

    /// Only an administrator is told anything of settings, not even whether they are there (rest §10).
    private func checkPlace(_ pending: PendingRequest, _ request: RESTRequest) throws(RESTError) {
        switch request.location {
        case .data: break
        case .settings, .inspect: guard pending.credential.isAdmin else { throw .unauthorized }
        }
    }

    /// Hands a request that is under way, or waits to be let in, to the database thread.
    func post(_ action: RESTCall.Action, _ pending: PendingRequest, byteCount: Int) {
        switch stage {
        case .admitting: break
        case .head, .body, .answering, .draining, .streaming, .ended: stage = .answering(pending)
        }
        hasPosted = true
        let call = RESTCall(namespace: pending.namespace, action: action)
        owner.post(.rest(id, call, byteCount: byteCount), byteCount: byteCount, for: self)
    }
}

extension HTTPConnection.PendingRequest {
    /// As whom it acts, once that is known.
    fileprivate var credential: Credential { identity?.credential ?? .anonymous }
}

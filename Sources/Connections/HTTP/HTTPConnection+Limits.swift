import PandoREST

// The limits of clients that a request may exceed.

extension HTTPConnection {
    private mutating func madeAllowance() -> ConnectionAllowance {
        if let allowance { return allowance }
        let made = ConnectionAllowance()
        allowance = made
        return made
    }

    /// Counts the request, while it is in progress, as one of its client's address: a proxy's connection brings requests
    /// of many clients.
    /// - Returns: Whether there may be one more.
    mutating func admitsClient(_ context: inout ConnectionContext) -> Bool {
        guard context.socket.isTrustedProxy, let admission = context.admitClient?(forwardedFor) else {
            return true
        }
        switch admission {
        case .uncounted: break
        case .granted(let grant): madeAllowance().addressGrant = grant
        case .refused: return false
        }
        return true
    }

    /// Counts a write, or an event stream as a connection of its user.
    /// - Throws: Where it exceeds a limit; then it is not counted.
    mutating func checkLimits(
        of request: RESTRequest, _ pending: PendingRequest, byteCount: Int, _ context: inout ConnectionContext
    ) throws(RESTError) {
        guard case .data = request.location, !pending.isAdministrators else { return }
        if request.method.isWrite, !context.settings.rates.isUnlimited {
            let verdict = madeAllowance().takeWrite(
                byteCount, of: writer(of: pending, &context),
                countsConnection: !context.socket.isTrustedProxy, &context)
            // None waits: a client by REST tries again by itself.
            if case .refused(let excess) = verdict {
                context.append(.countLimit(excess.limit))
                throw .limitExceeded(excess.limit, retrySeconds: excess.retrySeconds)
            }
        }
        if request.method.isRead, request.wantsStream, let user = pending.limitedUser,
            let users = context.users, users.connectionLimit > 0
        {
            guard madeAllowance().become(user, &context) else {
                context.append(.countLimit(.connectionsPerUser))
                throw .limitExceeded(.connectionsPerUser, retrySeconds: 1)
            }
        }
    }

    /// Whose write it is over all connections: the user's; behind a trusted proxy else that of its client's address.
    private func writer(of pending: PendingRequest, _ context: inout ConnectionContext) -> LimitedClient? {
        if let user = pending.limitedUser { return .user(user) }
        guard context.socket.isTrustedProxy else { return nil }
        return context.clientNetwork?(forwardedFor).map { .network($0) }
    }

    /// Counts the rest of a body that was counted as it travelled.
    /// - Parameter byteCount: Bytes of the body, inflated.
    mutating func countInflated(
        _ byteCount: Int, of pending: PendingRequest, _ context: inout ConnectionContext
    ) {
        guard let counted = pending.countedByteCount, byteCount > counted else { return }
        pending.countedByteCount = nil
        madeAllowance().take(
            moreBytes: byteCount - counted, of: writer(of: pending, &context),
            countsConnection: !context.socket.isTrustedProxy, &context)
    }

    /// The request is over, and with it what it counted for.
    func releaseClient() {
        allowance?.addressGrant = nil
        allowance?.userGrant = nil
    }

    /// Refuses the request of long polling that is in progress.
    package mutating func refusePoll(_ error: RESTError, _ context: inout ConnectionContext) {
        guard case .answering(let pending) = stage else { return }
        send(.error(error, pending.response), pending, &context)
    }
}

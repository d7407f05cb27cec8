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
            let refusal = madeAllowance().takeWrite(
                byteCount, of: pending.limitedUser, countsConnection: !context.socket.isTrustedProxy, &context
            )
            if let refusal {
                context.append(.countLimit(refusal.limit))
                throw .limitExceeded(refusal.limit, retrySeconds: refusal.retrySeconds)
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

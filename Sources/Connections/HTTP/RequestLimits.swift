import PandoDatabase
import PandoREST

/// What the requests of a connection have used of the limits of their clients.
struct RequestLimits {
    /// Nil until there is something to note.
    private var allowance: ConnectionAllowance?
    /// What the trusted proxy says of the client of the request in progress; empty for all others.
    private var forwardedFor: [UInt8] = []

    private mutating func madeAllowance() -> ConnectionAllowance {
        if let allowance { return allowance }
        let made = ConnectionAllowance()
        allowance = made
        return made
    }

    /// Counts the request, while it is in progress, as one of its client's address: a proxy's connection
    /// brings requests of many clients.
    /// - Parameter client: Its client.
    /// - Returns: Whether there may be one more.
    mutating func admits(_ client: RequestClient, _ context: inout ConnectionContext) -> Bool {
        guard context.socket.isTrustedProxy else { return true }
        forwardedFor = client.forwardedFor
        guard let admission = context.settings.limits.admitClient?(forwardedFor)
        else {
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
    mutating func check(
        _ request: RESTRequest, _ pending: PendingRequest, byteCount: Int, _ context: inout ConnectionContext
    ) throws(RESTError) {
        guard case .data = request.location, !pending.isAdministrators else { return }
        if request.method.isWrite, !context.settings.limits.rates.isUnlimited {
            let decision = madeAllowance().takeWrite(
                byteCount, of: writer(of: pending, &context),
                countsConnection: !context.socket.isTrustedProxy, at: context.now,
                context.settings.limits)
            // None waits: a client by REST tries again by itself.
            if case .refused(let excess) = decision {
                context.append(.countLimit(excess.limit))
                throw .limitExceeded(excess.limit, retrySeconds: excess.retrySeconds)
            }
        }
        if request.method.isRead, request.wantsStream, let user = pending.limitedUser,
            let users = context.settings.limits.users, users.connectionLimit > 0
        {
            guard madeAllowance().become(user, at: context.now, context.settings.limits) else {
                context.append(.countLimit(.connectionsPerUser))
                throw .limitExceeded(.connectionsPerUser, retrySeconds: 1)
            }
        }
    }

    /// Whose write it is over all connections: the user's; behind a trusted proxy else that of its client's
    /// address.
    private func writer(of pending: PendingRequest, _ context: inout ConnectionContext) -> LimitedClient? {
        if let user = pending.limitedUser { return .user(user) }
        guard context.socket.isTrustedProxy else { return nil }
        return context.settings.limits.clientNetwork?(forwardedFor).map { .network($0) }
    }

    /// Counts the rest of a body that was counted as it travelled.
    /// - Parameter byteCount: Bytes of the body, inflated.
    mutating func countInflated(
        _ byteCount: Int, of pending: PendingRequest, _ context: inout ConnectionContext
    ) {
        guard let counted = pending.countedByteCount, byteCount > counted else { return }
        pending.countedByteCount = nil
        madeAllowance().spend(
            moreBytes: byteCount - counted, of: writer(of: pending, &context),
            countsConnection: !context.socket.isTrustedProxy, at: context.now,
            context.settings.limits)
    }

    /// The request is over, and with it what it counted for.
    func release() {
        allowance?.addressGrant = nil
        allowance?.userGrant = nil
    }
}

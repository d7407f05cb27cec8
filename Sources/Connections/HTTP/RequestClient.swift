import PandoDatabase
import PandoEngine
import PandoHTTP
import PandoREST

/// The client of a connection's requests: as whom a trusted proxy and the `Host` field present it, and what
/// it has used of the limits of clients.
struct RequestClient {
    private var filter = DevelopmentFilter()
    /// A client addresses one host, so its name is parsed once.
    private var hostName: (host: [UInt8], namespace: String?)?
    /// Of the last request, what its trusted proxy says of its client; empty for all others.
    private(set) var forwardedFor: [UInt8] = []
    /// Nil until there is something to note.
    private var allowance: ConnectionAllowance?

    /// Notes what the head of a request says of its client, where the peer is a trusted proxy.
    /// - Returns: Whether the client speaks TLS, with this server or with the proxy.
    mutating func note(_ head: RequestHead, _ context: inout ConnectionContext) -> Bool {
        guard context.socket.isTrustedProxy else { return context.socket.isSecure }
        forwardedFor = head.forwardedFor
        guard let isSecure = head.forwardedIsSecure else { return context.socket.isSecure }
        if !isSecure { context.append(.http(.reportPlainClient)) }
        return isSecure
    }

    /// Why a `--dev` server does not serve the request; nil where it does, and for other servers.
    mutating func refusal(of head: RequestHead, _ settings: borrowing ConnectionSettings) -> ForeignRequest? {
        settings.isDevelopment ? filter.refusal(of: head, allowing: settings.allowedOrigins) : nil
    }

    /// The database that a host names.
    mutating func namespace(fromHost host: ArraySlice<UInt8>) -> String? {
        if let hostName, hostName.host[...] == host { return hostName.namespace }
        let namespace = NamespaceName.fromHost(String(decoding: host, as: UTF8.self))
        hostName = (Array(host), namespace)
        return namespace
    }

    // MARK: Limits

    private mutating func madeAllowance() -> ConnectionAllowance {
        if let allowance { return allowance }
        let made = ConnectionAllowance()
        allowance = made
        return made
    }

    /// Counts the request, while it is in progress, as one of its client's address: a proxy's connection
    /// brings requests of many clients.
    /// - Returns: Whether there may be one more.
    mutating func admits(_ context: inout ConnectionContext) -> Bool {
        guard context.socket.isTrustedProxy,
            let admission = context.settings.limits.admitClient?(forwardedFor)
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
    mutating func checkLimits(
        of request: RESTRequest, _ pending: PendingRequest, byteCount: Int, _ context: inout ConnectionContext
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

import PandoTime

/// What one connection has of the limits of clients: how much it has written lately, and as whose connection
/// it is counted. Made when there is something to note; confined to its connection's loop.
final class ConnectionAllowance {
    private var buckets = WriteBuckets()
    /// The connection is one of this user.
    var userGrant: UserLimiter.Grant?
    /// The request in progress, or the stream, is one of its client's address behind a trusted proxy.
    var addressGrant: AnyObject?

    /// Counts a write.
    /// - Parameters:
    ///   - client: Whose it is; nil where it is counted for its connection alone.
    ///   - countsConnection: Whether the connection is one client's alone.
    ///   - limit: The longest that it may wait; nil where it must be made now.
    func takeWrite(
        _ byteCount: Int, of client: LimitedClient?, countsConnection: Bool = true,
        waitingAtMost limit: Duration? = nil, at now: MonotonicTime, _ limits: borrowing ClientLimits
    ) -> RateDecision {
        let own = countsConnection ? buckets.excess(at: now, limits.rates) : nil
        if let own, own.isLonger(than: limit) { return .refused(own) }
        var shared: RateExcess?
        if let client, let users = limits.users {
            switch users.takeWrite(byteCount, of: client, waitingAtMost: limit, at: now) {
            case .now: break
            case .later(let excess): shared = excess
            case .refused(let excess): return .refused(excess)
            }
        }
        if countsConnection { buckets.spend(byteCount, at: now, limits.rates) }
        return RateExcess.longer(own, shared).map { .later($0) } ?? .now
    }

    /// Counts bytes of a write that was counted before: its body has become longer when it was inflated.
    func spend(
        moreBytes byteCount: Int, of client: LimitedClient?, countsConnection: Bool, at now: MonotonicTime,
        _ limits: borrowing ClientLimits
    ) {
        if countsConnection { buckets.spend(moreBytes: byteCount, at: now, limits.rates) }
        if let client { limits.users?.spend(moreBytes: byteCount, of: client, at: now) }
    }

    /// Counts the connection as one of a user, in place of the one before.
    /// - Parameter user: nil for a client that is not counted.
    /// - Returns: Whether it may be; otherwise nothing has changed.
    func become(_ user: LimitedUser?, at now: MonotonicTime, _ limits: borrowing ClientLimits) -> Bool {
        guard let users = limits.users, users.connectionLimit > 0, userGrant?.user != user else {
            return true
        }
        guard let user else {
            userGrant = nil
            return true
        }
        guard let grant = users.admit(user, at: now) else { return false }
        userGrant = grant
        return true
    }
}

import PandoREST
import PandoTime

/// What one connection has of the limits of clients: how much it has written lately, and as whose connection it is
/// counted. Made when there is something to note; confined to its connection's loop.
final class ConnectionAllowance {
    private var buckets = WriteBuckets()
    /// The connection is one of this user.
    var userGrant: UserLimiter.Grant?
    /// The request in progress, or the stream, is one of its client's address behind a trusted proxy.
    var addressGrant: AnyObject?

    /// Counts a write.
    /// - Parameters:
    ///   - user: The client's; nil where it is not signed in, or its connection has no part in this.
    ///   - countsConnection: Whether the connection is one client's alone.
    /// - Returns: Why it may not be made; then it is not counted. nil where it may.
    func takeWrite(
        _ byteCount: Int, of user: LimitedUser?, countsConnection: Bool = true,
        _ context: inout ConnectionContext
    ) -> RateRefusal? {
        let rates = context.settings.rates
        if countsConnection, let refusal = buckets.refusal(at: context.now, rates) { return refusal }
        if let user, let refusal = context.users?.takeWrite(byteCount, of: user, at: context.now) {
            return refusal
        }
        if countsConnection { buckets.take(byteCount, at: context.now, rates) }
        return nil
    }

    /// Counts the connection as one of a user, in place of the one before.
    /// - Parameter user: nil for a client that is not counted.
    /// - Returns: Whether it may be; otherwise nothing has changed.
    func become(_ user: LimitedUser?, _ context: inout ConnectionContext) -> Bool {
        guard let users = context.users, users.connectionLimit > 0, userGrant?.user != user else {
            return true
        }
        guard let user else {
            userGrant = nil
            return true
        }
        guard let grant = users.admit(user, at: context.now) else { return false }
        userGrant = grant
        return true
    }
}

/// Whether the client behind a trusted proxy may make one more request.
package enum ClientAdmission {
    /// It is not counted: its address is not known, or has no limit.
    case uncounted
    /// It is counted until the object is freed.
    case granted(AnyObject)
    case refused
}

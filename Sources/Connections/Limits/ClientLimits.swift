/// The limits of clients that the operator has set, as the connections of one loop ask for them.
package struct ClientLimits {
    /// How much a client may write in a second.
    package var rates = WriteRates()
    /// The connections and writes of users, and the writes of other clients of trusted proxies, which all
    /// loops share; nil where none is limited.
    package var users: UserLimiter?
    /// Counts a request of the client behind a trusted proxy, by ``RequestHead/forwardedFor``; nil where the
    /// connections of one address are not limited.
    package var admitClient: (([UInt8]) -> ClientAdmission)?
    /// The address of the client behind a trusted proxy, by ``RequestHead/forwardedFor``; nil where writes
    /// have no rate. It gives nil where the address is not known.
    package var clientNetwork: (([UInt8]) -> ClientNetwork?)?

    package init() {}
}

/// Whether the client behind a trusted proxy may make one more request.
package enum ClientAdmission {
    /// It is not counted: its address is not known, or has no limit.
    case uncounted
    /// It is counted until the object is freed.
    case granted(AnyObject)
    case refused
}

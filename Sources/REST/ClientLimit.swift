/// Limits of what one client may do, each with an option of `pando serve` and a counter of its own. Which
/// error a client gets is in `operating.md`, "Limits of clients".
package enum ClientLimit: UInt8, CaseIterable, Sendable {
    case connectionsPerAddress
    case connectionsPerUser
    case writesPerSecond
    case bytesPerSecond
    /// Of one realtime message.
    case messageBytes
    /// Of the head of a request.
    case headBytes
    /// Of the body of a REST write.
    case bodyBytes

    /// What a client that exceeds it is answered, over REST and the realtime protocol alike.
    package var text: StaticString {
        switch self {
        case .connectionsPerAddress: "Too many connections from this address"
        case .connectionsPerUser: "Too many connections of this user"
        case .writesPerSecond: "Too many writes per second"
        case .bytesPerSecond: "Too many bytes of writes per second"
        case .messageBytes: "Message too large"
        case .headBytes: "Request head too large"
        case .bodyBytes: "Payload too large"
        }
    }
}

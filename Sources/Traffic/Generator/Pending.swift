/// What a request is for.
enum Purpose: UInt8 {
    /// Before the run: authentication, listens, data.
    case setUp
    /// One of the run's operations; scenarios have up to two kinds.
    case operation, otherOperation
    /// After the run: what is there now?
    case check
    /// The run's data is removed.
    case cleanUp
}

/// A request that waits for its reply.
struct Pending {
    let purpose: Purpose
    /// The scenario's own: mostly the number of the value that was sent.
    let detail: Int
    /// The moment its latency counts from.
    let intended: Int
}

/// The server's reply to a request.
package enum Reply: Sendable {
    case ok
    /// A transaction that another write made stale.
    case stale
    case refused(String)
}

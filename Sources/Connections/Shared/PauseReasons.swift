/// Why the server pauses a client: its socket is not read for a while. It is read again when no reason is
/// left.
package struct PauseReasons: OptionSet, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// The databases or the disk are behind.
    package static let congestion = PauseReasons(rawValue: 1)
    /// What was received waits: a token is being verified, or as many requests as may be wait for their
    /// replies (``RequestWindow``).
    package static let input = PauseReasons(rawValue: 2)
    /// The client has much to take before it may ask for more.
    package static let unsentOutput = PauseReasons(rawValue: 4)
    /// An HTTP request is in progress, and the next one waits for its response.
    package static let request = PauseReasons(rawValue: 8)
    /// The process holds too much memory, and this client much of it.
    package static let memory = PauseReasons(rawValue: 16)
    /// The process holds more memory than it may, and what this client has sent is long and not processed.
    package static let incompleteInput = PauseReasons(rawValue: 32)
}

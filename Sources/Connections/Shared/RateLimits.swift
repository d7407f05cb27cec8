import PandoTime

/// How fast a client takes what it is sent. What the kernel holds is not taken.
struct OutputRate {
    /// Nil while nothing is unsent, and before the first look.
    private var monitor: MinimumRateMonitor?

    /// An output begins; nothing was unsent before it.
    mutating func begin(_ socket: SocketStatus) {
        if socket.unsentByteCount == 0 { monitor = nil }
    }

    /// Nothing is unsent.
    mutating func end() { monitor = nil }

    /// Looks at what the client has acknowledged.
    mutating func isTooSlow(_ context: inout ConnectionContext) -> Bool {
        let count = context.socket.acknowledgedByteCount
        var current = monitor ?? MinimumRateMonitor(count, at: context.now)
        defer { monitor = current }
        return current.isTooSlow(
            count, at: context.now, window: context.settings.stallTimeout,
            bytesPerSecond: ConnectionLimits.slowestBytesPerSecond)
    }
}

/// How fast a message comes that is not complete: memory is held for it.
struct InputRate {
    /// Bytes of input so far.
    var receivedByteCount = 0
    /// Nil while no message is expected.
    private var monitor: MinimumRateMonitor?

    /// - Parameter isExpected: A message is not complete, and the client may send.
    mutating func isTooSlow(whileExpected isExpected: Bool, _ context: inout ConnectionContext) -> Bool {
        guard isExpected else {
            monitor = nil
            return false
        }
        var current = monitor ?? MinimumRateMonitor(receivedByteCount, at: context.now)
        defer { monitor = current }
        return current.isTooSlow(
            receivedByteCount, at: context.now, window: context.settings.requestTimeout,
            bytesPerSecond: ConnectionLimits.slowestBytesPerSecond)
    }

    /// The message that was expected is not any more.
    mutating func end() { monitor = nil }
}

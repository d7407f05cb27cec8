import PandoTime

/// How fast a client takes what it is sent. What the kernel holds is not taken.
///
/// The acknowledgements of a client that reads slowly come in steps: its system lets more come only when a
/// large part of its buffer is free (RFC 9293 §3.8.6.2.2). Over loopback, whose segments are 64 KiB, Linux
/// takes 105 472 bytes at once: at 1 KB/s a step every two minutes, at 500 B/s every four. So time is counted
/// in bytes: a client may be behind by what it could have taken in the stall timeout at the lowest rate, and
/// by up to sixteen times that, in proportion to what it has taken.
struct OutputRate {
    /// A class, so that a client without one holds only a nil pointer.
    private final class Account {
        var takenByteCount: Int
        /// Bytes by which the client may still fall behind the lowest rate.
        var credit: Double
        var time: MonotonicTime

        init(takenByteCount: Int, credit: Double, time: MonotonicTime) {
            self.takenByteCount = takenByteCount
            self.credit = credit
            self.time = time
        }
    }

    /// Nil while nothing is unsent, and before the first look.
    private var account: Account?

    /// The most credit, as a multiple of that for the stall timeout: at 30 s, 240 000 bytes, which is eight
    /// minutes: two of the steps above.
    private static let creditLimit: Double = 16

    /// An output begins; nothing was unsent before it.
    mutating func begin(_ socket: SocketStatus) {
        if socket.unsentByteCount == 0 { account = nil }
    }

    /// Nothing is unsent.
    mutating func end() { account = nil }

    /// Looks at what the client has acknowledged.
    mutating func isTooSlow(_ context: inout ConnectionContext) -> Bool {
        let count = context.socket.acknowledgedByteCount
        let rate = Double(ConnectionLimits.slowestBytesPerSecond)
        let initialCredit = rate * (context.settings.stallTimeout / .seconds(1))
        let limit = initialCredit * Self.creditLimit
        guard let account else {
            // What the client's system has taken before may be what its program reads now.
            let credit = min(initialCredit + Double(count), limit)
            account = Account(takenByteCount: count, credit: credit, time: context.now)
            return false
        }
        account.credit -= rate * ((context.now - account.time) / .seconds(1))
        account.credit = min(account.credit + Double(count - account.takenByteCount), limit)
        account.takenByteCount = count
        account.time = context.now
        return account.credit < 0
    }
}

/// How fast a message comes that is not complete: memory is held for it.
struct InputRate {
    /// Bytes of input so far.
    var receivedByteCount = 0
    /// Nil while no message is expected.
    private var monitor: Box<MinimumRateMonitor>?

    /// - Parameter isExpected: A message is not complete, and the client may send.
    mutating func isTooSlow(whileExpected isExpected: Bool, _ context: inout ConnectionContext) -> Bool {
        guard isExpected else {
            monitor = nil
            return false
        }
        var current = monitor?.value ?? MinimumRateMonitor(receivedByteCount, at: context.now)
        defer { monitor = Box(current) }
        return current.isTooSlow(
            receivedByteCount, at: context.now, window: context.settings.requestTimeout,
            bytesPerSecond: ConnectionLimits.slowestBytesPerSecond)
    }

    /// The message that was expected is not any more.
    mutating func end() { monitor = nil }
}

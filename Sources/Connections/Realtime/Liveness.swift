import PandoTime

/// Whether a client that says nothing is still there (realtime §2.3). Decides; the session acts.
///
///     active ──silent for the timeout──▶ ping ──the client's system has taken it, and half a timeout
///     passes──▶ close
///
/// A client that fails at pings is never sent one. What it receives keeps it from speaking, so for it counts
/// also what its system has acknowledged:
///
///     receiving ──neither sends nor receives for the longer of 1.5 timeouts and two keep-alives──▶ close
///
/// A ping waits behind what the client has to take first, and so may its answer: until its system has
/// acknowledged the ping, a slow link is not silence, as long as anything is acknowledged.
package struct Liveness {
    package enum Action: Equatable {
        case nothing
        case ping
        case close
    }

    private enum State {
        case active
        /// A ping was written; it ends at byte `behind` of the output. `taken`: the bytes that the client had
        /// taken at `at`, when that count last changed.
        ///
        /// Indirect, so that states without a ping need no space for these numbers.
        indirect case pinged(behind: Int, taken: Int, at: MonotonicTime)
        /// The ping has arrived.
        case arrived(at: MonotonicTime)
        /// The client is never pinged; its system had acknowledged so many bytes at the last look.
        case receiving(taken: Int)
    }

    /// The Admin SDK for Java speaks when it has neither sent nor received for 45 s (realtime §2.3); it may
    /// miss one keep-alive.
    private static let receiverTimeout: Duration = .seconds(2 * 45)

    private var state = State.active
    private var lastActivity: MonotonicTime

    /// Acknowledged bytes are looked at with each check.
    package var needsAcknowledgedByteCount: Bool {
        switch state {
        case .pinged, .receiving: true
        case .active, .arrived: false
        }
    }

    /// - Parameters:
    ///   - now: When the client was there.
    ///   - answersPings: Whether it may be pinged.
    package init(at now: MonotonicTime, answersPings: Bool = true) {
        lastActivity = now
        if !answersPings { state = .receiving(taken: 0) }
    }

    /// The client has sent something, or its input was not read.
    package mutating func noteActivity(at now: MonotonicTime) {
        lastActivity = now
        if case .receiving = state { return }
        state = .active
    }

    /// The ping was written.
    /// - Parameters:
    ///   - byteCount: All that was written to the client, the ping included.
    ///   - now: When.
    package mutating func pinged(behind byteCount: Int, at now: MonotonicTime) {
        state = .pinged(behind: byteCount, taken: -1, at: now)
    }

    /// Looks now and then.
    /// - Parameter taken: Bytes that the client's system has acknowledged; asked for only where
    ///   ``needsAcknowledgedByteCount``.
    package mutating func check(at now: MonotonicTime, timeout: Duration, taken: () -> Int) -> Action {
        if case .receiving(let takenBefore) = state {
            return checkReceiver(at: now, timeout: timeout, taken: taken(), before: takenBefore)
        }
        guard now - lastActivity > timeout else { return .nothing }
        switch state {
        case .active: return .ping
        case .pinged(let byteCount, let takenBefore, let moment):
            let taken = taken()
            if taken >= byteCount {
                state = .arrived(at: now)
            } else if taken > takenBefore {
                state = .pinged(behind: byteCount, taken: taken, at: now)
            } else if now - moment > timeout / 2 {
                // Its system has vanished.
                return .close
            }
            return .nothing
        case .arrived(let moment): return now - moment > timeout / 2 ? .close : .nothing
        case .receiving: return .nothing
        }
    }

    private mutating func checkReceiver(
        at now: MonotonicTime, timeout: Duration, taken: Int, before: Int
    ) -> Action {
        if taken > before {
            state = .receiving(taken: taken)
            lastActivity = now
        }
        return now - lastActivity > max(timeout * 3 / 2, Self.receiverTimeout) ? .close : .nothing
    }
}

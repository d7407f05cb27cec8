import PandoTime

/// Whether a client that says nothing is still there (realtime §2.3). Decides; the session acts.
///
///     active ──silent for the timeout──▶ ping ──the client's system has taken it, and half a timeout
///     passes──▶ close
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
    }

    private var state = State.active
    private var lastActivity: MonotonicTime

    /// A ping is on its way.
    package var isPinged: Bool { if case .pinged = state { true } else { false } }

    package init(at now: MonotonicTime) {
        lastActivity = now
    }

    /// The client has sent something, or its input was not read.
    package mutating func noteActivity(at now: MonotonicTime) {
        lastActivity = now
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
    /// - Parameter taken: Bytes that the client's system has acknowledged; asked for only while a ping is on
    ///   its way.
    package mutating func check(at now: MonotonicTime, timeout: Duration, taken: () -> Int) -> Action {
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
        }
    }
}

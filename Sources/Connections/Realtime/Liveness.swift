import PandoTime

/// Whether a client that says nothing is still there (realtime §2.3). Decides; the session acts.
///
///     heard ──silent for the timeout──▶ ping ──the client's machine has taken it, and half a timeout
///     passes──▶ close
///
/// A ping waits behind what the client has to take first, and so may its answer: until its machine has
/// acknowledged the ping, a slow link is not silence, as long as anything is acknowledged.
package struct Liveness {
    package enum Action: Equatable {
        case nothing
        case ping
        case close
    }

    private enum State {
        case heard
        /// Asked; the ping ends at this byte of all that was written. So much had been taken when it last
        /// moved.
        case pinged(behind: Int, taken: Int, at: MonotonicTime)
        /// The ping has arrived.
        case arrived(at: MonotonicTime)
    }

    private var state = State.heard
    private var lastHeard: MonotonicTime

    /// A ping is on its way.
    package var isPinged: Bool { if case .pinged = state { true } else { false } }

    package init(at now: MonotonicTime) {
        lastHeard = now
    }

    /// The client has said something, or could not have been heard.
    package mutating func heard(at now: MonotonicTime) {
        lastHeard = now
        state = .heard
    }

    /// The ping was written.
    /// - Parameters:
    ///   - byteCount: All that was written to the client, the ping included.
    ///   - now: When.
    package mutating func pinged(behind byteCount: Int, at now: MonotonicTime) {
        state = .pinged(behind: byteCount, taken: -1, at: now)
    }

    /// Looks now and then.
    /// - Parameter taken: Bytes that the client's machine has acknowledged; asked for only while a ping is on
    ///   its way.
    package mutating func check(at now: MonotonicTime, timeout: Duration, taken: () -> Int) -> Action {
        guard now - lastHeard > timeout else { return .nothing }
        switch state {
        case .heard: return .ping
        case .pinged(let byteCount, let takenBefore, let moment):
            let taken = taken()
            if taken >= byteCount {
                state = .arrived(at: now)
            } else if taken > takenBefore {
                state = .pinged(behind: byteCount, taken: taken, at: now)
            } else if now - moment > timeout / 2 {
                // Its machine has vanished.
                return .close
            }
            return .nothing
        case .arrived(let moment): return now - moment > timeout / 2 ? .close : .nothing
        }
    }
}

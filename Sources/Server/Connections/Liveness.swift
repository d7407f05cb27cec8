import PandoReactor

/// Whether a client that says nothing is still there (wire-protocol §2.3). Decides; the session acts.
///
///     heard ──silent for the timeout──▶ ping ──the client's machine has taken it, and half a timeout passes──▶ close
///
/// A ping waits behind what the client has to take first, and so may its answer: until its machine has acknowledged the ping,
/// a slow link is not silence. (A client that takes nothing at all is cut off by its ``Pace``.)
struct Liveness {
    enum Action: Equatable {
        case nothing
        case ping
        case close
    }

    private enum State {
        case heard
        /// Asked; the ping ends at this byte of all that was written.
        case pinged(behind: Int)
        /// The ping has arrived.
        case arrived(at: MonotonicTime)
    }

    private var state = State.heard
    private var lastHeard: MonotonicTime

    init(at now: MonotonicTime) {
        lastHeard = now
    }

    /// The client has said something, or could not have been heard.
    mutating func heard(at now: MonotonicTime) {
        lastHeard = now
        state = .heard
    }

    /// The ping was written.
    /// - Parameter byteCount: All that was written to the client, the ping included.
    mutating func pinged(behind byteCount: Int) {
        state = .pinged(behind: byteCount)
    }

    /// Looks now and then.
    /// - Parameter taken: Bytes that the client's machine has acknowledged; asked for only while a ping is on its way.
    mutating func check(at now: MonotonicTime, timeout: Duration, taken: () -> Int) -> Action {
        guard now - lastHeard > timeout else { return .nothing }
        switch state {
        case .heard: return .ping
        case .pinged(let byteCount):
            guard taken() >= byteCount else { return .nothing }
            state = .arrived(at: now)
            return .nothing
        case .arrived(let moment): return now - moment > timeout / 2 ? .close : .nothing
        }
    }
}

/// The closing handshake (RFC 6455 §7.1), as a state machine. Each event returns what the connection must do.
///
///     open ──close()──▶ closing ──receivedClose()──▶ closed
///       │                  │
///       └─ receivedClose() · failed() · peerVanished() ─▶ closed
package struct CloseHandshake: Equatable, Sendable {
    package enum State: Equatable, Sendable {
        /// Data may flow both ways.
        case open
        /// This side has sent its close frame. It sends nothing more, and drops messages until the peer's
        /// close frame arrives.
        case closing
        /// Terminal: both close frames were sent, or the connection has failed.
        case closed
    }

    /// What the connection must do.
    package enum Action: Equatable, Sendable {
        case nothing
        /// Send a close frame and go on reading: the peer replies with one. Without a reply in time, call
        /// ``expired()``.
        case send(CloseCode)
        /// Send a close frame (an empty one for nil), then close the connection.
        case sendThenDisconnect(CloseCode?)
        /// Send a close frame (an empty one for nil), then wait until the server closes the connection. If it
        /// does not in time, call ``expired()``.
        case sendThenAwaitEnd(CloseCode?)
        /// Send nothing, and wait until the server closes the connection. If it does not in time, call
        /// ``expired()``.
        case awaitEnd
        /// Close the connection now.
        case disconnect
    }

    private let role: Role
    /// Where the handshake is.
    package private(set) var state = State.open

    /// - Parameter role: This end of the connection.
    package init(role: Role) {
        self.role = role
    }

    /// Whether messages may be sent, and received ones are to be handled.
    package var isOpen: Bool { state == .open }

    /// This side wants to close. Does nothing unless the state is `open`.
    package mutating func close(_ code: CloseCode) -> Action {
        guard state == .open else { return .nothing }
        state = .closing
        return .send(code)
    }

    /// The peer's close frame has arrived. The reply repeats its code (RFC 6455 §5.5.1). The server closes
    /// the connection first, so that TCP's TIME_WAIT state is on its side (RFC 6455 §7.1.1).
    package mutating func receivedClose(_ code: CloseCode?) -> Action {
        switch state {
        case .open:
            state = .closed
            return role == .server ? .sendThenDisconnect(code) : .sendThenAwaitEnd(code)
        case .closing:
            state = .closed
            return role == .server ? .disconnect : .awaitEnd
        case .closed: return .nothing
        }
    }

    /// The peer violated the protocol: send the violation's close code, and do not wait for a reply
    /// (RFC 6455 §7.1.7).
    package mutating func failed(_ violation: ProtocolViolation) -> Action {
        switch state {
        case .open:
            state = .closed
            return .sendThenDisconnect(violation.closeCode)
        case .closing:
            // The one close frame of this side was sent before.
            state = .closed
            return .disconnect
        case .closed: return .nothing
        }
    }

    /// The stream ended, with or without a handshake before it.
    package mutating func peerVanished() -> Action {
        state = .closed
        return .disconnect
    }

    /// The time for the peer's close frame, or for the end of the connection, has passed.
    package mutating func expired() -> Action {
        state = .closed
        return .disconnect
    }
}

/// The closing handshake (RFC 6455 §7.1). It decides; the connection acts on the answer.
///
///     open ──close()──▶ closing ──receivedClose()──▶ closed
///       │                  │
///       └─ receivedClose() · failed() · peerVanished() ─▶ closed
package struct CloseHandshake: Equatable, Sendable {
    package enum State: Equatable, Sendable {
        /// Data may flow both ways.
        case open
        /// Our close frame is on its way; we send nothing more and drop what messages come until the peer's
        /// arrives.
        case closing
        /// Terminal: both frames have crossed, or one side broke off.
        case closed
    }

    package enum Action: Equatable, Sendable {
        case nothing
        /// Send a close frame and read on: the peer answers. Without an answer in time, call ``expired()``.
        case send(CloseCode)
        /// Send a close frame (an empty one for nil), then end the connection once it is out.
        case sendThenDisconnect(CloseCode?)
        /// Send a close frame, then wait for the server to end the connection; call ``expired()`` if it does
        /// not.
        case sendThenAwaitEnd(CloseCode?)
        /// Nothing to send: wait for the server to end the connection; call ``expired()`` if it does not.
        case awaitEnd
        /// End the connection now.
        case disconnect
    }

    private let role: Role
    package private(set) var state = State.open

    package init(role: Role) {
        self.role = role
    }

    /// Whether messages may still be sent, and those that come still matter.
    package var isOpen: Bool { state == .open }

    /// We want to end it.
    package mutating func close(_ code: CloseCode) -> Action {
        guard state == .open else { return .nothing }
        state = .closing
        return .send(code)
    }

    /// The peer's close frame has come. The answer repeats its code (RFC 6455 §5.5.1). The server ends the
    /// connection first, so that the waiting state of TCP stays on its side (RFC 6455 §7.1.1).
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

    /// The peer broke the protocol: say why, and do not wait for an answer (RFC 6455 §7.1.7).
    package mutating func failed(_ violation: ProtocolViolation) -> Action {
        switch state {
        case .open:
            state = .closed
            return .sendThenDisconnect(violation.closeCode)
        case .closing:
            // Our one close frame is already on its way.
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

    /// We have waited long enough for a close frame or for the end.
    package mutating func expired() -> Action {
        state = .closed
        return .disconnect
    }
}

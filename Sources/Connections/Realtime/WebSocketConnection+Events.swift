import PandoBytes
import PandoDatabase
import PandoIdentity
import PandoTime
import PandoWebSocket
import PandoWire

// Events of a WebSocket that come from the databases, the workers, the clock, and the end of its socket.

extension WebSocketConnection {
    // MARK: Events of the session

    /// The requests before a mark of the request window were answered, and the answers given to
    /// ``send(_:_:)``.
    package mutating func windowMarkReturned(_ context: inout ConnectionContext) {
        returnWindowMarkInOrder(&context)
    }

    /// A worker has parsed a large message.
    package mutating func parsed(_ message: ParsedMessage, _ context: inout ConnectionContext) {
        parsedOrRefused(message, &context)
        inputMayContinue(&context)
    }

    /// A token was verified.
    package mutating func verified(_ result: VerificationResult, _ context: inout ConnectionContext) {
        finishVerifying(result, &context)
    }

    /// The client has shown an administrator's certificate. The databases know the session already.
    package mutating func becomeAdministrator(_ context: inout ConnectionContext) {
        session.becomeAdministrator(&context)
    }

    /// The time of ``ConnectionAction/wake(at:)`` has come: a write that has waited for its rate is made.
    package mutating func deadlinePassed(_ context: inout ConnectionContext) { finishDelay(&context) }

    /// The credential has expired.
    package mutating func expired(_ context: inout ConnectionContext) { signOut(.expired, &context) }

    /// Keys or revocations have changed.
    package mutating func recheck(_ revocations: RevocationState, _ context: inout ConnectionContext) {
        if !isJoining { recheck(signIn: revocations, &context) }
    }

    /// Pauses the client for a reason outside of this state machine.
    package mutating func pause(_ reason: PauseReasons) { pauses.insert(reason) }

    /// The reason is gone.
    package mutating func resume(after reason: PauseReasons) { pauses.remove(reason) }

    // MARK: Time

    /// Whether a tick needs ``SocketStatus/acknowledgedByteCount`` also where nothing is unsent.
    package var needsAcknowledgedByteCount: Bool { liveness.needsAcknowledgedByteCount }

    /// Now and then: disconnects a client that takes or sends too slowly, and asks a silent one whether it
    /// lives (realtime §2.3). Needs ``SocketStatus/acknowledgedByteCount`` while anything is unsent.
    package mutating func tick(_ context: inout ConnectionContext) {
        if context.socket.unsentByteCount == 0 {
            outputRate.end()
        } else if outputRate.isTooSlow(&context) {
            return context.append(.reset)
        }
        guard isOpen else { return }
        if input.isTooSlow(mayExpect: pauses.isEmpty, &context) {
            return close(with: .policyViolation, &context)
        }
        // A paused client cannot be called silent; whether it takes what it is sent, the rate shows.
        if !pauses.isEmpty { liveness.noteActivity(at: context.now) }
        let taken = context.socket.acknowledgedByteCount
        switch liveness.check(at: context.now, timeout: context.settings.pingSilence, taken: { taken }) {
        case .nothing: break
        case .ping:
            sendControl(.ping, [UInt8]().rawSpan, &context)
            liveness.pinged(behind: context.socket.writtenByteCount, at: context.now)
        case .close: context.append(.close)
        }
    }

    // MARK: Control frames

    /// Answers a WebSocket ping at once, or, while the client takes nothing, the last one later: then no
    /// other need be answered (RFC 6455 §5.5.3).
    mutating func answerPing(_ payload: RawSpan, _ context: inout ConnectionContext) {
        // Above the low-water mark the socket reports when it has drained.
        guard context.isDrained else {
            owedPong = Box([UInt8](copying: payload))
            return
        }
        sendControl(.pong, payload, &context)
    }

    /// Sends a control frame at once: it may stand between any two frames.
    mutating func sendControl(
        _ opcode: Opcode, _ payload: RawSpan, _ context: inout ConnectionContext
    ) {
        guard closing.isOpen else { return }
        var frame: [UInt8] = []
        frame.append(frame: opcode, payload: payload)
        context.write(frame)
    }

    // MARK: The end

    /// The databases have ended the session.
    package mutating func close(_ reason: DisconnectReason, _ context: inout ConnectionContext) {
        closeInOrder(reason, &context)
    }

    mutating func end(_ reason: DisconnectReason, _ context: inout ConnectionContext) {
        switch reason {
        case .finished, .replaced: close(with: .normal, &context)
        case .goingAway: close(with: .goingAway, &context)
        }
    }

    mutating func cut(_ context: inout ConnectionContext) { context.append(.reset) }

    mutating func close(with code: CloseCode, _ context: inout ConnectionContext) {
        act(closing.close(code), &context)
    }

    /// The session ends with the first close frame of either side (realtime §3.4); the connection exists
    /// until that is sent and the client has closed its side, or some seconds. The server closes the
    /// connection first: what the client still sends has no meaning.
    mutating func act(_ action: CloseHandshake.Action, _ context: inout ConnectionContext) {
        switch action {
        case .nothing, .awaitEnd: return
        case .send(let code): sendClose(code, &context)
        case .sendThenDisconnect(let code), .sendThenAwaitEnd(let code): sendClose(code, &context)
        case .disconnect: break
        }
        context.append(.closeAfterFlush)
        endSession(&context)
    }

    private func sendClose(_ code: CloseCode?, _ context: inout ConnectionContext) {
        var frame: [UInt8] = []
        frame.append(closeFrame: code)
        context.write(frame)
    }

    /// Posts the end of the session to the databases, once.
    private mutating func endSession(_ context: inout ConnectionContext) {
        guard maySendToDatabases else { return }
        maySendToDatabases = false
        context.post(.closed(session.id))
    }

    /// Memory is short, and this client holds much. Unsent output is dropped with the connection; only a
    /// message that is not complete can be refused in words.
    package mutating func giveUpMemory(_ context: inout ConnectionContext) {
        guard context.socket.unsentByteCount == 0 else { return context.append(.reset) }
        close(with: .tryAgainLater, &context)
        // Now, not when the client has closed its side, too: it may take its time, and would be chosen again.
        input.drop()
        dropOutputs(&context)
    }

    /// The client has closed its side: its session is over, also where it still reads.
    package mutating func peerEnded(_ context: inout ConnectionContext) {
        act(closing.peerVanished(), &context)
    }

    /// The connection is gone. The last event.
    package mutating func closed(_ context: inout ConnectionContext) {
        _ = closing.peerVanished()
        endSession(&context)
        if !isJoining { session.close(&context) }
        leaveHandover(&context)
        input.drop()
        dropOutputs(&context)
    }
}

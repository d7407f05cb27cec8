import PandoBytes
import PandoDatabase
import PandoEngine
import PandoTime
import PandoWire

// How a session by long polling ends, or moves to a WebSocket (``Handover``).

extension LongPollingSession {
    // MARK: The end

    /// The client's page was left.
    package mutating func disconnect(_ context: inout ConnectionContext) {
        defer { schedule(&context) }
        // The page also says so when polling ends because a WebSocket has taken over.
        if phase == .former { return becomeOver(&context) }
        guard phase == .open, !handover.hasUpstreamEnded, !isLeaving, hasInput else { return cut(&context) }
        // What it has sent is done. Its responses go nowhere, and so hold nothing back.
        isLeaving = true
        handover.refuse(&context)
        polls.close(&context)
        input.dropSegments()
        // No poll comes any more: ``tick(_:)`` bounds how long it takes.
        polls.noteNoPollWaits(&context)
        noteDrained(&context)
        inputMayContinue(&context)
    }

    /// The databases have ended the session.
    package mutating func close(_ reason: DisconnectReason, _ context: inout ConnectionContext) {
        closeInOrder(reason, &context)
        schedule(&context)
    }

    /// Where the server has said its last, that is delivered first; a client that is replaced, or whose
    /// server ends, gets the end at once.
    mutating func end(_ reason: DisconnectReason, _ context: inout ConnectionContext) {
        guard reason == .finished, phase == .open, !isLeaving else { return cut(&context) }
        phase = .finishing
        leaveSession(&context)
        input.drop()
        polls.noteNoPollWaits(&context)
        // However long the client goes on to ask.
        endDeadline = context.now + context.settings.pollGap
        polls.answerLater(&context)
    }

    /// The process ends.
    package mutating func endIfIdle(_ context: inout ConnectionContext) {
        if phase == .finishing { cutNow(&context) }
    }

    /// Ends the session at once: it holds too much memory, or others need its place.
    package mutating func cutNow(_ context: inout ConnectionContext) {
        cut(&context)
        schedule(&context)
    }

    mutating func cut(_ context: inout ConnectionContext) {
        switch phase {
        case .over: break
        case .former: becomeOver(&context)
        case .open, .finishing:
            leaveSession(&context)
            becomeOver(&context)
        }
    }

    private mutating func leaveSession(_ context: inout ConnectionContext) {
        endSession(&context)
        session.close(&context)
        handover.refuse(&context)
    }

    private mutating func becomeOver(_ context: inout ConnectionContext) {
        let wasFormer = phase == .former
        phase = .over
        polls.close(&context)
        polls.cancelDeliveryCheck()
        input.drop()
        dropOutputs(&context)
        endDeadline = nil
        if wasFormer {
            context.append(.handover(.forgetFormer))
        } else {
            context.append(.polling(.pollWaits))
            context.append(.polling(.remove))
        }
    }

    // MARK: The handover

    /// Whether a WebSocket may still join.
    package var mayBeJoined: Bool { phase == .open && !handover.hasUpstreamEnded && !isLeaving }

    /// The client tries a WebSocket, which offers the move. An earlier one is given up.
    package mutating func join(_ webSocket: SessionID, _ context: inout ConnectionContext) {
        handover.join(webSocket, &context)
    }

    /// The client has said on the WebSocket that what it sends next comes there.
    package mutating func webSocketAcknowledged(_ webSocket: SessionID, _ context: inout ConnectionContext) {
        guard handover.acknowledge(webSocket) else { return }
        moveIfAgreed(&context)
        schedule(&context)
    }

    /// Without its WebSocket the client goes on by long polling; once it has said `n` it cannot send by that
    /// any more, and must begin anew (what the SDK itself does not always notice: firebase-js-sdk issue 494).
    package mutating func webSocketIsGone(_ webSocket: SessionID, _ context: inout ConnectionContext) {
        guard handover.remove(webSocket) else { return }
        if handover.hasUpstreamEnded { cut(&context) }
        schedule(&context)
    }

    /// Both sides have said all that they say by long polling: the last is our `n`.
    mutating func moveIfAgreed(_ context: inout ConnectionContext) {
        guard handover.hasUpstreamEnded, phase == .open else { return }
        guard !handover.isRefused else { return cut(&context) }
        guard let webSocket = handover.agreed, outputs.isEmpty else { return }
        _ = handover.remove(webSocket)
        var message: [UInt8] = []
        message.appendEndOfTransmission()
        polls.responses.append(message.rawSpan)
        polls.responses.endMessage()
        phase = .former
        // What has been held back for a slow reader goes to the new connection.
        if isLagging { catchUp(&context) }
        input.drop()
        endDeadline = context.now + context.settings.pollGap
        context.append(.polling(.pollWaits))
        if session.expiry != nil { context.append(.expire(at: nil)) }
        context.append(.handover(.move(to: webSocket)))
        polls.answerLater(&context)
    }

    /// The session for the WebSocket that takes it over.
    package mutating func moveSession() -> RealtimeSession { giveSession() }

    /// The last responses have had their time, or are of no use any more: nothing is left of it.
    package mutating func leaveFormer(_ context: inout ConnectionContext) {
        if phase == .former { becomeOver(&context) }
        schedule(&context)
    }
}

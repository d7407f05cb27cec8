import PandoBytes
import PandoWire

// How a session by long polling moves here: the picture is in `Handover.swift`.

extension WebSocketConnection {
    /// The session by long polling still carries the messages; here come only pings, and at last `a`.
    package var isJoining: Bool {
        switch handover {
        case .offered, .acknowledged: true
        case .none, .done: false
        }
    }

    /// Offers the move. Nothing else is sent before ``takeOver(_:_:)``: to each pong, and to `a`, the client
    /// answers with its next step.
    package mutating func offerMove(_ context: inout ConnectionContext) {
        var message: [UInt8] = []
        message.appendUpgrade()
        sendMessage(message, &context)
    }

    mutating func receiveJoining(_ message: RawSpan, _ context: inout ConnectionContext) {
        guard message.byteCount <= ConnectionLimits.smallByteCount,
            let control = try? ClientMessage(parsing: message)
        else { return close(with: .invalidPayload, &context) }
        switch control {
        case .ping:
            var pong: [UInt8] = []
            pong.appendPong()
            sendMessage(pong, &context)
        case .upgrade:
            guard case .offered(let polling) = handover else { break }
            handover = .acknowledged(from: polling)
            context.append(.handover(.acknowledged(polling: polling)))
        // The client sends data here only behind its `a`.
        case .request: close(with: .policyViolation, &context)
        case .endOfTransmission, .unknownControl: break
        }
    }

    /// Everything goes on here: what the client has sent behind its `a` is read next.
    package mutating func takeOver(_ session: RealtimeSession, _ context: inout ConnectionContext) {
        handover = .done
        adopt(session)
        if let expiry = session.expiry { context.append(.expire(at: expiry)) }
        inputMayContinue(&context)
    }

    /// The last responses by long polling have arrived, or have had their time.
    package mutating func forgetFormer() {
        if case .done = handover { handover = .none }
    }

    /// The move is given up by the session by long polling.
    package mutating func refuseMove(_ context: inout ConnectionContext) {
        close(with: .normal, &context)
    }

    mutating func leaveHandover(_ context: inout ConnectionContext) {
        switch handover {
        case .none: break
        case .offered(let polling), .acknowledged(let polling):
            context.append(.handover(.webSocketIsGone(polling: polling)))
        case .done: context.append(.handover(.leaveFormer))
        }
        handover = .none
    }
}

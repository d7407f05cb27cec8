import PandoBytes
import PandoReactor
import PandoWire

// A long-polling session moves to a WebSocket (realtime §1.6), which sits on the same loop:
//
//     client                    WebSocket                 long polling
//       │ /.ws?s=…  ──────────────▶│                          │
//       │◀──────────────────── a   │ offered                  │
//       │ p ──────────────────────▶│  (twice: §2.4)           │
//       │◀──────────────────── o   │                          │
//       │ a ──────────────────────▶│ acknowledged: what       │
//       │ n ───────────────────────┼── follows waits ────────▶│ everything before it is handed on
//       │◀─────────────────────────┼──────────────────────  n │ then pLPCommand('close', k)
//       │◀───────── everything else│ done                     │ its last answers may be asked for again

extension WebSocketSession {
    /// The long-polling session still carries the messages; here come only pings, and at last `a`.
    var isJoining: Bool {
        if let handover { handover.phase != .done } else { false }
    }

    /// Offers the move. Nothing else is sent before ``takeOver()``: to each pong, and to `a`, the client
    /// answers with its next step.
    func offerMove() {
        var message: [UInt8] = []
        message.appendUpgrade()
        sendMessage(message.rawSpan)
    }

    func receiveJoining(_ message: RawSpan) {
        guard message.byteCount <= IOLoop.smallByteCount, let control = try? ClientMessage(parsing: message)
        else {
            return close(with: .invalidPayload)
        }
        switch control {
        case .ping:
            var pong: [UInt8] = []
            pong.appendPong()
            sendMessage(pong.rawSpan)
        case .upgrade:
            handover?.phase = .acknowledged
            handover?.polling.webSocketWasAcknowledged(self)
        // The client sends data here only behind its `a`.
        case .request: close(with: .policyViolation)
        case .endOfTransmission, .unknownControl: break
        }
    }

    /// Whether the client has said that what it sends next comes here.
    var isAcknowledged: Bool { handover?.phase == .acknowledged }

    /// Everything goes on here: what the client has sent behind its `a` is read next.
    /// ``IOLoop/replace(_:by:)`` has given this WebSocket the session's id.
    func takeOver() {
        handover?.phase = .done
        hasEnded = false
        session.transport = self
        inputMayGoOn()
    }

    /// The long-polling session that has moved here, while its last answers may be asked for again.
    var former: LongPollingSession? { isJoining ? nil : handover?.polling }

    /// The last answers of the long-polling session have arrived, or have had their time.
    func forgetFormer() {
        handover = nil
    }

    /// The move is given up by the long-polling session.
    func refuseMove() {
        close(with: .normal)
    }

    func leaveHandover() {
        guard let polling = handover?.polling else { return }
        if isJoining { polling.webSocketIsGone(self) } else { polling.leaveFormer() }
        handover = nil
    }
}

/// A long-polling session on its way to a WebSocket.
final class Handover {
    enum Phase {
        /// The client tries the WebSocket.
        case offered
        /// The client has said `a`: what comes next waits for its `n` by long polling.
        case acknowledged
        /// The WebSocket carries the session.
        case done
    }

    let polling: LongPollingSession
    var phase = Phase.offered

    init(from polling: LongPollingSession) {
        self.polling = polling
    }
}

import PandoEngine

// A session by long polling moves to a WebSocket (realtime §1.6), which is on the same loop:
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

/// How far a session by long polling is on its way to this WebSocket.
enum Handover {
    /// The session is this connection's own.
    case none
    /// The client tries the WebSocket.
    case offered(from: SessionID)
    /// The client has said `a`: what it sends next waits for its `n` by long polling.
    case acknowledged(from: SessionID)
    /// The WebSocket carries the session, and its last responses by long polling may be asked for again.
    case done
}

/// What the two sides of a handover ask of each other. `polling` is the session's id, `webSocket` that of the
/// connection while it does not carry the session.
package enum HandoverAction {
    // From the WebSocket

    /// ``LongPollingSession/webSocketAcknowledged(_:_:)``
    case acknowledged(polling: SessionID)
    /// ``LongPollingSession/webSocketIsGone(_:_:)``
    case webSocketIsGone(polling: SessionID)
    /// ``LongPollingSession/leaveFormer(_:)`` of the session that has moved here.
    case leaveFormer

    // From long polling

    /// ``WebSocketConnection/refuseMove(_:)``
    case refuse(webSocket: SessionID)
    /// Give the WebSocket the session's place, then ``WebSocketConnection/takeOver(_:_:)``.
    case move(to: SessionID)
    /// ``WebSocketConnection/forgetFormer()`` of the WebSocket that has the session.
    case forgetFormer
}

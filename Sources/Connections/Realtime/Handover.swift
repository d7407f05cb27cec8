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

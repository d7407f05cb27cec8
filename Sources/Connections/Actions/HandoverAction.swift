import PandoEngine

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

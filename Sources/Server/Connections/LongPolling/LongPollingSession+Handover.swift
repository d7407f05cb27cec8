import PandoBytes
import PandoDatabase
import PandoReactor
import PandoWire

// A session by long polling moves to a WebSocket (realtime §1.6): the picture is in
// `WebSocketSession+Handover.swift`.

extension LongPollingSession {
    /// The client tries a WebSocket: it is offered the move. An earlier one is given up.
    func join(_ webSocket: WebSocketSession) {
        candidate?.refuseMove()
        candidate = webSocket
        webSocket.offerMove()
    }

    /// Whether a WebSocket may still join.
    var mayBeJoined: Bool { phase == .open && !hasUpstreamEnded && !isLeaving }

    func webSocketWasAcknowledged(_ webSocket: WebSocketSession) { moveIfAgreed() }

    /// Without its WebSocket the client goes on by long polling; once it has said `n` it cannot send by that
    /// any more, and must begin anew (what the SDK itself does not always notice: firebase-js-sdk issue 494).
    func webSocketIsGone(_ webSocket: WebSocketSession) {
        guard candidate === webSocket else { return }
        candidate = nil
        if hasUpstreamEnded { cut() }
    }

    /// Both sides have said all that they say by long polling: the last is our `n`.
    func moveIfAgreed() {
        guard hasUpstreamEnded, phase == .open else { return }
        guard let webSocket = candidate, webSocket.isOpen else { return cut() }
        guard webSocket.isAcknowledged, areOutputsWritten else { return }
        candidate = nil
        var message: [UInt8] = []
        message.appendEndOfTransmission()
        answers.append(message.rawSpan)
        answers.endMessage()
        countOutput()
        phase = .former
        // What has been held back for a slow reader goes to the new connection.
        if isLagging { catchUp() }
        dropInput()
        owner.connectedPolling(self)
        owner.replace(self, by: webSocket)
        owner.loop.schedule(after: owner.configuration.pollGap) { [weak self] in self?.leaveFormer() }
        answerLater()
        webSocket.takeOver()
    }

    /// The last answers have had their time, or are of no use any more: nothing is left of it.
    func leaveFormer() {
        guard phase == .former else { return }
        becomeOver()
        owner.webSocket(id)?.forgetFormer()
    }
}

import PandoEngine

/// How far a session by long polling is with its move to a WebSocket (``Handover``): both sides must have
/// said all that they say by long polling.
struct HandoverOffer {
    /// A WebSocket that the client tries.
    private struct Candidate {
        let webSocket: SessionID
        /// The client has said that what it sends next comes there.
        var isAcknowledged = false
    }

    private var candidate: Candidate?
    /// The client has said `n`.
    private(set) var hasUpstreamEnded = false

    /// No WebSocket is there to move to.
    var isRefused: Bool { candidate == nil }

    /// The WebSocket to which the client wants to move now; nil where it has not said so.
    var agreed: SessionID? {
        guard hasUpstreamEnded, let candidate, candidate.isAcknowledged else { return nil }
        return candidate.webSocket
    }

    /// The client tries a WebSocket, which offers the move. An earlier one is given up.
    mutating func join(_ webSocket: SessionID, _ context: inout ConnectionContext) {
        refuse(&context)
        candidate = Candidate(webSocket: webSocket)
    }

    /// Gives the WebSocket up.
    mutating func refuse(_ context: inout ConnectionContext) {
        if let candidate { context.append(.handover(.refuse(webSocket: candidate.webSocket))) }
        candidate = nil
    }

    /// The client sends nothing more by long polling.
    mutating func upstreamEnded() { hasUpstreamEnded = true }

    /// The client has said on a WebSocket that what it sends next comes there.
    /// - Returns: Whether it is the one that it tries.
    mutating func acknowledge(_ webSocket: SessionID) -> Bool {
        guard candidate?.webSocket == webSocket else { return false }
        candidate?.isAcknowledged = true
        return true
    }

    /// A WebSocket is gone, or the session has moved there.
    /// - Returns: Whether it was the one that the client tried.
    mutating func remove(_ webSocket: SessionID) -> Bool {
        guard candidate?.webSocket == webSocket else { return false }
        candidate = nil
        return true
    }
}

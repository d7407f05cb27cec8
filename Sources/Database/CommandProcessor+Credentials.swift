import PandoEngine
import PandoTree
import PandoWire

extension CommandProcessor {
    /// Refuses a request whose credential has ended: it has expired, or was revoked, while the request waited
    /// for its turn or for another thread. It is not executed as an anonymous request either: the
    /// client did not mean that, and sends again, under its next credential, what was not acknowledged.
    /// - Returns: false for a request that may be executed; then nothing was done.
    func refuseIfCredentialEnded(_ request: PostedRequest) -> Bool {
        guard request.credentialNumber > 0 || request.signIn > 0, request.action.usesCredential,
            let hosted = sessions[request.session],
            hosted.hasEnded(request.credentialNumber, signIn: request.signIn)
        else { return false }
        metrics.requests.add(request.action.metric)
        metrics.denials.add()
        let result = CommandResult.permissionDenied
        if let failure = result.failure { metrics.failures.add(failure) }
        encoder.noteRequest(received: request.received)
        if request.byteCount > Self.smallByteCount { releases.add(request.action.largeNodes) }
        if !coalescer.isEmpty { catchUp(request.session) }
        encoder.encode(result, request.number, to: request.session)
        return true
    }
}

import PandoBytes
import PandoEngine
import PandoIdentity
import PandoReactor
import PandoTime

// Tokens on their way to the authenticator and back. Verifying may cost, and may wait for an issuer, so it
// happens on the concurrency runtime's threads; the verdict comes back through the loop's mailbox. A
// connection has one token under way at most, and what it asks meanwhile waits. How many are under way, and which wait, is
// in `VerificationQueue.swift`.

extension IOLoop {
    func verify(_ token: Text, for id: SessionID) {
        guard let session = session(id) else { return }
        if let verdict = authenticator.verifyAtOnce(token) {
            count(verdict)
            return session.verified(verdict)
        }
        let digest = SHA256Digest(of: token)
        if let identity = knownTokens.identity(of: digest, at: wallTime() / 1000, now: cacheTime) {
            services.metrics.verifications.add(.remembered)
            return session.verified(.accepted(identity))
        }
        unverified.append(.init(session: id, token: token, digest: digest)) { self.session($0) != nil }
        startVerifications()
    }

    private func startVerifications() {
        while let entry = unverified.next(isOpen: { session($0) != nil }) {
            // A proxy on this machine speaks for many: what one of them does wrong is not counted against all.
            let peer = session(entry.session)?.peerAddress.flatMap { $0.isLoopback ? nil : Text($0.host) }
            Task.detached { [authenticator, verified, logger] in
                let verdict = await authenticator.verify(entry.token, at: wallTime() / 1000, from: peer)
                if case .refused(let refusal) = verdict { logger.debug("token refused: \(refusal.rawValue)") }
                verified.post(VerifiedToken(session: entry.session, digest: entry.digest, verdict: verdict))
            }
        }
    }

    /// Takes the results of verifications, and starts others.
    func finish(_ tokens: [VerifiedToken]) {
        for token in tokens {
            unverified.finish()
            session(token.session)?.verified(settle(token))
        }
        startVerifications()
    }

    /// What a verdict is worth by now: keys may have changed while it was on its way. A good one is
    /// remembered.
    private func settle(_ verified: VerifiedToken) -> VerificationResult {
        count(verified.verdict)
        guard case .accepted(let identity) = verified.verdict else { return verified.verdict }
        guard authenticator.revocations.allows(identity) else { return .refused(.revoked) }
        knownTokens.store(identity, of: verified.digest, at: wallTime() / 1000, now: cacheTime)
        return verified.verdict
    }

    private func count(_ verdict: VerificationResult) {
        if case .accepted = verdict {
            services.metrics.verifications.add(.accepted)
        } else {
            services.metrics.verifications.add(.refused)
        }
    }

    private var cacheTime: Duration { loop.now - MonotonicTime(nanoseconds: 0) }
}

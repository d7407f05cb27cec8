import Logging
import PandoBytes
import PandoEngine
import PandoIdentity
import PandoReactor
import PandoStorage
import PandoTime

/// Takes the tokens of one loop's connections to the authenticator, and the results back.
///
/// Verifying may cost, and may wait for an issuer, so it happens on the concurrency runtime's threads; the
/// result comes back through a mailbox of the loop. A connection has one token under way at most, and what it
/// asks meanwhile waits. How many are under way, and which wait, is in ``VerificationQueue``. Confined to the
/// loop.
final class TokenVerifier {
    private let loop: EventLoop
    private let table: SessionTable
    private let authenticator: Authenticator
    private let metrics: SessionMetrics
    private let logger: Logger
    private let verified: Mailbox<VerifiedToken>
    private var known = VerificationCache()
    private var queue = VerificationQueue()

    init(
        _ table: SessionTable, on loop: EventLoop, _ authenticator: Authenticator, _ metrics: SessionMetrics,
        _ logger: Logger
    ) {
        self.table = table
        self.loop = loop
        self.authenticator = authenticator
        self.metrics = metrics
        self.logger = logger
        verified = Mailbox(signalling: loop.wakeup)
    }

    /// Receives results from now on. Once.
    func attach() {
        loop.attach(verified) { [self] tokens in finish(tokens) }
    }

    /// Has a token verified; the session's `verified` gets the result, at once where that takes no key or was
    /// done lately.
    func verify(_ token: Text, for id: SessionID) {
        guard let session = table[id] else { return }
        if let result = authenticator.verifyAtOnce(token) {
            count(result)
            return session.verified(result)
        }
        let digest = SHA256Digest(of: token)
        if let identity = known.identity(of: digest, at: wallTime() / 1000, now: cacheTime) {
            metrics.verifications.add(.remembered)
            return session.verified(.accepted(identity))
        }
        queue.append(.init(session: id, token: token, digest: digest)) { table[$0] != nil }
        start()
    }

    /// Keys or revocations have changed: no result is remembered.
    func forgetAll() { known.removeAll() }

    private func start() {
        while let entry = queue.next(isOpen: { table[$0] != nil }) {
            // A proxy on this machine speaks for many: what one of them does wrong is not counted against
            // all.
            let peer = table[entry.session]?.peerAddress.flatMap { $0.isLoopback ? nil : Text($0.host) }
            Task.detached { [authenticator, verified, logger] in
                let result = await authenticator.verify(entry.token, at: wallTime() / 1000, from: peer)
                if case .refused(let refusal) = result { logger.debug("token refused: \(refusal.rawValue)") }
                verified.post(VerifiedToken(session: entry.session, digest: entry.digest, result: result))
            }
        }
    }

    /// Takes the results of verifications, and starts others.
    private func finish(_ tokens: [VerifiedToken]) {
        for token in tokens {
            queue.finish()
            table[token.session]?.verified(settle(token))
        }
        start()
    }

    /// What a result is by now: keys may have changed while it was on its way. A good one is
    /// remembered.
    private func settle(_ verified: VerifiedToken) -> VerificationResult {
        count(verified.result)
        guard case .accepted(let identity) = verified.result else { return verified.result }
        guard authenticator.revocations.allows(identity) else { return .refused(.revoked) }
        known.store(identity, of: verified.digest, at: wallTime() / 1000, now: cacheTime)
        return verified.result
    }

    private func count(_ result: VerificationResult) {
        if case .accepted = result {
            metrics.verifications.add(.accepted)
        } else {
            metrics.verifications.add(.refused)
        }
    }

    private var cacheTime: Duration { loop.now - MonotonicTime(nanoseconds: 0) }
}

import Glibc
import PandoBytes
import PandoDatabase
import PandoEngine
import PandoIdentity
import PandoREST
import PandoReactor
import PandoRules
import PandoWire

// Tokens on their way to the authenticator and back. Verifying may cost, and may wait for an issuer, so it
// happens on the concurrency runtime's threads; the verdict comes back through the loop's mailbox. A
// connection has one token under way at most, and what it asks meanwhile waits.

/// A verdict on its way back to the connection that wanted it.
struct VerifiedToken: Sendable {
    var session: SessionID
    var digest: SHA256Digest
    var verdict: VerificationResult
}

extension IOLoop {
    /// Has a token verified; ``ClientSession/finish(_:)`` hears of it, at once where that takes no key or was
    /// done lately.
    func verify(_ token: Text, for session: ClientSession) {
        if let verdict = authenticator.verifyAtOnce(token) { return session.finish(verdict) }
        let digest = SHA256Digest(of: token)
        if let identity = knownTokens.identity(of: digest, at: wallTime() / 1000, now: cacheTime) {
            return session.finish(.accepted(identity))
        }
        // A proxy on this machine speaks for many: what one of them does wrong is not counted against all.
        let peer = session.peerAddress.flatMap { $0.isLoopback ? nil : Text($0.host) }
        Task.detached { [authenticator, verdicts, logger, id = session.id] in
            let verdict = await authenticator.verify(token, at: wallTime() / 1000, from: peer)
            if case .refused(let refusal) = verdict { logger.debug("token refused: \(refusal.rawValue)") }
            verdicts.post(VerifiedToken(session: id, digest: digest, verdict: verdict))
        }
    }

    /// What a verdict is worth by now: keys may have changed while it was on its way. A good one is
    /// remembered.
    func settle(_ verified: VerifiedToken) -> VerificationResult {
        guard case .accepted(let identity) = verified.verdict else { return verified.verdict }
        guard authenticator.revocations.allows(identity) else { return .refused(.revoked) }
        knownTokens.store(identity, of: verified.digest, at: wallTime() / 1000, now: cacheTime)
        return verified.verdict
    }

    private var cacheTime: Duration { loop.now - MonotonicTime(nanoseconds: 0) }

    /// Calls `body` when the wall clock has reached a moment.
    ///
    /// The wait is a monotonic one, in steps, with a look at the wall clock after each: a clock that is set
    /// back ends nothing early, and one that is set forward is noticed.
    /// - Parameter moment: Seconds since 1970.
    func atWallTime(_ moment: Int64, _ body: @escaping () -> Void) -> WallTimer {
        let timer = WallTimer(moment: moment, body)
        timer.wait(on: loop)
        return timer
    }
}

/// One moment that is waited for. Confined to its loop.
final class WallTimer {
    /// The longest that a clock set forward goes unnoticed.
    private static let longestStep: Duration = .seconds(30)

    private let moment: Int64
    private var body: (() -> Void)?
    private var token: TimerToken?

    fileprivate init(moment: Int64, _ body: @escaping () -> Void) {
        self.moment = moment
        self.body = body
    }

    fileprivate func wait(on loop: EventLoop) {
        let left = Duration.milliseconds(max(0, moment * 1000 - wallTime()))
        token = loop.schedule(after: min(left, Self.longestStep)) { [weak self, weak loop] in
            guard let self, let loop, body != nil else { return }
            token = nil
            guard wallTime() >= moment * 1000 else { return wait(on: loop) }
            let body = body.take()
            body?()
        }
    }

    func cancel(on loop: EventLoop) {
        body = nil
        if let token = token.take() { loop.cancel(token) }
    }
}

/// Milliseconds since 1970.
private func wallTime() -> Int64 {
    var time = timespec()
    let result = unsafe clock_gettime(CLOCK_REALTIME, &time)
    precondition(result == 0, "the realtime clock is always there")
    return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
}

/// What may be asked for beside a token: to be taken for somebody else (auth §2.4). Only an administrator
/// may.
struct NotAnAdministrator: Error {}

extension Identity {
    /// As whom a client acts that has signed in over the realtime protocol, with `authvar` or `noauth`
    /// (realtime §4.7).
    func credential(asking asked: PandoWire.Credential) throws(NotAnAdministrator) -> PandoRules.Credential {
        guard asked.isUnauthenticated || asked.authVariable != nil else { return credential }
        guard credential.isAdmin else { throw NotAnAdministrator() }
        if asked.isUnauthenticated { return .anonymous }
        return PandoRules.Credential(authVariable: asked.authVariable.map { Text($0.description) })
    }

    /// As whom a REST request acts, with `auth_variable_override` (rest §4).
    func credential(asking override: AuthVariableOverride?) throws(NotAnAdministrator)
        -> PandoRules.Credential
    {
        guard let override else { return credential }
        guard credential.isAdmin else { throw NotAnAdministrator() }
        return override.claims == nil ? .anonymous : PandoRules.Credential(authVariable: override.json)
    }
}

import PandoBytes
import PandoRules
import Synchronization

/// Tells whose a token is. Any thread.
///
/// Which key is tried is decided by us: a token's `alg` names a family, and of that family only keys that
/// were configured are asked, each for the algorithms it was configured for (auth §5).
///
///     no dots        `owner` in --dev · a secret of ours, where that is allowed
///     alg none       --dev only
///     HS256          our secrets: legacy tokens, and those of the modern shape
///     RS…, ES, EdDSA key files, then issuers, whose name is in `iss`
package final class Authenticator: Sendable {
    /// What the operator is told; nothing of a token is in it.
    package typealias Report = @Sendable (String) -> Void

    private struct State {
        var configuration: IdentityConfiguration
        var local: LocalKeys
        var stamp: [String]
        var lookedAt: Duration
        var standing: RevocationState
        var whenChanged: (@Sendable (RevocationState) -> Void)?
    }

    private let state: Mutex<State>
    private let remote: [IssuerKeys]
    private let failures: FailureLimit
    private let report: Report
    private let monotonic: @Sendable () -> Duration
    /// All that can be verified without a key or a file: see ``verifyAtOnce(_:)``.
    private let acceptsDevelopmentTokens: Bool
    private let needsKeys: Bool
    private let tokenByteLimit: Int

    /// How often the files are looked at, at most: when a token is to be verified, not before.
    private static let fileInterval: Duration = .seconds(2)

    /// Reads secrets and key files. Nothing is fetched yet.
    /// - Throws: ``UnusableIdentity``, with every problem.
    package convenience init(
        _ configuration: IdentityConfiguration, report: @escaping Report
    ) async throws(UnusableIdentity) {
        let began = ContinuousClock.now
        try await self.init(
            configuration, fetch: Fetcher.fetch, monotonic: { ContinuousClock.now - began }, report: report)
    }

    init(
        _ configuration: IdentityConfiguration, fetch: @escaping IssuerKeys.Fetch,
        monotonic: @escaping @Sendable () -> Duration, report: @escaping Report
    ) async throws(UnusableIdentity) {
        let stamp = await LocalKeys.stamp(configuration)
        var problems = configuration.problems
        let local = await LocalKeys(configuration, &problems)
        guard problems.isEmpty else { throw UnusableIdentity(problems: problems) }
        state = Mutex(
            State(
                configuration: configuration, local: local, stamp: stamp, lookedAt: monotonic(),
                standing: local.standing))
        remote = configuration.issuers.map { IssuerKeys($0, fetch: fetch, now: monotonic, report: report) }
        failures = FailureLimit(perMinute: configuration.failuresPerMinute)
        acceptsDevelopmentTokens = configuration.acceptsDevelopmentTokens
        tokenByteLimit = configuration.tokenByteLimit
        needsKeys = !configuration.secrets.isEmpty || !configuration.keyFiles.isEmpty || !remote.isEmpty
        self.monotonic = monotonic
        self.report = report
    }

    /// What cannot be read of the files and variables that a configuration names.
    package static func fileProblems(of configuration: IdentityConfiguration) async -> [String] {
        var problems: [String] = []
        _ = await LocalKeys(configuration, &problems)
        return problems
    }

    // MARK: Keys

    /// Fetches what issuers publish, so that the first who signs in need not wait for it.
    package func prefetch() async {
        await withTaskGroup { group in
            for issuer in remote { group.addTask { _ = try? await issuer.keys(for: nil) } }
        }
    }

    /// Waits for the fetches that are under way.
    func fetchUnderWay() async {
        for issuer in remote { await issuer.underWay?.value }
    }

    /// Who may stay, as of now.
    package var standing: RevocationState { state.withLock { $0.standing } }

    /// Has `body` called each time that keys or revocations are others than before: whoever was let in before
    /// must be held against them, and so must whatever was remembered. In the order of the changes, on any
    /// thread.
    package func whenStandingChanges(_ body: @escaping @Sendable (RevocationState) -> Void) {
        state.withLock { $0.whenChanged = body }
    }

    /// Reads secrets, key files and revocations again. When there is any problem, all of them stay as they
    /// were.
    package func reload() async {
        let configuration = state.withLock { $0.configuration }
        let stamp = await LocalKeys.stamp(configuration)
        var problems: [String] = []
        let local = await LocalKeys(configuration, &problems)
        state.withLock { state in
            state.stamp = stamp
            guard problems.isEmpty else { return }
            state.local = local
            let standing = local.standing
            guard standing != state.standing else { return }
            state.standing = standing
            // Under the lock: of two changes the later one is told last.
            state.whenChanged?(standing)
        }
        for problem in problems { report("\(problem); the keys from before stay") }
    }

    /// Reads again what has changed; looks at the files every two seconds, however often it is asked.
    package func reloadIfChanged() async {
        let now = monotonic()
        let (configuration, known): (IdentityConfiguration, [String]?) = state.withLock { state in
            guard now - state.lookedAt >= Self.fileInterval else { return (state.configuration, nil) }
            state.lookedAt = now
            return (state.configuration, state.stamp)
        }
        if let known, known != (await LocalKeys.stamp(configuration)) { await reload() }
    }

    // MARK: Verifying

    /// The verdict where it takes no key and no wait: on tokens of `--dev` and on what is no token for us at
    /// all; nil when ``verify(_:at:from:)`` must be asked.
    package func verifyAtOnce(_ token: Text) -> Verdict? {
        guard token.utf8Count <= tokenByteLimit else { return .refused(.unparsable) }
        guard acceptsDevelopmentTokens else { return needsKeys ? nil : .refused(.unparsable) }
        if token == "owner" { return .accepted(Identity(credential: .admin)) }
        if SignedToken.hasForm(token) {
            do throws(Refusal) {
                let token = try SignedToken(token)
                if token.algorithm == .none { return .accepted(try unsigned(token)) }
            } catch {
                return .refused(error)
            }
        }
        return needsKeys ? nil : .refused(.unparsable)
    }

    private func unsigned(_ token: SignedToken) throws(Refusal) -> Identity {
        guard token.signature.isEmpty else { throw .badSignature }
        return try ClaimChecks(now: 0, skew: 0, revokedBefore: [:]).identity(fromUnsigned: token.claims)
    }

    /// Finds out whose a token is. May wait for an issuer, ten seconds and a little at most.
    /// - Parameters:
    ///   - now: Wall time, seconds since 1970.
    ///   - address: Who shows it, to count failures; nil is not counted.
    package func verify(_ token: Text, at now: Int64, from address: Text? = nil) async -> Verdict {
        if let verdict = verifyAtOnce(token) { return verdict }
        let isCounted = address.map { failures.mayFail($0, now: monotonic()) } ?? true
        await reloadIfChanged()
        do throws(Refusal) {
            let identity = try await identity(token, at: now, isTrusted: isCounted)
            if isCounted, let address { failures.forgive(address, now: monotonic()) }
            return .accepted(identity)
        } catch {
            // What comes from an address that has shown too many, and is not by a key of ours, was not looked
            // into.
            guard isCounted else { return .refused(error.isBeforeSignature ? .tooManyFailures : error) }
            // Who comes late has done nothing wrong, and nobody can help an issuer that is down.
            if let address, error == .expired || error == .keysUnavailable {
                failures.forgive(address, now: monotonic())
            }
            return .refused(error)
        }
    }

    /// - Parameter isTrusted: false asks no issuer for a key that is not here.
    private func identity(_ token: Text, at now: Int64, isTrusted: Bool) async throws(Refusal) -> Identity {
        let (configuration, local) = state.withLock { ($0.configuration, $0.local) }
        guard SignedToken.hasForm(token) else {
            guard configuration.allowsSecretAsAdmin,
                let secret = local.secrets.first(where: { $0.isShown(as: token) })
            else { throw .unparsable }
            var identity = Identity(credential: .admin, keyID: secret.key.id)
            identity.keyFingerprint = secret.key.fingerprint
            return identity
        }
        let checks = ClaimChecks(
            now: now, skew: configuration.clockSkew, revokedBefore: local.revokedBefore)
        let token = try SignedToken(token)
        switch token.algorithm {
        case .none: throw .unsupportedHeader
        case .HS256:
            let key = try KeySet(keys: local.secrets.map(\.key)).signer(of: token)
            var identity = try checks.identity(fromOwn: token.claims, keyID: key.id)
            identity.keyFingerprint = key.fingerprint
            return identity
        case .RS256, .RS384, .RS512, .ES256, .EdDSA:
            return try await identity(token, local, checks, isTrusted: isTrusted)
        }
    }

    /// Asks each whose name the token bears, in the order of the configuration. Of several refusals the last
    /// one is told, but that somebody's time is over is always told.
    private func identity(
        _ token: SignedToken, _ local: LocalKeys, _ checks: ClaimChecks, isTrusted: Bool
    ) async throws(Refusal) -> Identity {
        guard let name = token.claims.text("iss") else { throw .wrongIssuer }
        var refusal = Refusal.wrongIssuer
        for file in local.files where file.issuer.name == name {
            do throws(Refusal) {
                return try Self.identity(token, of: file.issuer, file.keys, checks, isOurs: true)
            } catch {
                if refusal != .expired { refusal = error }
            }
        }
        for source in remote where source.issuer.name == name {
            do throws(Refusal) {
                // Nothing is asked of the issuer for what it cannot have signed.
                if source.issuer.isFirebase {
                    guard token.algorithm == .RS256, token.keyID != nil else { throw .unsupportedHeader }
                }
                let keys = try await source.keys(for: isTrusted ? token.keyID : nil)
                return try Self.identity(token, of: source.issuer, keys, checks, isOurs: false)
            } catch {
                if refusal != .expired { refusal = error }
            }
        }
        throw refusal
    }

    private static func identity(
        _ token: SignedToken, of issuer: Issuer, _ keys: KeySet, _ checks: ClaimChecks, isOurs: Bool
    ) throws(Refusal) -> Identity {
        let key = try keys.signer(of: token)
        var identity = try checks.identity(from: token.claims, of: issuer, keyID: key.id)
        if isOurs { identity.keyFingerprint = key.fingerprint }
        return identity
    }
}

/// Why nobody could be verified with a configuration: every problem of it.
package struct UnusableIdentity: Error, Sendable, CustomStringConvertible {
    package var problems: [String]
    package var description: String { problems.joined(separator: "\n") }
}

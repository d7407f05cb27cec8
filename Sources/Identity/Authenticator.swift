import PandoBytes
import PandoRules
import Synchronization

/// Verifies tokens. Any thread.
///
/// The token's `alg` only selects a family of keys. Of that family only configured keys are tried, and each
/// only for the algorithms that it was configured for (auth §5).
///
///     no dots        `owner` with --dev; a configured secret, where that is allowed
///     alg none       only with --dev
///     HS256          configured secrets: legacy tokens and JWTs
///     RS…, ES, EdDSA key files, then issuers, found by `iss`
package final class Authenticator: Sendable {
    /// Receives a message for the operator. It contains nothing of a token.
    package typealias Report = @Sendable (String) -> Void

    private struct State {
        var configuration: IdentityConfiguration
        var local: LocalKeys
        var stamp: [String]
        /// What was wrong when the files were read last. While this is not empty they are read again at each
        /// check: what made a file unreadable (a permission, a missing descriptor) need not change its stamp.
        var problems: [String] = []
        var lookedAt: Duration
        var revocations: RevocationState
        var onRevocationChange: (@Sendable (RevocationState) -> Void)?
    }

    private let state: Mutex<State>
    private let remote: [IssuerKeys]
    private let failures: FailureLimit
    private let report: Report
    private let monotonic: @Sendable () -> Duration
    /// Whether tokens of `--dev` are accepted: see ``verifyAtOnce(_:)``.
    private let acceptsDevelopmentTokens: Bool
    private let needsKeys: Bool
    private let tokenByteLimit: Int

    /// The shortest time between two checks of the files. The server checks every few seconds; so does a
    /// verification.
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
                revocations: local.revocations))
        remote = configuration.issuers.map { IssuerKeys($0, fetch: fetch, now: monotonic, report: report) }
        failures = FailureLimit(perMinute: configuration.failuresPerMinute)
        acceptsDevelopmentTokens = configuration.acceptsDevelopmentTokens
        tokenByteLimit = configuration.tokenByteLimit
        needsKeys = !configuration.secrets.isEmpty || !configuration.keyFiles.isEmpty || !remote.isEmpty
        self.monotonic = monotonic
        self.report = report
    }

    /// The problems of the files and variables that a configuration names.
    package static func fileProblems(of configuration: IdentityConfiguration) async -> [String] {
        var problems: [String] = []
        _ = await LocalKeys(configuration, &problems)
        return problems
    }

    // MARK: Keys

    /// Fetches the keys of all issuers, so that the first sign-in does not wait for them.
    package func prefetch() async {
        await withTaskGroup { group in
            for issuer in remote { group.addTask { _ = try? await issuer.keys(for: nil) } }
        }
    }

    /// Waits for the fetches in progress.
    func waitForFetches() async {
        for issuer in remote { await issuer.fetchInProgress?.value }
    }

    /// The current keys and revocations, against which earlier sign-ins are checked.
    package var revocations: RevocationState { state.withLock { $0.revocations } }

    /// Sets the function that is called after each change of keys or revocations. The caller then has to
    /// check all sessions and all cached identities against them. The calls come in the order of the changes,
    /// on any thread.
    package func onRevocationChange(_ body: @escaping @Sendable (RevocationState) -> Void) {
        state.withLock { $0.onRevocationChange = body }
    }

    /// Reads secrets, key files and revocations again. If there is any problem, it is reported, and all of
    /// them stay as they were.
    package func reload() async { await reload(reportsKnownProblems: true) }

    private func reload(reportsKnownProblems: Bool) async {
        let configuration = state.withLock { $0.configuration }
        let stamp = await LocalKeys.stamp(configuration)
        var problems: [String] = []
        let local = await LocalKeys(configuration, &problems)
        let areKnown = state.withLock { state in
            state.stamp = stamp
            let areKnown = problems == state.problems
            state.problems = problems
            guard problems.isEmpty else { return areKnown }
            state.local = local
            let revocations = local.revocations
            guard revocations != state.revocations else { return areKnown }
            state.revocations = revocations
            // With the lock held, so that the calls come in the order of the changes.
            state.onRevocationChange?(revocations)
            return areKnown
        }
        guard reportsKnownProblems || !areKnown else { return }
        for problem in problems { report("\(problem); the earlier keys stay in use") }
    }

    /// Reads files again that have changed, or that had a problem when they were read last; a problem is
    /// reported once. It checks them at most every two seconds, however often it is called.
    package func reloadIfChanged() async {
        let now = monotonic()
        let last: (configuration: IdentityConfiguration, stamp: [String], hadProblems: Bool)? =
            state.withLock { state in
                guard now - state.lookedAt >= Self.fileInterval else { return nil }
                state.lookedAt = now
                return (state.configuration, state.stamp, !state.problems.isEmpty)
            }
        guard let last else { return }
        if !last.hadProblems, last.stamp == (await LocalKeys.stamp(last.configuration)) { return }
        await reload(reportsKnownProblems: false)
    }

    // MARK: Verifying

    /// Verifies what needs no key and no wait: tokens of `--dev`, and text that is no token. Nil when
    /// ``verify(_:at:from:)`` has to be called. O(bytes).
    package func verifyAtOnce(_ token: Text) -> VerificationResult? {
        guard token.utf8Count <= tokenByteLimit else { return .refused(.unparsable) }
        guard acceptsDevelopmentTokens else { return needsKeys ? nil : .refused(.unparsable) }
        if token == "owner" { return .accepted(Identity(credential: .admin)) }
        if SignedToken.hasForm(token) {
            do throws(TokenError) {
                let token = try SignedToken(token, isDevelopment: true)
                if token.algorithm == .none { return .accepted(try unsigned(token)) }
            } catch {
                return .refused(error)
            }
        }
        return needsKeys ? nil : .refused(.unparsable)
    }

    private func unsigned(_ token: SignedToken) throws(TokenError) -> Identity {
        guard token.signature.isEmpty else { throw .badSignature }
        return try ClaimChecks(now: 0, skew: 0, revokedBefore: [:]).identity(fromUnsigned: token.claims)
    }

    /// Verifies a token. May wait for an issuer: ten seconds and a little at most.
    /// - Parameters:
    ///   - now: Wall time, seconds since 1970.
    ///   - address: The client, whose failures are counted; nil for none.
    package func verify(_ token: Text, at now: Int64, from address: Text? = nil) async -> VerificationResult {
        if let result = verifyAtOnce(token) { return result }
        let isCounted = address.map { failures.countFailure(of: $0, now: monotonic()) } ?? true
        await reloadIfChanged()
        do throws(TokenError) {
            let identity = try await identity(token, at: now, isTrusted: isCounted)
            if isCounted, let address { failures.removeFailure(of: address, now: monotonic()) }
            return .accepted(identity)
        } catch {
            // The address has shown too many bad tokens, and this one names no key that is here. It was not
            // examined further.
            guard isCounted else { return .refused(error.precedesSignatureCheck ? .tooManyFailures : error) }
            // An expired token or an unreachable issuer is no failure of the client.
            if let address, error == .expired || error == .keysUnavailable {
                failures.removeFailure(of: address, now: monotonic())
            }
            return .refused(error)
        }
    }

    /// - Parameter isTrusted: Whether an issuer may be asked for an unknown key.
    private func identity(_ token: Text, at now: Int64, isTrusted: Bool) async throws(TokenError) -> Identity
    {
        let (configuration, local) = state.withLock { ($0.configuration, $0.local) }
        guard SignedToken.hasForm(token) else {
            guard configuration.allowsSecretAsAdmin,
                let secret = local.secrets.first(where: { $0.isEqual(to: token) })
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

    /// Tries every key file and issuer that has the name in `iss`, in the order of the configuration. Of
    /// several errors the last one is thrown, but ``TokenError/expired`` has precedence.
    private func identity(
        _ token: SignedToken, _ local: LocalKeys, _ checks: ClaimChecks, isTrusted: Bool
    ) async throws(TokenError) -> Identity {
        guard let name = token.claims.text("iss") else { throw .wrongIssuer }
        var tokenError = TokenError.wrongIssuer
        for file in local.files where file.issuer.name == name {
            do throws(TokenError) {
                return try Self.identity(token, of: file.issuer, file.keys, checks, isLocal: true)
            } catch {
                if tokenError != .expired { tokenError = error }
            }
        }
        for source in remote where source.issuer.name == name {
            do throws(TokenError) {
                // Nothing is fetched for a token that this issuer cannot have signed.
                if source.issuer.isFirebase {
                    guard token.algorithm == .RS256, token.keyID != nil else { throw .unsupportedHeader }
                }
                let keys = try await source.keys(for: isTrusted ? token.keyID : nil)
                return try Self.identity(token, of: source.issuer, keys, checks, isLocal: false)
            } catch {
                if tokenError != .expired { tokenError = error }
            }
        }
        throw tokenError
    }

    private static func identity(
        _ token: SignedToken, of issuer: Issuer, _ keys: KeySet, _ checks: ClaimChecks, isLocal: Bool
    ) throws(TokenError) -> Identity {
        let key = try keys.signer(of: token)
        var identity = try checks.identity(from: token.claims, of: issuer, keyID: key.id)
        if isLocal { identity.keyFingerprint = key.fingerprint }
        return identity
    }
}

/// A configuration with which no token can be verified, and all its problems.
package struct UnusableIdentity: Error, Sendable, CustomStringConvertible {
    package var problems: [String]
    package var description: String { problems.joined(separator: "\n") }
}

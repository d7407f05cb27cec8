import PandoBytes
import PandoTree

/// The keys that one issuer publishes, fetched when they are needed and kept as long as they may be.
///
///     none ──fetch──▶ fresh ──max-age──▶ stale ──fetch──▶ fresh …
///                                          └─24 h without an answer──▶ none
///
/// - A stale set is used at once, and fetched again meanwhile: nobody waits for an issuer whose keys are
///   here.
/// - A `kid` that a fresh set does not have means that keys were changed: one fetch, at most once a minute,
///   or whoever makes up key ids would have us ask the issuer for each.
/// - Whoever needs a key that is not here waits for the fetch under way, if there is one.
/// - After a fetch that failed the next one waits, twice as long each time.
actor IssuerKeys {
    typealias Fetch = @Sendable (FetchURL) async throws(FetchError) -> FetchedDocument

    static let shortestLife: Duration = .seconds(5 * 60)
    /// An hour before ``longestLife``: in it the next set is fetched while this one is still used.
    static let longestFreshness: Duration = .seconds(23 * 3600)
    /// For which a set is used at all.
    static let longestLife: Duration = .seconds(24 * 3600)
    /// Where the issuer does not say.
    static let defaultLife: Duration = .seconds(3600)
    static let unknownKeyInterval: Duration = .seconds(60)
    /// After the first fetch that failed; each further one doubles it, up to ``longestRetryInterval``.
    static let retryInterval: Duration = .seconds(10)
    static let longestRetryInterval: Duration = .seconds(80)

    nonisolated let issuer: Issuer
    private let source: IdentityConfiguration.RemoteIssuer.Keys
    private let fetch: Fetch
    /// Monotonic.
    private let now: @Sendable () -> Duration
    /// Told once for each time that it begins to fail.
    private let report: @Sendable (String) -> Void

    private var keys: KeySet?
    private var fetchedAt: Duration?
    private var freshUntil: Duration = .zero
    private var failureCount = 0
    private var retryAt: Duration = .zero
    private var askedForUnknownAt: Duration?
    private(set) var underWay: Task<Void, Never>?
    private var jwksAddress: FetchURL?

    init(
        _ remote: IdentityConfiguration.RemoteIssuer, fetch: @escaping Fetch,
        now: @escaping @Sendable () -> Duration,
        report: @escaping @Sendable (String) -> Void
    ) {
        issuer = remote.issuer
        source = remote.keys
        self.fetch = fetch
        self.now = now
        self.report = report
    }

    /// The set in which to look for a key. Waits for the issuer only where there is no set, or none with that
    /// key.
    /// - Throws: ``Refusal/keysUnavailable``.
    func keys(for id: Text?) async throws(Refusal) -> KeySet {
        if let keys = keysAtOnce() {
            guard let id, !keys.mayHold(id), mayAskForUnknown() else { return keys }
            await refresh().value
        } else if let task = refreshUnlessFailing() {
            await task.value
        }
        guard let keys = keysAtOnce() else { throw .keysUnavailable }
        return keys
    }

    /// The set that is here; a stale one is fetched again meanwhile. Nil when there is none that may be used.
    func keysAtOnce() -> KeySet? {
        guard let keys, let fetchedAt, now() - fetchedAt <= Self.longestLife else { return nil }
        if now() >= freshUntil { _ = refreshUnlessFailing() }
        return keys
    }

    private func mayAskForUnknown() -> Bool {
        if underWay != nil { return true }
        if let askedForUnknownAt, now() - askedForUnknownAt < Self.unknownKeyInterval { return false }
        askedForUnknownAt = now()
        return true
    }

    private func refreshUnlessFailing() -> Task<Void, Never>? {
        if underWay == nil, failureCount > 0, now() < retryAt { return nil }
        return refresh()
    }

    /// The fetch under way; a new one where there is none.
    private func refresh() -> Task<Void, Never> {
        if let underWay { return underWay }
        let task = Task { await fetchKeys() }
        underWay = task
        return task
    }

    private func fetchKeys() async {
        defer { underWay = nil }
        do {
            let (keys, maxAge) = try await fetchSet()
            self.keys = keys
            fetchedAt = now()
            failureCount = 0
            freshUntil =
                now() + min(max(maxAge ?? Self.defaultLife, Self.shortestLife), Self.longestFreshness)
        } catch {
            if failureCount == 0 { report("keys of \(issuer.name): \(error)") }
            // Three doublings make the longest interval.
            retryAt = now() + min(Self.retryInterval * (1 << min(failureCount, 3)), Self.longestRetryInterval)
            failureCount += 1
            jwksAddress = nil
        }
    }

    private func fetchSet() async throws -> (KeySet, Duration?) {
        switch source {
        case .certificates(let url):
            let document = try await fetch(try address(url))
            return (try await KeySet(certificates: document.body), document.maxAge)
        case .jwks(let url):
            let document = try await fetch(try address(url))
            return (try await KeySet(jwks: document.body), document.maxAge)
        case .discovery:
            let address = if let jwksAddress { jwksAddress } else { try await discover() }
            let document = try await fetch(address)
            let keys = try await KeySet(jwks: document.body)
            jwksAddress = address
            return (keys, document.maxAge)
        }
    }

    private func address(_ url: String) throws(FetchError) -> FetchURL {
        guard let address = FetchURL(url) else {
            throw FetchError(description: "\(url) is no address to fetch keys from")
        }
        return address
    }

    /// Where the issuer publishes its keys (OpenID Connect Discovery §4.3: its name must be the one we know).
    private func discover() async throws(FetchError) -> FetchURL {
        guard let address = FetchURL(discoveryOf: issuer.name.string) else {
            throw FetchError(description: "its name is no address to fetch keys from")
        }
        let document = try await fetch(address)
        guard let object = JSONObject(document.body) else {
            throw FetchError(description: "the discovery document is not a JSON object")
        }
        guard object.text("issuer") == issuer.name else {
            throw FetchError(description: "the discovery document names another issuer")
        }
        guard let keys = object.text("jwks_uri").flatMap({ FetchURL($0.string) }),
            keys.isSecure || !address.isSecure
        else {
            throw FetchError(
                description: "the discovery document has no jwks_uri that keys may be fetched from")
        }
        return keys
    }
}

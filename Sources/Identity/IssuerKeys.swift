import PandoBytes
import PandoTree

/// The keys that one issuer publishes: fetched when they are needed, and cached.
///
///     none ──fetch──▶ fresh ──max-age──▶ stale ──fetch──▶ fresh …
///                                          └─24 h without a response──▶ none
///
/// - A stale set is used at once, and fetched again meanwhile. So no verification waits for a known key.
/// - A `kid` that a fresh set does not have means that the issuer has new keys: the set is fetched again, but
///   at most once a minute. Otherwise invented key ids would cause a fetch each.
/// - Only one fetch is in progress at a time. A verification that needs an unknown key waits for it; where
///   many wait, further ones are refused at once, and may be repeated.
/// - After a failed fetch the next one is delayed, twice as long each time.
actor IssuerKeys {
    typealias Fetch = @Sendable (FetchURL) async throws(FetchError) -> FetchedDocument

    /// A set is fresh for at least this long.
    static let shortestFreshness: Duration = .seconds(5 * 60)
    /// A set is fresh for at most this long: an hour less than ``longestLife``, in which the next one is
    /// fetched.
    static let longestFreshness: Duration = .seconds(23 * 3600)
    /// A set is used for at most this long.
    static let longestLife: Duration = .seconds(24 * 3600)
    /// Without a `max-age` of the issuer.
    static let defaultFreshness: Duration = .seconds(3600)
    static let unknownKeyInterval: Duration = .seconds(60)
    /// The delay after the first failed fetch. Each further one doubles it, up to ``longestRetryInterval``.
    static let retryInterval: Duration = .seconds(10)
    static let longestRetryInterval: Duration = .seconds(80)
    /// Verifications that wait for a fetch while there is no set. Each takes a place of those that a loop has
    /// under way, which other issuers and secrets need, too: half of them.
    static let waitingLimit = 512
    /// The same for a key that the set does not have, whose id may be invented.
    static let unknownKeyWaitingLimit = 256

    nonisolated let issuer: Issuer
    private let source: IdentityConfiguration.RemoteIssuer.Keys
    private let fetch: Fetch
    /// Monotonic.
    private let now: @Sendable () -> Duration
    /// Called when a fetch fails and the one before did not.
    private let report: @Sendable (String) -> Void

    private var keys: KeySet?
    private var fetchedAt: Duration?
    private var freshUntil: Duration = .zero
    private var failureCount = 0
    private var retryAt: Duration = .zero
    private var fetchedForUnknownAt: Duration?
    private(set) var fetchInProgress: Task<Void, Never>?
    /// Verifications that wait for ``fetchInProgress``.
    private(set) var waitingCount = 0
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

    /// The keys among which to search. Waits for the issuer only where there is no set, or none with that
    /// key.
    /// - Throws: ``TokenError/keysUnavailable``; also where too many wait already.
    func keys(for id: Text?) async throws(TokenError) -> KeySet {
        if let keys = cachedKeys() {
            guard let id, !keys.mayHold(id), mayFetchForUnknownKey() else { return keys }
            try await wait(for: refresh(), amongAtMost: Self.unknownKeyWaitingLimit)
        } else if let task = refreshUnlessFailing() {
            try await wait(for: task, amongAtMost: Self.waitingLimit)
        }
        guard let keys = cachedKeys() else { throw .keysUnavailable }
        return keys
    }

    private func wait(for fetch: Task<Void, Never>, amongAtMost limit: Int) async throws(TokenError) {
        guard waitingCount < limit else { throw .keysUnavailable }
        waitingCount += 1
        await fetch.value
        waitingCount -= 1
    }

    /// The cached set. A stale one is fetched again meanwhile. Nil when there is none that may be used.
    func cachedKeys() -> KeySet? {
        guard let keys, let fetchedAt, now() - fetchedAt <= Self.longestLife else { return nil }
        if now() >= freshUntil { _ = refreshUnlessFailing() }
        return keys
    }

    private func mayFetchForUnknownKey() -> Bool {
        if fetchInProgress != nil { return true }
        if let fetchedForUnknownAt, now() - fetchedForUnknownAt < Self.unknownKeyInterval { return false }
        fetchedForUnknownAt = now()
        return true
    }

    private func refreshUnlessFailing() -> Task<Void, Never>? {
        if fetchInProgress == nil, failureCount > 0, now() < retryAt { return nil }
        return refresh()
    }

    /// The fetch in progress; a new one where there is none.
    private func refresh() -> Task<Void, Never> {
        if let fetchInProgress { return fetchInProgress }
        let task = Task { await fetchKeys() }
        fetchInProgress = task
        return task
    }

    private func fetchKeys() async {
        defer { fetchInProgress = nil }
        do {
            let (keys, maxAge) = try await fetchSet()
            self.keys = keys
            fetchedAt = now()
            failureCount = 0
            freshUntil =
                now()
                + min(max(maxAge ?? Self.defaultFreshness, Self.shortestFreshness), Self.longestFreshness)
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
            throw FetchError(description: "\(url) is not an https URL, so no keys can be fetched from it")
        }
        return address
    }

    /// The URL of the issuer's keys (OpenID Connect Discovery §4.3: the document must have the configured
    /// name).
    private func discover() async throws(FetchError) -> FetchURL {
        guard let address = FetchURL(discoveryOf: issuer.name.string) else {
            throw FetchError(description: "its name is not an https URL, so no keys can be fetched from it")
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

import PandoBytes

/// Identities by token, so that a token that comes with every request is verified once a minute.
///
/// It holds accepted tokens only, and their digests instead of the tokens. Confined to one thread. The owner
/// must empty it when ``RevocationState`` changes.
package struct VerificationCache {
    /// Tokens in the cache; with their `auth` variables about a MiB.
    static let tokenLimit = 1024
    /// How long a token stays at most: an issuer may have revoked it meanwhile.
    static let lifetime: Duration = .seconds(60)

    private struct Entry {
        var identity: Identity
        var began: Duration
    }

    private var entries = RecentTable<SHA256Digest, Entry>(limit: tokenLimit)

    package init() {}

    var count: Int { entries.count }

    /// The identity of a token; nil when it is not in the cache or no longer valid.
    /// - Parameters:
    ///   - wallTime: Seconds since 1970.
    ///   - now: Monotonic.
    /// - Complexity: O(1).
    package mutating func identity(of token: SHA256Digest, at wallTime: Int64, now: Duration) -> Identity? {
        guard let entry = entries[token], now - entry.began < Self.lifetime,
            Self.isValid(entry.identity, wallTime)
        else { return nil }
        return entry.identity
    }

    /// Stores the identity of a token, unless it has expired. O(1).
    package mutating func store(
        _ identity: Identity, of token: SHA256Digest, at wallTime: Int64, now: Duration
    ) {
        guard Self.isValid(identity, wallTime) else { return }
        entries.set(Entry(identity: identity, began: now), for: token)
    }

    /// O(entries).
    package mutating func removeAll() {
        entries.removeAll()
    }

    /// Within the skew after `exp` a token is verified each time.
    private static func isValid(_ identity: Identity, _ wallTime: Int64) -> Bool {
        identity.expires.map { wallTime < $0 } ?? true
    }
}

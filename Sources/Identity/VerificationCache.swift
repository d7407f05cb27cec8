import PandoBytes

/// Remembers whose tokens are, so that a client that shows one with every request has it verified once a
/// minute.
///
/// Only those that were accepted. Tokens themselves are not kept, but their digests. Confined to one thread;
/// whoever keeps it empties it when ``RevocationState`` changes.
package struct VerificationCache {
    /// Tokens that are remembered at once; with their `auth` variables about a MiB.
    static let tokenLimit = 1024
    /// For how long, at most: what an issuer takes back counts no longer than that.
    static let lifetime: Duration = .seconds(60)

    private struct Entry {
        var identity: Identity
        var began: Duration
    }

    private var entries = RecentTable<SHA256Digest, Entry>(limit: tokenLimit)

    package init() {}

    var count: Int { entries.count }

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

    package mutating func keep(
        _ identity: Identity, of token: SHA256Digest, at wallTime: Int64, now: Duration
    ) {
        guard Self.isValid(identity, wallTime) else { return }
        entries.set(Entry(identity: identity, began: now), for: token)
    }

    package mutating func removeAll() {
        entries.removeAll()
    }

    /// Within the skew behind `exp` a token is verified each time.
    private static func isValid(_ identity: Identity, _ wallTime: Int64) -> Bool {
        identity.expires.map { wallTime < $0 } ?? true
    }
}

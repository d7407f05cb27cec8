import PandoBytes

/// What of the configuration decides whether somebody who was let in may stay: it changes while the server runs.
package struct Standing: Sendable, Equatable {
    /// Of the secrets and key files that are loaded.
    var fingerprints: Set<SHA256Digest> = []
    /// As ``IdentityConfiguration/revokedBefore``.
    var revokedBefore: [Text: Int64] = [:]

    /// Whether the key that vouched for somebody is still there, and the sign-in not revoked since (auth.md §5.3).
    /// - Complexity: O(1).
    package func holds(_ identity: Identity) -> Bool {
        if let fingerprint = identity.keyFingerprint, !fingerprints.contains(fingerprint) { return false }
        guard let subject = identity.subject, let since = revokedBefore[subject] else { return true }
        guard let signedIn = identity.signedInAt else { return false }
        return signedIn >= Double(since)
    }
}

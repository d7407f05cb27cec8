import PandoBytes

/// The part of an identity that ``RevocationState`` decides about. Queued onDisconnect writes keep it after
/// the token has expired.
package struct SignIn: Equatable, Sendable {
    /// As ``Identity/keyFingerprint``.
    var keyFingerprint: SHA256Digest?
    var subject: Text?
    /// As ``Identity/signedInAt``.
    var time: Double?
}

extension Identity {
    /// Equal for all tokens of one sign-in that are signed with one key, also for refreshed ones.
    package var signIn: SignIn { SignIn(keyFingerprint: keyFingerprint, subject: subject, time: signedInAt) }
}

/// Which earlier sign-ins are still valid. It changes while the server runs.
package struct RevocationState: Sendable, Equatable {
    /// Fingerprints of the secrets and key files that are loaded.
    var fingerprints: Set<SHA256Digest> = []
    /// As ``IdentityConfiguration/revokedBefore``.
    var revokedBefore: [Text: Int64] = [:]

    /// Whether the key of the identity is still loaded, and its sign-in is not revoked (auth §5.3).
    /// - Complexity: O(1).
    package func allows(_ identity: Identity) -> Bool { allows(identity.signIn) }

    /// The same for a sign-in whose token may have expired. O(1).
    package func allows(_ signIn: SignIn) -> Bool {
        if let fingerprint = signIn.keyFingerprint, !fingerprints.contains(fingerprint) { return false }
        guard let subject = signIn.subject, let since = revokedBefore[subject] else { return true }
        guard let time = signIn.time else { return false }
        return time >= Double(since)
    }
}

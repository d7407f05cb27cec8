import PandoBytes

/// What of an identity a ``RevocationState`` decides about: it outlives the token, in what somebody has left to be
/// done.
package struct SignIn: Equatable, Sendable {
    /// As ``Identity/keyFingerprint``.
    var keyFingerprint: SHA256Digest?
    var subject: Text?
    /// As ``Identity/signedInAt``.
    var time: Double?
}

extension Identity {
    /// Equal for the tokens of one sign-in that one key vouches for, however often they are made anew.
    package var signIn: SignIn { SignIn(keyFingerprint: keyFingerprint, subject: subject, time: signedInAt) }
}

/// What of the configuration decides whether somebody who was let in may stay: it changes while the server
/// runs.
package struct RevocationState: Sendable, Equatable {
    /// Of the secrets and key files that are loaded.
    var fingerprints: Set<SHA256Digest> = []
    /// As ``IdentityConfiguration/revokedBefore``.
    var revokedBefore: [Text: Int64] = [:]

    /// Whether the key that vouched for somebody is still there, and the sign-in not revoked since (auth
    /// §5.3).
    /// - Complexity: O(1).
    package func holds(_ identity: Identity) -> Bool { holds(identity.signIn) }

    /// The same, of a sign-in that may be over.
    package func holds(_ signIn: SignIn) -> Bool {
        if let fingerprint = signIn.keyFingerprint, !fingerprints.contains(fingerprint) { return false }
        guard let subject = signIn.subject, let since = revokedBefore[subject] else { return true }
        guard let time = signIn.time else { return false }
        return time >= Double(since)
    }
}

import PandoBytes
import PandoRules

/// What came of a token.
package enum Verdict: Sendable, Equatable {
    case accepted(Identity)
    case refused(Refusal)
}

/// Somebody whose token is good.
package struct Identity: Sendable, Equatable {
    package var credential: PandoRules.Credential
    /// `exp`, seconds since 1970; nil for what does not expire: secrets, and tokens of `--dev`.
    package var expires: Int64?
    /// When a live connection must stop acting as this: `expires`, or later where the token came within the
    /// skew. Seconds.
    package var validUntil: Int64?
    /// For logs; none of them is secret.
    package var subject: Text?
    package var issuer: Text?
    package var keyID: Text?
    /// `auth_time`, or else `iat`: what a revocation is held against. Seconds.
    package var signedInAt: Double?
    /// Of the key or secret of ours that vouches for this; nil for an issuer's, whose keys come and go (their
    /// tokens do not), and for tokens of `--dev`.
    package var keyFingerprint: SHA256Digest?

    package init(
        credential: PandoRules.Credential, expires: Int64? = nil, validUntil: Int64? = nil,
        subject: Text? = nil,
        issuer: Text? = nil, keyID: Text? = nil, signedInAt: Double? = nil
    ) {
        self.credential = credential
        self.expires = expires
        self.validUntil = validUntil
        self.subject = subject
        self.issuer = issuer
        self.keyID = keyID
        self.signedInAt = signedInAt
    }
}

/// Why a token is no good. Clients hear only of ``expired``: what else was wrong is for the operator (auth
/// §5.3).
package enum Refusal: String, Error, Sendable, Equatable, CaseIterable {
    /// No token at all, too long, or of a form that nothing here reads.
    case unparsable = "not a token"
    /// `crit`, or an `alg` that no key here has.
    case unsupportedHeader = "unsupported header"
    /// No key of that id and family.
    case unknownKey = "unknown key"
    /// The issuer has not answered for a day, or never.
    case keysUnavailable = "the issuer's keys cannot be fetched"
    case badSignature = "bad signature"
    case wrongIssuer = "wrong issuer"
    case wrongAudience = "wrong audience"
    case expired = "expired"
    /// `nbf`, `iat` or `auth_time` is in the future.
    case notYetValid = "not valid yet"
    /// A time that is missing, no number, negative, or ten years ahead.
    case badTime = "bad time"
    /// No subject, or one that is too long.
    case badSubject = "bad subject"
    /// A token that is none of the database's: a custom token, or `simulate`.
    case notForDatabase = "not a token for a database"
    /// Signed in before the time from which the subject's tokens count.
    case revoked = "revoked"
    /// The address has shown too many bad tokens lately, and no key of ours was named by this one.
    case tooManyFailures = "too many failures"

    /// Found before any signature was checked.
    var isBeforeSignature: Bool {
        switch self {
        case .unparsable, .unsupportedHeader, .unknownKey, .wrongIssuer, .keysUnavailable, .tooManyFailures:
            true
        case .badSignature, .wrongAudience, .expired, .notYetValid, .badTime, .badSubject, .notForDatabase,
            .revoked:
            false
        }
    }
}

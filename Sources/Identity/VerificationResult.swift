import PandoBytes
import PandoRules

/// The result of verifying a token.
package enum VerificationResult: Sendable, Equatable {
    case accepted(Identity)
    case refused(TokenError)
}

/// The identity that a valid token proves.
package struct Identity: Sendable, Equatable {
    package var credential: Credential
    /// `exp`, seconds since 1970; nil for what does not expire: secrets, and tokens of `--dev`.
    package var expires: Int64?
    /// When a connection must stop acting as this identity: `expires`, or later where the token came within
    /// the clock skew. Seconds since 1970.
    package var validUntil: Int64?
    /// The subject, for logs. Not secret, as are issuer and key id.
    package var subject: Text?
    package var issuer: Text?
    package var keyID: Text?
    /// `auth_time`, or else `iat`: the time that a revocation is compared with. Seconds since 1970.
    package var signedInAt: Double?
    /// The fingerprint of the local key or secret that signed the token. Nil for the keys of an issuer, which
    /// change while its tokens stay valid, and for tokens of `--dev`.
    package var keyFingerprint: SHA256Digest?

    package init(
        credential: Credential, expires: Int64? = nil, validUntil: Int64? = nil,
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

/// Why a token is refused. Clients only learn of ``expired``; the other reasons are for the log (auth §5.3).
package enum TokenError: String, Error, Sendable, Equatable, CaseIterable {
    /// Not a token, too long, or of an unknown form.
    case unparsable = "not a token"
    /// `crit`, or an `alg` that no key has.
    case unsupportedHeader = "unsupported header"
    /// No key of that id and family.
    case unknownKey = "unknown key"
    /// The issuer has not responded for a day, or never.
    case keysUnavailable = "the issuer's keys cannot be fetched"
    case badSignature = "bad signature"
    case wrongIssuer = "wrong issuer"
    case wrongAudience = "wrong audience"
    case expired = "expired"
    /// `nbf`, `iat` or `auth_time` is in the future.
    case notYetValid = "not valid yet"
    /// A time that is missing, no number, negative, or more than ten years in the future.
    case badTime = "bad time"
    /// No subject, or one that is too long.
    case badSubject = "bad subject"
    /// A token that is not meant for a database: a custom token, or one with `simulate`.
    case notForDatabase = "not a token for a database"
    /// Signed in before the time from which the subject's tokens count.
    case revoked = "revoked"
    /// The address has shown too many bad tokens, and this one names no known key.
    case tooManyFailures = "too many failures"

    /// Whether the error is found before a signature is checked.
    var precedesSignatureCheck: Bool {
        switch self {
        case .unparsable, .unsupportedHeader, .unknownKey, .wrongIssuer, .keysUnavailable, .tooManyFailures:
            true
        case .badSignature, .wrongAudience, .expired, .notYetValid, .badTime, .badSubject, .notForDatabase,
            .revoked:
            false
        }
    }
}

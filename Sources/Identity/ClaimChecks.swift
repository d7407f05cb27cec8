import PandoBytes
import PandoRules
import PandoTree

/// The checks of claims that every token has to pass, with any kind of signature.
struct ClaimChecks: Sendable {
    /// Wall time, seconds since 1970.
    var now: Int64
    /// Seconds by which a clock may be wrong.
    var skew: Int64
    /// By subject: the time before which sign-ins are revoked. Seconds since 1970.
    var revokedBefore: [Text: Int64]

    /// Times further in the future are errors.
    private static let horizon = Double(10 * 366 * 86_400)
    /// The lifetime of a token signed with a secret that has no `exp`, in seconds (auth §2.3).
    private static let defaultLifetime: Double = 86_400
    /// Longest subject of an issuer: that of OpenID Connect Core §2, and that of Firebase (auth §2.1).
    private static let subjectLimit = 255
    private static let firebaseSubjectLimit = 128
    /// Longest `uid` of a legacy token (auth §2.3).
    private static let legacySubjectLimit = 256
    /// The audience of custom tokens, which are exchanged for ID tokens and are not for databases
    /// (auth §2.2).
    private static let customTokenAudience: Text =
        "https://identitytoolkit.googleapis.com/google.identity.identitytoolkit.v1.IdentityToolkit"

    // MARK: Issuers

    /// Checks claims whose signature is good, in the order of auth §5.2.
    func identity(from claims: JSONObject, of issuer: Issuer, keyID: Text?) throws(TokenError) -> Identity {
        guard claims.text("iss") == issuer.name else { throw .wrongIssuer }
        guard claims.names("aud", issuer.audience) else { throw .wrongAudience }
        let expires = try time("exp", of: claims)
        try checkTimes(expires: expires, claims)
        if let signedIn = try optionalTime("auth_time", of: claims), signedIn > Double(now + skew) {
            throw .notYetValid
        }
        let isAdmin = issuer.adminClaim.map(claims.isTrue) ?? false
        let limit = issuer.isFirebase ? Self.firebaseSubjectLimit : Self.subjectLimit
        guard let subject = Self.subject(claims.text("sub"), limit: limit) else { throw .badSubject }
        if issuer.isFirebase, claims.contains("user_id"), claims.text("user_id") != subject {
            throw .badSubject
        }
        try checkRevocation(of: subject, claims)
        let variable = AuthVariable.variable(
            of: subject, claims, provider: issuer.provider ?? issuer.host,
            signInProvider: issuer.signInProvider)
        return Identity(
            credential: isAdmin ? .admin : Credential(authVariable: variable), expires: Int64(expires),
            validUntil: validUntil(expires), subject: subject, issuer: issuer.name, keyID: keyID,
            signedInAt: try signedInAt(claims))
    }

    // MARK: Configured secrets

    /// Checks claims that a configured secret has signed: of a legacy token (auth §2.3), or of a JWT with
    /// registered claims.
    func identity(fromOwn claims: JSONObject, keyID: Text?) throws(TokenError) -> Identity {
        // `simulate` asks for a trial run, which is not implemented: the write would be real.
        guard !claims.contains("simulate"), !claims.names("aud", Self.customTokenAudience) else {
            throw .notForDatabase
        }
        let expires = try ownExpiry(of: claims)
        try checkTimes(expires: expires, claims)
        let isAdmin = claims.isTrue("admin")
        let subject: Text?
        let variable: Text?
        if claims.contains("d") || claims.contains("v") {
            let payload = claims.object("d")
            subject = Self.subject(payload?.text("uid"), limit: Self.legacySubjectLimit)
            variable = payload.map { AuthVariable.text($0.bytes) }
        } else {
            subject = Self.subject(claims.text("sub") ?? claims.text("user_id"), limit: Self.subjectLimit)
            variable = subject.map {
                AuthVariable.variable(of: $0, claims, provider: nil, signInProvider: nil)
            }
        }
        guard isAdmin || subject != nil else { throw .badSubject }
        if let subject { try checkRevocation(of: subject, claims) }
        return Identity(
            credential: isAdmin ? .admin : Credential(authVariable: variable), expires: Int64(expires),
            validUntil: validUntil(expires), subject: subject, keyID: keyID,
            signedInAt: try signedInAt(claims))
    }

    /// `exp`, or a day after `nbf` or `iat`: a token without end could not be revoked.
    private func ownExpiry(of claims: JSONObject) throws(TokenError) -> Double {
        if claims.contains("exp") { return try time("exp", of: claims) }
        if let start = try optionalTime("nbf", of: claims) { return start + Self.defaultLifetime }
        return try time("iat", of: claims) + Self.defaultLifetime
    }

    // MARK: `--dev`

    /// Reads claims without a signature. Their times are ignored: the emulator's helper writes 1970
    /// (auth §2.5).
    func identity(fromUnsigned claims: JSONObject) throws(TokenError) -> Identity {
        guard !claims.names("aud", Self.customTokenAudience) else { throw .notForDatabase }
        guard
            let subject = Self.subject(claims.text("sub") ?? claims.text("user_id"), limit: Self.subjectLimit)
        else { throw .badSubject }
        let variable = AuthVariable.variable(of: subject, claims, provider: nil, signInProvider: nil)
        return Identity(credential: Credential(authVariable: variable), subject: subject)
    }

    // MARK: The parts

    private static func subject(_ text: Text?, limit: Int) -> Text? {
        guard let text, (1...limit).contains(text.utf8Count) else { return nil }
        return text
    }

    private func time(_ name: Text, of claims: JSONObject) throws(TokenError) -> Double {
        guard let seconds = try optionalTime(name, of: claims) else { throw .badTime }
        return seconds
    }

    private func optionalTime(_ name: Text, of claims: JSONObject) throws(TokenError) -> Double? {
        guard claims.contains(name) else { return nil }
        let seconds: Double
        switch claims.leaf(name) {
        case .integer(let value): seconds = Double(value)
        case .double(let value): seconds = value
        default: throw .badTime
        }
        guard seconds >= 0, seconds <= Double(now) + Self.horizon else { throw .badTime }
        return seconds
    }

    private func checkTimes(expires: Double, _ claims: JSONObject) throws(TokenError) {
        // The others are read first, so that a malformed time is reported for an expired token too.
        let starts = try optionalTime("nbf", of: claims)
        let issued = try optionalTime("iat", of: claims)
        guard expires > Double(now - skew) else { throw .expired }
        guard starts ?? 0 <= Double(now + skew), issued ?? 0 <= Double(now + skew) else { throw .notYetValid }
    }

    private func checkRevocation(of subject: Text, _ claims: JSONObject) throws(TokenError) {
        guard let since = revokedBefore[subject] else { return }
        guard let signedIn = try signedInAt(claims), signedIn >= Double(since) else { throw .revoked }
    }

    /// The time of the sign-in. Refreshed tokens keep it.
    private func signedInAt(_ claims: JSONObject) throws(TokenError) -> Double? {
        try optionalTime(claims.contains("auth_time") ? "auth_time" : "iat", of: claims)
    }

    /// A connection acts as the identity until `exp`. A token that was accepted within the skew after `exp`
    /// would end at once, so it lasts for one skew longer.
    private func validUntil(_ expires: Double) -> Int64 {
        let end = Int64(expires.rounded(.up))
        return end > now ? end : end + skew
    }
}

/// The `auth` variable that rules see (auth §3).
enum AuthVariable {
    /// `{"uid":…,"provider":…,"token":{every claim, as it was signed}}`
    /// - Parameters:
    ///   - provider: `provider`, where the claims have none; nil for null.
    ///   - signInProvider: Put into claims that have no `firebase` member.
    static func variable(of subject: Text, _ claims: JSONObject, provider: Text?, signInProvider: Text?)
        -> Text
    {
        let named = claims.object("firebase")?.text("sign_in_provider")
        var json: [UInt8] = []
        json.append("{\"uid\":")
        json.append(json: subject)
        json.append(",\"provider\":")
        if let name = named ?? signInProvider ?? provider {
            json.append(json: name)
        } else {
            json.append("null")
        }
        json.append(",\"token\":")
        if let signInProvider, !claims.contains("firebase"),
            let brace = claims.bytes.firstIndex(of: UInt8(ascii: "{"))
        {
            json.append("{\"firebase\":{\"sign_in_provider\":")
            json.append(json: signInProvider)
            // Claims with a subject are not empty, so a comma is due.
            json.append("},")
            json += claims.bytes[(brace + 1)...]
        } else {
            json += claims.bytes
        }
        json.append("}")
        return text(json)
    }

    /// JSON that was read, and so is UTF-8.
    static func text(_ json: [UInt8]) -> Text {
        Text(String(decoding: json, as: UTF8.self))
    }
}

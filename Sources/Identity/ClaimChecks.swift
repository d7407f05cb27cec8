import PandoBytes
import PandoRules
import PandoTree

/// What every token is held against, whoever signed it.
struct ClaimChecks: Sendable {
    /// Wall time, seconds since 1970.
    var now: Int64
    /// Seconds by which a clock may be wrong.
    var skew: Int64
    /// By subject: tokens of people who signed in before count no more. Seconds since 1970.
    var revokedBefore: [Text: Int64]

    /// Times further ahead are nonsense, not patience.
    private static let horizon = Double(10 * 366 * 86_400)
    /// How long a token of ours lives that does not say (auth §2.3).
    private static let defaultLifetime: Double = 86_400
    /// Longest subject of an issuer: that of OpenID Connect Core §2, and that of Firebase (auth §2.1).
    private static let subjectLimit = 255
    private static let firebaseSubjectLimit = 128
    /// Longest `uid` of a legacy token (auth §2.3).
    private static let legacySubjectLimit = 256
    /// What custom tokens are for: to be exchanged, not to be shown to a database (auth §2.2).
    private static let customTokenAudience: Text =
        "https://identitytoolkit.googleapis.com/google.identity.identitytoolkit.v1.IdentityToolkit"

    // MARK: Issuers

    /// Checks claims whose signature is good, in the order of auth §5.2.
    func identity(from claims: JSONObject, of issuer: Issuer, keyID: Text?) throws(Refusal) -> Identity {
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

    // MARK: Our own secrets

    /// Claims that one of our secrets has signed: a legacy token (auth §2.3), or one of the modern shape.
    func identity(fromOwn claims: JSONObject, keyID: Text?) throws(Refusal) -> Identity {
        // A trial run that wrote would be worse than none.
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

    /// `exp`, or a day from `nbf` or `iat`: a token that never ends cannot be taken back.
    private func ownExpiry(of claims: JSONObject) throws(Refusal) -> Double {
        if claims.contains("exp") { return try time("exp", of: claims) }
        if let start = try optionalTime("nbf", of: claims) { return start + Self.defaultLifetime }
        return try time("iat", of: claims) + Self.defaultLifetime
    }

    // MARK: `--dev`

    /// Claims that nobody has signed. Their times are not looked at: the emulator's helper writes 1970
    /// (auth §2.5).
    func identity(fromUnsigned claims: JSONObject) throws(Refusal) -> Identity {
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

    private func time(_ name: Text, of claims: JSONObject) throws(Refusal) -> Double {
        guard let seconds = try optionalTime(name, of: claims) else { throw .badTime }
        return seconds
    }

    private func optionalTime(_ name: Text, of claims: JSONObject) throws(Refusal) -> Double? {
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

    private func checkTimes(expires: Double, _ claims: JSONObject) throws(Refusal) {
        // The others are read first: whatever is no time is said to be none, also of an old token.
        let starts = try optionalTime("nbf", of: claims)
        let issued = try optionalTime("iat", of: claims)
        guard expires > Double(now - skew) else { throw .expired }
        guard starts ?? 0 <= Double(now + skew), issued ?? 0 <= Double(now + skew) else { throw .notYetValid }
    }

    private func checkRevocation(of subject: Text, _ claims: JSONObject) throws(Refusal) {
        guard let since = revokedBefore[subject] else { return }
        guard let signedIn = try signedInAt(claims), signedIn >= Double(since) else { throw .revoked }
    }

    /// When somebody has shown who they are; refreshed tokens keep it.
    private func signedInAt(_ claims: JSONObject) throws(Refusal) -> Double? {
        try optionalTime(claims.contains("auth_time") ? "auth_time" : "iat", of: claims)
    }

    /// A live connection ends at `exp`, not before and not later. One that was let in within the skew behind
    /// it would end at once, so it has the rest of the skew.
    private func validUntil(_ expires: Double) -> Int64 {
        let end = Int64(expires.rounded(.up))
        return end > now ? end : end + skew
    }
}

/// The `auth` variable that rules see (auth §3).
enum AuthVariable {
    /// `{"uid":…,"provider":…,"token":{every claim, as it was signed}}`
    /// - Parameters:
    ///   - provider: What `provider` is where the claims do not say; null when nil.
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

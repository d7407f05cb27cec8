import PandoBytes
import PandoTree

/// Makes tokens that a configured secret signs: the output of `pando token` (auth §5).
package struct TokenMint: Sendable {
    package var uid: Text?
    /// Seconds.
    package var lifetime: Int64
    /// Further claims, each value as JSON.
    package var claims: [(name: Text, json: [UInt8])]
    package var isAdmin: Bool

    package init(
        uid: Text?, lifetime: Int64, claims: [(name: Text, json: [UInt8])] = [], isAdmin: Bool = false
    ) {
        self.uid = uid
        self.lifetime = lifetime
        self.claims = claims
        self.isAdmin = isAdmin
    }

    /// Names that have another meaning in a token (auth §2.1), or that the mint writes itself.
    package static let reservedNames: Set<Text> = [
        "acr", "amr", "at_hash", "aud", "auth_time", "azp", "cnf", "c_hash", "exp", "firebase", "iat", "iss",
        "jti",
        "nbf", "nonce", "sub", "admin", "d", "v", "user_id", "simulate", "debug",
    ]
    /// Bytes of all custom claims, with their names (auth §2.1).
    private static let claimByteLimit = 1000
    /// The longest `uid` in bytes (auth §2.1).
    private static let uidByteLimit = 128
    /// Seconds: ten years, less than what verifiers refuse.
    private static let longestLifetime: Int64 = 10 * 365 * 86_400

    /// Every problem of the requested token.
    package var problems: [String] {
        var found: [String] = []
        if let uid {
            if !(1...Self.uidByteLimit).contains(uid.utf8Count) {
                found.append("--uid: must have 1 to \(Self.uidByteLimit) bytes")
            } else if !Key.isLegal(uid) {
                // Rules could not name the user's node; and in a composed path `a/` would be `a` (rules §6).
                found.append(
                    "--uid: must not contain . # $ / [ ] or control characters, since no key of a node does")
            }
        } else if !isAdmin {
            found.append("--uid: missing; give one, or --admin")
        }
        if !(1...Self.longestLifetime).contains(lifetime) {
            found.append("--ttl: must be 1 second to 10 years")
        }
        var names: Set<Text> = []
        for claim in claims {
            if Self.reservedNames.contains(claim.name) {
                found.append("--claim \(claim.name): the name is reserved")
            }
            if !names.insert(claim.name).inserted { found.append("--claim \(claim.name): given twice") }
        }
        if claims.reduce(0, { $0 + $1.name.utf8Count + $1.json.count }) > Self.claimByteLimit {
            found.append("--claim: all of them together must not exceed \(Self.claimByteLimit) bytes")
        }
        return found
    }

    /// A claim's value as JSON: text that is JSON stays as it is, other text becomes a string.
    package static func json(_ value: [UInt8]) -> [UInt8] {
        // Read as a member, so that the limits of claims apply.
        if JSONObject(Array("{\"a\":".utf8) + value + Array("}".utf8))?.members.count == 1 { return value }
        var json: [UInt8] = []
        json.append(json: Text(String(decoding: value, as: UTF8.self)))
        return json
    }

    /// Makes the token.
    /// - Parameter now: Wall time, seconds since 1970.
    /// - Throws: An error of jwt-kit for a secret that it cannot use.
    /// - Precondition: ``problems`` is empty.
    package func token(signedWith secret: Secret, at now: Int64) async throws -> Text {
        precondition(problems.isEmpty)
        var header: [UInt8] = []
        header.append("{\"alg\":\"HS256\",\"typ\":\"JWT\"")
        if let id = secret.id {
            header.append(",\"kid\":")
            header.append(json: id)
        }
        header.append("}")

        var payload: [UInt8] = []
        payload.append("{\"iat\":")
        payload.append(decimal: now)
        payload.append(",\"auth_time\":")
        payload.append(decimal: now)
        payload.append(",\"exp\":")
        payload.append(decimal: now + lifetime)
        if let uid {
            payload.append(",\"sub\":")
            payload.append(json: uid)
            payload.append(",\"user_id\":")
            payload.append(json: uid)
        }
        if isAdmin { payload.append(",\"admin\":true") }
        payload.append(",\"firebase\":{\"identities\":{},\"sign_in_provider\":\"custom\"}")
        for claim in claims {
            payload.append(",")
            payload.append(json: claim.name)
            payload.append(":")
            payload += claim.json
        }
        payload.append("}")

        var token: [UInt8] = []
        token.append(base64: header.rawSpan, alphabet: .urlSafe)
        token.append(".")
        token.append(base64: payload.rawSpan, alphabet: .urlSafe)
        let key = try await VerificationKey(secret: secret.bytes, id: secret.id)
        let signature = key.authenticationCode(of: token) ?? []
        token.append(".")
        token.append(base64: signature.rawSpan, alphabet: .urlSafe)
        return Text(String(decoding: token, as: UTF8.self))
    }
}

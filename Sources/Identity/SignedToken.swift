import PandoBytes
import PandoTree

//  token   base64url(header) . base64url(claims) . base64url(signature)        RFC 7515 §7.1, no padding
//
//  header  {"alg":…, "kid"?:…}     `kid` looks a loaded key up, and is used for nothing else. `jku`, `jwk`, `x5u` and
//                                  `x5c` are not looked at; with `crit` the token is refused (auth §5.2).

/// A JSON Web Token, taken apart and not verified.
struct SignedToken {
    enum Algorithm: String, CaseIterable {
        case none, HS256, RS256, RS384, RS512, ES256, EdDSA
    }

    let algorithm: Algorithm
    let keyID: Text?
    let claims: JSONObject
    /// What the signature covers: header and claims as they came.
    let signed: [UInt8]
    let signature: [UInt8]

    /// What a token may call itself, in any case of letters: a JWT (RFC 7519 §5.1), or the access token of
    /// RFC 9068 §2.1. A logout token or a security event is signed with the same keys and is no credential
    /// (RFC 8725 §3.11).
    private static let types = ["jwt", "at+jwt"]

    /// Whether text has the form of a token: exactly two dots. What has not may be a secret.
    static func hasForm(_ token: Text) -> Bool {
        token.string.utf8.lazy.filter { $0 == UInt8(ascii: ".") }.count == 2
    }

    /// - Throws: ``Refusal/unparsable`` or ``Refusal/unsupportedHeader``.
    /// - Complexity: O(bytes); the caller bounds them.
    init(_ token: Text) throws(Refusal) {
        let parts = token.string.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3 else { throw .unparsable }
        guard let header = Self.decode(parts[0]).flatMap({ JSONObject($0) }),
            let claims = Self.decode(parts[1]).flatMap({ JSONObject($0) }),
            let signature = Self.decode(parts[2])
        else { throw .unparsable }
        guard !header.contains("crit"),
            let algorithm = header.text("alg").flatMap({ Algorithm(rawValue: $0.string) })
        else { throw .unsupportedHeader }
        // `type`, as the emulator's helper spells it, says nothing (auth §2.5).
        if header.contains("typ") {
            guard let type = header.text("typ"), Self.types.contains(type.string.lowercased()) else {
                throw .unsupportedHeader
            }
        }
        if header.contains("kid") {
            guard let keyID = header.text("kid") else { throw .unparsable }
            self.keyID = keyID
        } else {
            keyID = nil
        }
        self.algorithm = algorithm
        self.claims = claims
        self.signature = signature
        signed = Array(parts[0]) + [UInt8(ascii: ".")] + Array(parts[1])
    }

    /// Base64url without padding: with it, one token could be written in several ways.
    private static func decode(_ part: Substring.UTF8View) -> [UInt8]? {
        guard part.last != UInt8(ascii: "=") else { return nil }
        return decodeBase64(Array(part).rawSpan, alphabet: .urlSafe)
    }
}

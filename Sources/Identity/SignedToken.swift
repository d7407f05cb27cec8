import PandoBytes
import PandoTree

//  token   base64url(header) . base64url(claims) . base64url(signature)        RFC 7515 §7.1, no padding
//
//  header  {"alg":…, "kid"?:…}     `kid` finds a loaded key, and is used for nothing else. `jku`, `jwk`, `x5u` and
//                                  `x5c` are ignored; with `crit` the token is refused (auth §5.2).

/// The parts of a JSON Web Token, not verified.
struct SignedToken {
    enum Algorithm: String, CaseIterable {
        case none, HS256, RS256, RS384, RS512, ES256, EdDSA
    }

    let algorithm: Algorithm
    let keyID: Text?
    let claims: JSONObject
    /// The bytes that the signature covers: header and claims as they were received.
    let signed: [UInt8]
    let signature: [UInt8]

    /// The accepted values of `typ`, in any case: a JWT (RFC 7519 §5.1), or an access token (RFC 9068 §2.1).
    /// A logout token or a security event is signed with the same keys and is no credential (RFC 8725 §3.11).
    private static let types = ["jwt", "at+jwt"]

    /// Whether text has the form of a token: exactly two dots. Other text may be a secret.
    static func hasForm(_ token: Text) -> Bool {
        token.string.utf8.lazy.filter { $0 == UInt8(ascii: ".") }.count == 2
    }

    /// - Parameter isDevelopment: Whether an unsigned token may be in standard Base64 with padding, as older
    ///   helpers of the emulator write it (auth §2.5). A signed one never is.
    /// - Throws: ``TokenError/unparsable`` or ``TokenError/unsupportedHeader``.
    /// - Complexity: O(bytes); the caller bounds them.
    init(_ token: Text, isDevelopment: Bool = false) throws(TokenError) {
        let parts = token.string.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3 else { throw .unparsable }
        var isStandard = false
        func decode(_ part: Substring.UTF8View) -> [UInt8]? {
            if let bytes = Self.decode(part) { return bytes }
            guard isDevelopment else { return nil }
            isStandard = true
            return decodeBase64(Array(part).rawSpan, alphabet: .standard)
        }
        guard let header = decode(parts[0]).flatMap({ JSONObject($0) }),
            let claims = decode(parts[1]).flatMap({ JSONObject($0) }),
            let signature = decode(parts[2])
        else { throw .unparsable }
        guard !header.contains("crit"),
            let algorithm = header.text("alg").flatMap({ Algorithm(rawValue: $0.string) })
        else { throw .unsupportedHeader }
        guard !isStandard || algorithm == .none else { throw .unparsable }
        // The member `type`, which the emulator's helper writes, is ignored (auth §2.5).
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

    /// Base64url without padding. With padding one token would have several spellings.
    private static func decode(_ part: Substring.UTF8View) -> [UInt8]? {
        guard part.last != UInt8(ascii: "=") else { return nil }
        return decodeBase64(Array(part).rawSpan, alphabet: .urlSafe)
    }
}

import JWTKit
import PandoBytes

/// One key, and the algorithms that it may verify. An RSA key never verifies an HMAC, whatever `alg` a token
/// has (auth §5.2, algorithm confusion).
struct VerificationKey: Sendable {
    /// `kid`; nil for a key without one, which is tried with tokens of any `kid`.
    let id: Text?
    /// A digest of the key itself, to find out whether it is still configured, with any `kid`.
    let fingerprint: SHA256Digest
    private let algorithms: [SignedToken.Algorithm: any JWTAlgorithm]

    func fits(_ algorithm: SignedToken.Algorithm) -> Bool { algorithms[algorithm] != nil }

    /// Whether this key made the signature. In constant time for a secret.
    func verifies(_ token: SignedToken) -> Bool {
        guard let algorithm = algorithms[token.algorithm], Self.hasForm(token.signature, token.algorithm)
        else {
            return false
        }
        return (try? algorithm.verify(token.signature, signs: token.signed)) ?? false
    }

    /// Whether the signature has the right length. (libcrypto checks the ranges of its numbers.)
    private static func hasForm(_ signature: [UInt8], _ algorithm: SignedToken.Algorithm) -> Bool {
        switch algorithm {
        case .ES256, .EdDSA: signature.count == 64
        case .HS256: signature.count == 32
        case .RS256, .RS384, .RS512: signature.count >= 256
        case .none: false
        }
    }

    // MARK: Making keys

    /// The largest modulus in bytes: the cost of verifying grows with its square.
    private static let modulusByteLimit = 8192 / 8

    /// - Parameter only: The algorithm that the key is for; nil for all of its family.
    /// - Throws: ``TokenError/unknownKey`` for a modulus above 8192 bits, an error of jwt-kit below 2048
    ///   bits.
    init(rsa key: Insecure.RSA.PublicKey, id: Text?, only: SignedToken.Algorithm? = nil) async throws {
        let numbers = try key.getKeyPrimitives()
        guard numbers.modulus.count <= Self.modulusByteLimit else { throw TokenError.unknownKey }
        var algorithms: [SignedToken.Algorithm: any JWTAlgorithm] = [:]
        for (name, digest) in [
            (.RS256, .sha256), (.RS384, .sha384), (.RS512, .sha512),
        ] as [(SignedToken.Algorithm, DigestAlgorithm)] where only == nil || only == name {
            algorithms[name] = try await JWTKeyCollection().add(rsa: key, digestAlgorithm: digest).getKey()
        }
        self.init(id: id, "RSA", Array(numbers.modulus) + Array(numbers.publicExponent), algorithms)
    }

    init(p256 key: ES256PublicKey, id: Text?) async throws {
        self.init(
            id: id, "P-256", Array(key.pemRepresentation.utf8),
            [.ES256: try await JWTKeyCollection().add(ecdsa: key).getKey()])
    }

    init(ed25519 key: EdDSA.PublicKey, id: Text?) async throws {
        self.init(
            id: id, "Ed25519", Array(key.rawRepresentation),
            [.EdDSA: try await JWTKeyCollection().add(eddsa: key).getKey()])
    }

    init(secret bytes: [UInt8], id: Text?) async throws {
        let key = HMACKey(from: bytes)
        self.init(
            id: id, "HMAC", bytes,
            [.HS256: try await JWTKeyCollection().add(hmac: key, digestAlgorithm: .sha256).getKey()])
    }

    private init(
        id: Text?, _ family: String, _ material: [UInt8],
        _ algorithms: [SignedToken.Algorithm: any JWTAlgorithm]
    ) {
        self.id = id
        fingerprint = SHA256Digest(of: (Array(family.utf8) + [0] + material).rawSpan)
        self.algorithms = algorithms
    }

    // MARK: Secrets only

    /// The HMAC of some bytes; nil for a key that is no secret.
    func authenticationCode(of bytes: [UInt8]) -> [UInt8]? {
        try? algorithms[.HS256]?.sign(bytes)
    }

    /// Whether `code` is the HMAC of `bytes`, in constant time.
    func verifies(_ code: [UInt8], of bytes: [UInt8]) -> Bool {
        (try? algorithms[.HS256]?.verify(code, signs: bytes)) ?? false
    }
}

/// The keys of one issuer or file.
struct KeySet: Sendable {
    /// The most keys that are tried for one token (auth §5.2).
    private static let trialLimit = 5

    let keys: [VerificationKey]

    /// Whether a token with that `kid` may be signed by one of the keys. Where keys have ids, it must be one
    /// of them (auth §5.2). Where none has, as in PEM files and for a single secret, the `kid` is ignored,
    /// and the signature alone decides.
    func mayHold(_ id: Text) -> Bool { keys.contains { $0.id == id } || keys.allSatisfy { $0.id == nil } }

    /// The key that signed a token: the one with its `kid`. If the token or every key has no `kid`, a few of
    /// the keys for its `alg` are tried.
    /// - Throws: ``TokenError/unknownKey`` or ``TokenError/badSignature``.
    func signer(of token: SignedToken) throws(TokenError) -> VerificationKey {
        var candidates = keys.filter { $0.fits(token.algorithm) }
        if let id = token.keyID, keys.contains(where: { $0.id != nil }) {
            candidates.removeAll { $0.id != id }
        }
        guard !candidates.isEmpty else { throw .unknownKey }
        guard let key = candidates.prefix(Self.trialLimit).first(where: { $0.verifies(token) }) else {
            throw .badSignature
        }
        return key
    }
}

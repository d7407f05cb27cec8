import JWTKit
import PandoBytes
import PandoTree

// The formats of public keys: JWK sets (RFC 7517), PEM, and PEM certificates by `kid`.

/// A document without a usable key, and the reason.
package struct UnreadableKeys: Error, Sendable, Equatable, CustomStringConvertible {
    package let description: String
}

extension KeySet {
    /// Keys that are read of one document; our own limit. Issuers publish two or three.
    private static let keyLimit = 64

    /// Reads `{"keys":[…]}`. Keys of other types, for other uses, or broken ones are skipped: an issuer may
    /// publish them beside the ones that are needed. Symmetric keys are never used.
    /// - Throws: ``UnreadableKeys`` for another document, or one without a usable key.
    init(jwks document: [UInt8]) async throws(UnreadableKeys) {
        guard let elements = JSONObject(document)?.elements("keys") else {
            throw UnreadableKeys(description: "not a JSON object with an array of \"keys\"")
        }
        var keys: [VerificationKey] = []
        for element in elements.prefix(Self.keyLimit) {
            guard let object = JSONObject(element) else { continue }
            if let key = try? await Self.key(object) { keys.append(key) }
        }
        guard !keys.isEmpty else {
            throw UnreadableKeys(
                description: "holds no RSA (2048 bits or more), P-256 or Ed25519 key to verify with")
        }
        self.init(keys: keys)
    }

    private static func key(_ jwk: JSONObject) async throws -> VerificationKey? {
        if let use = jwk.text("use"), use != "sig" { return nil }
        if jwk.contains("key_ops"), !jwk.names("key_ops", "verify") { return nil }
        var only: SignedToken.Algorithm?
        if let name = jwk.text("alg") {
            guard let algorithm = SignedToken.Algorithm(rawValue: name.string) else { return nil }
            only = algorithm
        }
        let id = jwk.text("kid")
        let key: VerificationKey?
        switch (jwk.text("kty"), jwk.text("crv")) {
        case ("RSA", _):
            guard let modulus = jwk.text("n"), let exponent = jwk.text("e") else { return nil }
            let rsa = try Insecure.RSA.PublicKey(modulus: modulus.string, exponent: exponent.string)
            key = try await VerificationKey(rsa: rsa, id: id, only: only)
        case ("EC", "P-256"):
            guard let x = jwk.text("x"), let y = jwk.text("y") else { return nil }
            key = try await VerificationKey(
                p256: ES256PublicKey(parameters: (x: x.string, y: y.string)), id: id)
        case ("OKP", "Ed25519"):
            guard let x = jwk.text("x") else { return nil }
            key = try await VerificationKey(ed25519: EdDSA.PublicKey(x: x.string, curve: .ed25519), id: id)
        default: return nil
        }
        guard let key, only.map(key.fits) ?? true else { return nil }
        return key
    }

    /// Reads one or several PEM blocks: `PUBLIC KEY`, `RSA PUBLIC KEY` or `CERTIFICATE`, without a `kid`. Any
    /// other block is an error, since the operator has put it there.
    /// - Throws: ``UnreadableKeys``.
    init(pem document: [UInt8]) async throws(UnreadableKeys) {
        guard let text = String(validating: document, as: UTF8.self) else {
            throw UnreadableKeys(description: "neither JSON nor PEM")
        }
        guard !text.contains("PRIVATE KEY-----") else {
            throw UnreadableKeys(description: "holds a private key; only public ones belong here")
        }
        var keys: [VerificationKey] = []
        for block in Self.blocks(of: text).prefix(Self.keyLimit) {
            guard let key = await Self.key(pem: block, id: nil) else {
                throw UnreadableKeys(
                    description:
                        "holds a PEM block that is not an RSA (2048 bits or more), P-256 or Ed25519 public key"
                )
            }
            keys.append(key)
        }
        guard !keys.isEmpty else { throw UnreadableKeys(description: "neither JSON nor PEM") }
        self.init(keys: keys)
    }

    /// Reads `{"<kid>":"<PEM certificate>",…}`, the format of the securetoken service (auth §2.1).
    /// - Throws: ``UnreadableKeys``.
    init(certificates document: [UInt8]) async throws(UnreadableKeys) {
        guard let object = JSONObject(document) else {
            throw UnreadableKeys(description: "not a JSON object of certificates")
        }
        var keys: [VerificationKey] = []
        for member in object.members.prefix(Self.keyLimit) {
            guard let pem = object.text(member.name) else { continue }
            if let key = await Self.key(pem: pem.string, id: member.name) { keys.append(key) }
        }
        guard !keys.isEmpty else { throw UnreadableKeys(description: "holds no certificate to verify with") }
        self.init(keys: keys)
    }

    private static func blocks(of text: String) -> [String] {
        var blocks: [String] = []
        var block: [Substring] = []
        for line in text.split(whereSeparator: \.isNewline) {
            if line.hasPrefix("-----BEGIN ") { block = [] }
            block.append(line)
            if line.hasPrefix("-----END ") {
                blocks.append(block.joined(separator: "\n") + "\n")
                block = []
            }
        }
        return blocks
    }

    private static func key(pem: String, id: Text?) async -> VerificationKey? {
        let isCertificate = pem.hasPrefix("-----BEGIN CERTIFICATE-----")
        if let key = isCertificate ? try? Insecure.RSA.PublicKey(certificatePEM: pem) : try? .init(pem: pem) {
            return try? await VerificationKey(rsa: key, id: id)
        }
        if let key = isCertificate ? try? ES256PublicKey(certificate: pem) : try? .init(pem: pem) {
            return try? await VerificationKey(p256: key, id: id)
        }
        if !isCertificate, let key = try? EdDSA.PublicKey(pem: pem) {
            return try? await VerificationKey(ed25519: key, id: id)
        }
        return nil
    }
}

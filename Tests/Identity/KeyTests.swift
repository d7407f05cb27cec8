import JWTKit
import PandoBytes
import Testing

@testable import PandoIdentity

private let claims = WorkedCase.idClaims()

/// A configuration with nothing but one key document, in a file that is written for the test.
private func authenticator(_ document: String) async throws -> Authenticator {
    let issuer = FakeIssuer()
    var configuration = IdentityConfiguration()
    configuration.issuers = [
        .init(
            issuer: Issuer(name: Text(issuerName), audience: "rtdb"), keys: .jwks("https://keys.example.org/")
        )
    ]
    issuer.state.withLock { $0.documents["https://keys.example.org/"] = document }
    return try await issuer.authenticator(configuration)
}

/// Each family of keys verifies its own algorithms and no others.
@Test func algorithmFamilies() async throws {
    let p256 = ES256PrivateKey()
    let ed25519 = try EdDSA.PrivateKey()
    let point = try #require(p256.publicKey.parameters)
    let x = base64(Array(ed25519.publicKey.rawRepresentation))
    func url(_ text: String) -> String {
        String(text.filter { $0 != "=" }.map { $0 == "+" ? "-" : $0 == "/" ? "_" : $0 })
    }
    let ec = #"{"kty":"EC","crv":"P-256","kid":"ec","x":"\#(url(point.x))","y":"\#(url(point.y))"}"#
    let okp = #"{"kty":"OKP","crv":"Ed25519","kid":"ed","x":"\#(x)"}"#
    let rsa = try jwks([("rsa", TestKeys.rsa)]).dropFirst(9).dropLast(2)
    let authenticator = try await authenticator(#"{"keys":[\#(ec),\#(okp),\#(rsa)]}"#)
    let signers: [(String, String, Signer)] = [
        ("RS256", "rsa", try await .rsa()), ("RS384", "rsa", try await .rsa(TestKeys.rsa, .sha384)),
        ("RS512", "rsa", try await .rsa(TestKeys.rsa, .sha512)),
        ("ES256", "ec", Signer(algorithm: try await JWTKeyCollection().add(ecdsa: p256).getKey())),
        ("EdDSA", "ed", Signer(algorithm: try await JWTKeyCollection().add(eddsa: ed25519).getKey())),
    ]
    for (name, id, signer) in signers {
        let good = try signer.token(#"{"alg":"\#(name)","kid":"\#(id)"}"#, claims)
        #expect(await authenticator.verify(good, at: now).identity?.keyID == Text(id), "\(name)")
        let unnamed = try signer.token(#"{"alg":"\#(name)"}"#, claims)
        #expect(
            await authenticator.verify(unnamed, at: now).identity?.keyID == Text(id), "\(name) without kid")
        for (other, otherID, _) in signers where other != name {
            let bad = try signer.token(#"{"alg":"\#(other)","kid":"\#(otherID)"}"#, claims)
            #expect(await authenticator.verify(bad, at: now).refusal == .badSignature, "\(name) as \(other)")
            if id != otherID {
                let crossed = try signer.token(#"{"alg":"\#(other)","kid":"\#(id)"}"#, claims)
                #expect(
                    await authenticator.verify(crossed, at: now).refusal == .unknownKey, "\(other) by \(id)")
            }
        }
    }
}

/// The S of an Ed25519 signature must be below the order of the group: otherwise a second valid signature
/// can be computed without the key.
@Test func ed25519IsCanonical() async throws {
    let key = try EdDSA.PrivateKey()
    let verifier = try await VerificationKey(ed25519: key.publicKey, id: nil)
    let signer = Signer(algorithm: try await JWTKeyCollection().add(eddsa: key).getKey())
    let token = try signer.token(#"{"alg":"EdDSA"}"#, claims)
    #expect(verifier.verifies(try SignedToken(token)))
    // L, little-endian; S + L is the same number for the equation.
    let order: [UInt8] =
        [
            0xED, 0xD3, 0xF5, 0x5C, 0x1A, 0x63, 0x12, 0x58, 0xD6, 0x9C, 0xF7, 0xA2, 0xDE, 0xF9, 0xDE, 0x14,
        ] + Array(repeating: 0, count: 15) + [0x10]
    let parts = token.string.split(separator: ".")
    var signature = decodeBase64(Array(parts[2].utf8).rawSpan, alphabet: .urlSafe) ?? []
    #expect(signature.count == 64)
    var carry = 0
    for index in 0..<32 {
        carry += Int(signature[32 + index]) + Int(order[index])
        signature[32 + index] = UInt8(carry & 0xFF)
        carry >>= 8
    }
    let other = Text("\(parts[0]).\(parts[1]).\(base64(signature))")
    #expect(!verifier.verifies(try SignedToken(other)))
}

/// Documents of keys: what is read, and what is passed over.
@Test(
    arguments: [
        (#"{}"#, "no keys"),
        (#"[]"#, "no object"),
        (#"{"keys":[]}"#, "none"),
        (
            #"{"keys":[{"kty":"oct","kid":"k1","k":"c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"}]}"#,
            "a symmetric key"
        ),
        (#"{"keys":[{"kty":"RSA","kid":"k1","n":"AQAB","e":"AQAB"}]}"#, "a tiny modulus"),
        (#"{"keys":[{"kty":"RSA","kid":"k1","n":"","e":""}]}"#, "empty numbers"),
        (#"{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}"#, "no point of the curve"),
        (#"{"keys":[{"kty":"EC","crv":"P-521","x":"AA","y":"AA"}]}"#, "another curve"),
        (#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA"}]}"#, "a short Edwards key"),
        (#"{"keys":[5,null,"x",{}]}"#, "no keys at all"),
        (#"{"keys":[],"keys":[]}"#, "a name twice"),
    ] as [(String, String)])
func unusableKeySets(document: String, reason: String) async throws {
    await #expect(throws: UnreadableKeys.self, "\(reason)") { try await KeySet(jwks: Array(document.utf8)) }
}

@Test func keysForOtherUsesAreSkipped() async throws {
    let rsa = try jwks([("k1", TestKeys.rsa)])
    for (member, isTaken) in [
        (#""use":"sig""#, true), (#""use":"enc""#, false), (#""key_ops":["verify"]"#, true),
        (#""key_ops":["encrypt"]"#, false), (#""alg":"RS512""#, true), (#""alg":"ES256""#, false),
        (#""alg":"HS256""#, false), (#""alg":"RSA-OAEP""#, false),
    ] {
        let document = rsa.replacing(#""use":"sig""#, with: member)
        let keys = try? await KeySet(jwks: Array(document.utf8))
        #expect((keys != nil) == isTaken, "\(member)")
    }
    let only = try await KeySet(jwks: Array(rsa.replacing(#""use":"sig""#, with: #""alg":"RS512""#).utf8))
    #expect(only.keys[0].fits(.RS512) && !only.keys[0].fits(.RS256) && !only.keys[0].fits(.HS256))
}

@Test func pemDocuments() async throws {
    let rsa = try Signer.publicPEM()
    let p256 = ES256PrivateKey().publicKey.pemRepresentation
    #expect(try await KeySet(pem: Array((rsa + "\n" + p256).utf8)).keys.count == 2)
    #expect(try await KeySet(pem: Array(TestKeys.certificate.utf8)).keys[0].fits(.RS256))
    for document in [
        TestKeys.rsa, TestKeys.smallRSA, "", "x", TestKeys.certificate.replacing("A", with: "B"),
    ] {
        await #expect(throws: UnreadableKeys.self) { try await KeySet(pem: Array(document.utf8)) }
    }
}

/// The keys of a Firebase project, by certificate (auth §2.1).
@Test func firebaseProject() async throws {
    let issuer = FakeIssuer()
    let pem = TestKeys.certificate.replacing("\n", with: #"\n"#)
    issuer.state.withLock {
        $0.documents[IdentityConfiguration.firebaseCertificates] = #"{"k1":"\#(pem)","k2":"broken"}"#
    }
    var configuration = IdentityConfiguration()
    configuration.issuers = [IdentityConfiguration.firebase(project: "demo")]
    let authenticator = try await issuer.authenticator(configuration)
    let name = "https://securetoken.google.com/demo"
    func verdict(_ header: String, _ claims: String, _ signer: Signer) async throws -> VerificationResult {
        await authenticator.verify(try signer.token(header, claims), at: now)
    }
    let signer = try await Signer.rsa()
    let good = WorkedCase.idClaims(
        iss: name, aud: #""demo""#, more: #","user_id":"u1","firebase":{"sign_in_provider":"anonymous"}"#)
    #expect(
        try await verdict(WorkedCase.rs, good, signer).auth
            == #"{"uid":"u1","provider":"anonymous","token":\#(good)}"#)
    #expect(try await verdict(#"{"alg":"RS256"}"#, good, signer) == .refused(.unsupportedHeader), "no kid")
    let rs512 = try await Signer.rsa(TestKeys.rsa, .sha512)
    #expect(try await verdict(#"{"alg":"RS512","kid":"k1"}"#, good, rs512) == .refused(.unsupportedHeader))
    let crossed = WorkedCase.idClaims(iss: name, aud: #""demo""#, more: #","user_id":"u2""#)
    #expect(try await verdict(WorkedCase.rs, crossed, signer) == .refused(.badSubject), "user_id of another")
    let long = WorkedCase.idClaims(iss: name, aud: #""demo""#, sub: String(repeating: "u", count: 129))
    #expect(try await verdict(WorkedCase.rs, long, signer) == .refused(.badSubject), "129 bytes")
    let cookie = WorkedCase.idClaims(iss: "https://session.firebase.google.com/demo", aud: #""demo""#)
    #expect(try await verdict(WorkedCase.rs, cookie, signer) == .refused(.wrongIssuer), "a session cookie")
}

/// Rules written for Firebase find the sign-in provider.
@Test func claimMapping() async throws {
    let issuer = FakeIssuer()
    try issuer.publish([("k1", TestKeys.rsa)])
    var configuration = IdentityConfiguration.whole
    configuration.issuers[0].issuer.signInProvider = "google.com"
    configuration.issuers[0].issuer.provider = "example"
    let authenticator = try await issuer.authenticator(configuration)
    let verdict = await authenticator.verify(try await Signer.rsa().token(WorkedCase.rs, claims), at: now)
    let token = #"{"firebase":{"sign_in_provider":"google.com"},"# + claims.dropFirst()
    #expect(verdict.auth == #"{"uid":"u1","provider":"google.com","token":\#(token)}"#)
}

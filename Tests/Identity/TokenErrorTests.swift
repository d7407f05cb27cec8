import PandoBytes
import PandoRules
import Testing

@testable import PandoIdentity

private let rs = WorkedCase.rs
private let hs = WorkedCase.hs

/// Tokens that our own secret has signed, and that are refused all the same (auth §5.2).
@Test(
    arguments: [
        (hs, #"{"sub":"u1","iat":\#(now),"exp":"\#(now + 60)"}"#, .badTime, "a time in quotes"),
        (hs, #"{"sub":"u1","iat":\#(now),"exp":null}"#, .badTime, "a time that is null"),
        (hs, #"{"sub":"u1","iat":-1,"exp":\#(now + 60)}"#, .badTime, "before 1970"),
        (hs, #"{"sub":"u1","iat":\#(now),"exp":\#(now + 4_000_000_000)}"#, .badTime, "a century ahead"),
        (hs, #"{"sub":"u1","iat":\#(now),"exp":1e999}"#, .unparsable, "no number at all"),
        (hs, #"{"sub":"u1"}"#, .badTime, "a token that would never end"),
        (hs, #"{"sub":"u1","iat":\#(now + 61),"exp":\#(now + 90)}"#, .notYetValid, "issued in the future"),
        (hs, #"{"sub":"u1","iat":\#(now),"nbf":\#(now + 61),"exp":\#(now + 90)}"#, .notYetValid, "not yet"),
        (hs, #"{"sub":"","iat":\#(now)}"#, .badSubject, "an empty subject"),
        (hs, #"{"sub":5,"iat":\#(now)}"#, .badSubject, "a subject that is a number"),
        (hs, #"{"sub":null,"iat":\#(now)}"#, .badSubject, "a subject that is null"),
        (hs, #"{"v":0,"iat":\#(now),"d":{"x":1}}"#, .badSubject, "a legacy token without a uid"),
        (hs, #"{"v":0,"iat":\#(now),"d":"u1"}"#, .badSubject, "a legacy token whose d is text"),
        (hs, #"{"v":0,"iat":\#(now),"d":{"uid":"u1"},"simulate":true}"#, .notForDatabase, "a trial run"),
        (hs, #"{"sub":"u1","iat":\#(now),"iat":\#(now)}"#, .unparsable, "a name twice"),
        (hs, #"{"sub":"u1","iat":\#(now),"a":{"b":1,"b":2}}"#, .unparsable, "a name twice, inside"),
        (
            hs, #"{"sub":"u1","iat":\#(now),"\u0073ub":"u2"}"#, .unparsable,
            "a name twice, spelled in another way"
        ),
        (hs, #"["sub","u1"]"#, .unparsable, "claims that are no object"),
        (hs, #"{"sub":"u\#u{5C}ud800","iat":\#(now)}"#, .unparsable, "half a character"),
        (hs, #"{"sub":"u1","iat":\#(now)} "x""#, .unparsable, "something behind the claims"),
        (
            hs, #"{"a":"# + String(repeating: "[", count: 40) + String(repeating: "]", count: 40) + "}",
            .unparsable, "too deep"
        ),
        (#"{"alg":"HS256","crit":["exp"]}"#, #"{"sub":"u1","iat":\#(now)}"#, .unsupportedHeader, "crit"),
        (
            #"{"alg":"HS256","crit":null}"#, #"{"sub":"u1","iat":\#(now)}"#, .unsupportedHeader,
            "crit, whatever it is"
        ),
        (#"{"alg":"HS512"}"#, #"{"sub":"u1","iat":\#(now)}"#, .unsupportedHeader, "another HMAC"),
        (#"{"alg":"hs256"}"#, #"{"sub":"u1","iat":\#(now)}"#, .unsupportedHeader, "another spelling"),
        (#"{"alg":"HS256","alg":"none"}"#, #"{"sub":"u1","iat":\#(now)}"#, .unparsable, "two algorithms"),
        (#"{"typ":"JWT"}"#, #"{"sub":"u1","iat":\#(now)}"#, .unsupportedHeader, "no algorithm"),
        (#"{"alg":"HS256","kid":7}"#, #"{"sub":"u1","iat":\#(now)}"#, .unparsable, "a kid that is a number"),
        (
            #"{"alg":"PS256"}"#, #"{"sub":"u1","iat":\#(now)}"#, .unsupportedHeader,
            "PSS, which no key here is for"
        ),
    ] as [(String, String, TokenError, String)])
func refusesOwnToken(header: String, claims: String, refusal: TokenError, reason: String) async throws {
    let authenticator = try await FakeIssuer().authenticator(.whole)
    let token = try await Signer.secret().token(header, claims)
    #expect(await authenticator.verify(token, at: now) == .refused(refusal), "\(reason)")
}

/// The form of a token, which is checked before its signature.
@Test(
    arguments: [
        ("", "nothing"),
        ("..", "three times nothing"),
        ("a.b", "two parts"),
        ("a.b.c.d", "four parts"),
        ("e30.e30.e30=", "padding"),
        ("e30.e3 0.e30", "white space"),
        ("e30.e30.a", "a length that no Base64 has"),
        ("e30.e30.////", "the other alphabet"),
        (String(repeating: "a", count: 8193), "8193 bytes"),
    ] as [(String, String)])
func refusesForm(text: String, reason: String) async throws {
    let authenticator = try await FakeIssuer().authenticator(.whole)
    let refusal = await authenticator.verify(Text(text), at: now).refusal
    #expect(refusal == .unparsable || refusal == .unsupportedHeader, "\(reason)")
}

/// Every bit of a good token matters: none can be changed without its being refused, and none makes a trap.
@Test func everyChangedBitIsRefused() async throws {
    let issuer = FakeIssuer()
    try issuer.publish([("k1", TestKeys.rsa)])
    let authenticator = try await issuer.authenticator(.whole)
    let good = try await Signer.secret().token(hs, #"{"sub":"u1","iat":\#(now)}"#)
    #expect(await authenticator.verify(good, at: now).identity != nil)
    var bytes = Array(good.string.utf8)
    for index in bytes.indices {
        for bit in 0..<7 {
            bytes[index] ^= 1 << bit
            let changed = Text(String(decoding: bytes, as: UTF8.self))
            #expect(
                await authenticator.verify(changed, at: now).refusal != nil, "bit \(bit) of byte \(index)")
            bytes[index] ^= 1 << bit
        }
    }
}

/// What a good token of an issuer may not be taken for.
@Test func issuersDoNotShareKeys() async throws {
    let issuer = FakeIssuer()
    try issuer.publish([("k1", TestKeys.rsa)])
    let other = "https://other.example.org"
    try issuer.state.withLock { state in
        state.documents[other + "/keys"] = try jwks([("k2", TestKeys.otherRSA)])
    }
    var configuration = IdentityConfiguration.whole
    configuration.issuers.append(
        .init(issuer: Issuer(name: Text(other), audience: "rtdb"), keys: .jwks(other + "/keys")))
    let authenticator = try await issuer.authenticator(configuration)

    let mine = try await Signer.rsa(TestKeys.otherRSA).token(
        #"{"alg":"RS256","kid":"k2"}"#, WorkedCase.idClaims(iss: other))
    #expect(await authenticator.verify(mine, at: now).identity?.issuer == Text(other))
    let forged = try await Signer.rsa(TestKeys.otherRSA).token(
        #"{"alg":"RS256","kid":"k1"}"#, WorkedCase.idClaims())
    #expect(await authenticator.verify(forged, at: now) == .refused(.badSignature), "another issuer's key")
    let unnamed = try await Signer.rsa(TestKeys.otherRSA).token(#"{"alg":"RS256"}"#, WorkedCase.idClaims())
    #expect(
        await authenticator.verify(unnamed, at: now) == .refused(.badSignature),
        "no kid, another issuer's key")
    let unknown = try await Signer.rsa().token(rs, WorkedCase.idClaims(iss: "https://id.example.org/"))
    #expect(await authenticator.verify(unknown, at: now) == .refused(.wrongIssuer), "a slash more")
    let secret = try await Signer.secret().token(#"{"alg":"RS256","kid":"k1"}"#, WorkedCase.idClaims())
    #expect(await authenticator.verify(secret, at: now) == .refused(.badSignature), "an HMAC that says RS256")
}

/// Signed in before the operator said that such tokens are over (auth §5.3).
@Test func revokedSubjects() async throws {
    var configuration = IdentityConfiguration.whole
    configuration.revokedBefore = ["u1": now - 100]
    let authenticator = try await FakeIssuer().authenticator(configuration)
    let signer = try await Signer.secret()
    func verdict(_ claims: String) async throws -> VerificationResult {
        await authenticator.verify(try signer.token(hs, claims), at: now)
    }
    #expect(try await verdict(#"{"sub":"u1","iat":\#(now - 101)}"#) == .refused(.revoked))
    #expect(try await verdict(#"{"sub":"u1","iat":\#(now),"auth_time":\#(now - 101)}"#) == .refused(.revoked))
    #expect(try await verdict(#"{"sub":"u1","iat":\#(now),"auth_time":\#(now - 100)}"#).identity != nil)
    #expect(try await verdict(#"{"sub":"u2","iat":\#(now - 101)}"#).identity != nil)
    #expect(try await verdict(#"{"v":0,"d":{"uid":"u1"},"iat":\#(now - 101)}"#) == .refused(.revoked))
}

/// A live connection ends at `exp`; one let in behind it, within the skew, has the rest of the skew.
@Test func endOfIdentity() async throws {
    let authenticator = try await FakeIssuer().authenticator(.whole)
    let signer = try await Signer.secret()
    for (claims, expires, validUntil) in [
        (#"{"sub":"u1","exp":\#(now + 100)}"#, now + 100, now + 100),
        (#"{"sub":"u1","exp":\#(now - 30)}"#, now - 30, now + 30),
        (#"{"sub":"u1","exp":\#(now + 10).5}"#, now + 10, now + 11),
        (#"{"sub":"u1","iat":\#(now - 5)}"#, now - 5 + 86_400, now - 5 + 86_400),
    ] {
        let identity = await authenticator.verify(try signer.token(hs, claims), at: now).identity
        #expect(identity?.expires == expires)
        #expect(identity?.validUntil == validUntil)
    }
}

/// `kid` only looks up: a name that no key has is refused where keys have names, and says nothing where none
/// has.
@Test func unknownKeyIDs() async throws {
    let other = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
    let signer = try await Signer.secret()
    for (ids, kid, isTaken) in [
        ([nil], "x", true), ([nil, nil], "x", true), (["2026"], "x", false), (["2026"], "2026", true),
        ([nil, "2025"], "x", false), (["2026", "2025"], "../../etc/passwd", false),
        (["2026", nil], "2026", true),
    ] as [([Text?], String, Bool)] {
        var configuration = IdentityConfiguration()
        for (index, id) in ids.enumerated() {
            configuration.secrets.append(
                .init(.environment(index == 0 ? secretText : other, name: "SECRET"), id: id))
        }
        let authenticator = try await FakeIssuer().authenticator(configuration)
        let token = try signer.token(#"{"alg":"HS256","kid":"\#(kid)"}"#, #"{"sub":"u1","iat":\#(now)}"#)
        let verdict = await authenticator.verify(token, at: now)
        #expect(isTaken ? verdict.identity != nil : verdict == .refused(.unknownKey), "\(ids) \(kid)")
    }
}

/// What calls itself something else was signed for something else.
@Test(
    arguments: [
        (#""JWT""#, true), (#""jwt""#, true), (#""at+jwt""#, true), (#""AT+JWT""#, true),
        (#""logout+jwt""#, false),
        (#""secevent+jwt""#, false), (#""""#, false), ("null", false), ("5", false),
    ] as [(String, Bool)])
func typesOfTokens(type: String, isTaken: Bool) async throws {
    let authenticator = try await FakeIssuer().authenticator(.whole)
    let token = try await Signer.secret().token(
        #"{"alg":"HS256","typ":\#(type)}"#, #"{"sub":"u1","iat":\#(now)}"#)
    let verdict = await authenticator.verify(token, at: now)
    #expect(isTaken ? verdict.identity != nil : verdict == .refused(.unsupportedHeader))
}

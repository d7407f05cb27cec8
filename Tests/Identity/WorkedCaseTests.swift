import PandoBytes
import PandoRules
import Testing

@testable import PandoIdentity

/// auth §6, the cases in which a token is looked at. What follows of a verdict (overrides, expiry of live
/// connections, several credentials at once) is tested end to end.
struct WorkedCase: CustomTestStringConvertible, Sendable {
    enum Expected: Sendable {
        case auth(String)
        case refused(TokenError)
    }

    let number: Int
    let token: @Sendable () async throws -> Text
    var isDevelopment = false
    var change: @Sendable (inout IdentityConfiguration) -> Void = { _ in }
    let expected: Expected
    let because: String

    var testDescription: String { "\(number): \(because)" }

    static let rs = #"{"alg":"RS256","kid":"k1","typ":"JWT"}"#
    static let hs = #"{"alg":"HS256","typ":"JWT"}"#

    static func idClaims(
        iss: String = issuerName, aud: String = #""rtdb""#, sub: String? = "u1", exp: Int64 = now + 3000,
        more: String = ""
    ) -> String {
        let subject = sub.map { #","sub":"\#($0)""# } ?? ""
        return #"{"iss":"\#(iss)","aud":\#(aud),"iat":\#(now - 600),"exp":\#(exp)\#(subject)\#(more)}"#
    }

    static func issued(_ header: String, _ claims: String) -> @Sendable () async throws -> Text {
        { try await Signer.rsa().token(header, claims) }
    }

    static func issued(_ claims: String) -> @Sendable () async throws -> Text { issued(rs, claims) }

    static func own(_ claims: String) -> @Sendable () async throws -> Text {
        { try await Signer.secret().token(hs, claims) }
    }

    static let all: [WorkedCase] = [
        WorkedCase(
            number: 2, token: { Text(secretText) }, change: { $0.allowsSecretAsAdmin = true },
            expected: .auth("admin"),
            because: "the secret itself"),
        WorkedCase(
            number: 2, token: { Text(secretText) }, expected: .refused(.unparsable),
            because: "the secret itself, without --allow-secret-as-admin"),
        WorkedCase(
            number: 3, token: own(#"{"v":0,"iat":1759999000,"d":{"uid":"u1","x":1}}"#),
            expected: .auth(#"{"uid":"u1","x":1}"#), because: "a legacy token: auth is d"),
        WorkedCase(
            number: 4, token: own(#"{"v":0,"iat":\#(now - 25 * 3600),"d":{"uid":"u1","x":1}}"#),
            expected: .refused(.expired), because: "a day after iat, without exp"),
        WorkedCase(
            number: 5, token: own(#"{"v":0,"iat":1759999000,"d":{"uid":"u1","x":1},"admin":true}"#),
            expected: .auth("admin"), because: "admin of our own secret"),
        WorkedCase(
            number: 6,
            token: {
                try await Signer.hmac(Array(repeating: 7, count: 32))
                    .token(hs, #"{"v":0,"iat":1759999000,"d":{"uid":"u1"}}"#)
            }, expected: .refused(.badSignature), because: "another secret"),
        WorkedCase(
            number: 7, token: issued(idClaims(more: #","firebase":{"sign_in_provider":"password"}"#)),
            expected: .auth(
                #"{"uid":"u1","provider":"password","token":\#(idClaims(more: #","firebase":{"sign_in_provider":"password"}"#))}"#
            ), because: "an ID token"),
        WorkedCase(
            number: 7, token: issued(idClaims()),
            expected: .auth(#"{"uid":"u1","provider":"id.example.org","token":\#(idClaims())}"#),
            because: "an ID token of an issuer that knows nothing of Firebase"),
        WorkedCase(
            number: 7, token: issued(idClaims(aud: #"["x","rtdb"]"#)),
            expected: .auth(
                #"{"uid":"u1","provider":"id.example.org","token":\#(idClaims(aud: #"["x","rtdb"]"#))}"#),
            because: "one audience of several"),
        WorkedCase(
            number: 8, token: issued(idClaims(exp: now - 30)),
            expected: .auth(#"{"uid":"u1","provider":"id.example.org","token":\#(idClaims(exp: now - 30))}"#),
            because: "expired within the skew"),
        WorkedCase(
            number: 8, token: issued(idClaims(exp: now - 30)), change: { $0.clockSkew = 0 },
            expected: .refused(.expired), because: "expired, and no skew"),
        WorkedCase(
            number: 9, token: issued(idClaims(exp: now - 300)), expected: .refused(.expired),
            because: "expired"),
        WorkedCase(
            number: 10, token: issued(idClaims(aud: #""another-project""#)),
            expected: .refused(.wrongAudience),
            because: "for another project"),
        WorkedCase(
            number: 11,
            token: {
                try await Signer.hmac(Array(try Signer.publicPEM().utf8)).token(
                    #"{"alg":"HS256","kid":"k1"}"#, idClaims())
            }, expected: .refused(.badSignature), because: "a public key as the secret of an HMAC"),
        WorkedCase(
            number: 12, token: { Text(unsigned(#"{"alg":"none"}"#, idClaims())) },
            expected: .refused(.unsupportedHeader), because: "unsigned"),
        WorkedCase(
            number: 12, token: { Text(unsigned(#"{"alg":"none","type":"JWT"}"#, #"{"sub":"u1"}"#)) },
            isDevelopment: true, expected: .auth(#"{"uid":"u1","provider":null,"token":{"sub":"u1"}}"#),
            because: "unsigned, in --dev"),
        WorkedCase(
            number: 13,
            token: { Text(unsigned(#"{"alg":"none","type":"JWT"}"#, #"{"sub":"bob","iat":0,"exp":3600}"#)) },
            isDevelopment: true,
            expected: .auth(#"{"uid":"bob","provider":null,"token":{"sub":"bob","iat":0,"exp":3600}}"#),
            because: "the emulator's helper writes 1970"),
        WorkedCase(
            number: 14, token: { "owner" }, isDevelopment: true, expected: .auth("admin"),
            because: "owner in --dev"),
        WorkedCase(number: 14, token: { "owner" }, expected: .refused(.unparsable), because: "owner"),
        WorkedCase(
            number: 18, token: issued(#"{"alg":"RS256","kid":"../../etc/passwd"}"#, idClaims()),
            expected: .refused(.unknownKey), because: "a kid that is a path"),
        WorkedCase(
            number: 20, token: issued(idClaims(sub: nil)), expected: .refused(.badSubject),
            because: "no subject"),
        WorkedCase(
            number: 20, token: issued(idClaims(sub: nil, more: #","user_id":"u1""#)),
            expected: .refused(.badSubject),
            because: "no subject but another claim"),
        WorkedCase(
            number: 21,
            token: issued(
                #"{"iss":"a@example.org","sub":"a@example.org","aud":"https://identitytoolkit.googleapis.com/google.identity.identitytoolkit.v1.IdentityToolkit","iat":\#(now),"exp":\#(now + 3600),"uid":"u1"}"#
            ), expected: .refused(.wrongIssuer), because: "a custom token"),
        WorkedCase(
            number: 21,
            token: own(
                #"{"sub":"a@example.org","aud":"https://identitytoolkit.googleapis.com/google.identity.identitytoolkit.v1.IdentityToolkit","iat":\#(now),"exp":\#(now + 3600),"uid":"u1"}"#
            ), expected: .refused(.notForDatabase), because: "a custom token that our secret has signed"),
        WorkedCase(
            number: 22, token: issued(idClaims(more: #","admin":true"#)),
            expected: .auth(
                #"{"uid":"u1","provider":"id.example.org","token":\#(idClaims(more: #","admin":true"#))}"#),
            because: "admin is a word like any other"),
        WorkedCase(
            number: 22, token: issued(idClaims(more: #","boss":true"#)),
            change: { $0.issuers[0].issuer.adminClaim = "boss" }, expected: .auth("admin"),
            because: "the claim that the operator has named"),
        WorkedCase(
            number: 22, token: issued(idClaims(more: #","boss":"true""#)),
            change: { $0.issuers[0].issuer.adminClaim = "boss" },
            expected: .auth(
                #"{"uid":"u1","provider":"id.example.org","token":\#(idClaims(more: #","boss":"true""#))}"#),
            because: "text that says true is not true"),
    ]
}

@Test(arguments: WorkedCase.all)
func workedCase(_ row: WorkedCase) async throws {
    let issuer = FakeIssuer()
    try issuer.publish([("k1", TestKeys.rsa)])
    var configuration = IdentityConfiguration.whole
    configuration.acceptsDevelopmentTokens = row.isDevelopment
    row.change(&configuration)
    let authenticator = try await issuer.authenticator(configuration)
    let verdict = await authenticator.verify(try await row.token(), at: now)
    switch row.expected {
    case .auth(let auth): #expect(verdict.auth == auth, "\(verdict)")
    case .refused(let refusal): #expect(verdict == .refused(refusal))
    }
}

/// A public key must not be accepted as a secret for HS256. The bytes that a library would use are tried:
/// PEM, DER and the JWK.
@Test func publicKeyIsNotUsedAsSecret() async throws {
    let issuer = FakeIssuer()
    try issuer.publish([("k1", TestKeys.rsa)])
    var configuration = IdentityConfiguration.whole
    configuration.secrets = []
    let authenticator = try await issuer.authenticator(configuration)
    for key in [Array(try Signer.publicPEM().utf8), Array(try jwks([("k1", TestKeys.rsa)]).utf8)] {
        let token = try await Signer.hmac(key).token(#"{"alg":"HS256","kid":"k1"}"#, WorkedCase.idClaims())
        #expect(await authenticator.verify(token, at: now) == .refused(.unknownKey))
    }
}

import PandoBytes
import Testing

@testable import PandoIdentity

private func token(_ header: String, _ claims: String, _ signature: String = "") -> Text {
    Text(unsigned(header, claims) + signature)
}

private let none = #"{"alg":"none","type":"JWT"}"#

/// What `--dev` takes, at once and without a key; without it, nothing of that.
@Test(
    arguments: [
        (
            token(none, #"{"sub":"bob","iat":0,"exp":3600}"#),
            #"{"uid":"bob","provider":null,"token":{"sub":"bob","iat":0,"exp":3600}}"#,
            "times are not looked at (auth §2.5)"
        ),
        (
            token(none, #"{"user_id":"u","firebase":{"sign_in_provider":"custom"}}"#),
            #"{"uid":"u","provider":"custom","token":{"user_id":"u","firebase":{"sign_in_provider":"custom"}}}"#,
            "the provider is a claim"
        ),
        (
            "eyJhbGciOiJub25lIiwidHlwZSI6IkpXVCJ9.eyJzdWIiOiJib2I/fn5+In0=.",
            #"{"uid":"bob?~~~","provider":null,"token":{"sub":"bob?~~~"}}"#,
            "standard Base64 with padding: older helpers"
        ),
        (
            "eyJhbGciOiJub25lIn0=.eyJzdWIiOiJ1In0=.", #"{"uid":"u","provider":null,"token":{"sub":"u"}}"#,
            "padding in both parts"
        ),
        ("eyJhbGciOiJub25lIn0==.eyJzdWIiOiJ1In0=.", nil, "too much padding"),
        ("eyJhbGciOiJub25lIn0=.eyJzdWIiOiJ1In0=.c2k=", nil, "padded, and with a signature"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ1In0=.", nil, "padded, and signed, it says"),
        ("owner", "admin", "the emulator's word"),
        ("Owner", nil, "another word"),
        (token(none, #"{"iat":0}"#), nil, "no subject"),
        (token(none, #"{"sub":""}"#), nil, "an empty subject"),
        (token(none, #"{"sub":7}"#), nil, "a subject is text"),
        (token(none, #"{"sub":"bob"}"#, "c2ln"), nil, "a signature that cannot be checked"),
        (token(#"{"alg":"HS256"}"#, #"{"sub":"bob"}"#), nil, "signed, it says"),
        (token(#"{"alg":"none"}"#, "[]"), nil, "claims are an object"),
        (token("7", #"{"sub":"bob"}"#), nil, "so is the header"),
        (token(none, #"{"sub":"bob""#), nil, "broken JSON"),
        (token(none, #"{"sub":"\#(String(repeating: "x", count: 9000))"}"#), nil, "too long"),
        ("a.b", nil, "two parts"),
        ("a.b.c.d", nil, "four parts"),
        ("", nil, "nothing"),
        ("....", nil, "dots"),
        ("é.é.", nil, "no Base64"),
    ] as [(Text, String?, String)])
func unsignedTokens(token: Text, auth: String?, because: String) async throws {
    var configuration = IdentityConfiguration()
    let locked = try await FakeIssuer().authenticator(configuration)
    #expect(locked.verifyAtOnce(token)?.refusal != nil, "no key is configured")
    configuration.acceptsDevelopmentTokens = true
    let open = try await FakeIssuer().authenticator(configuration)
    let verdict = try #require(open.verifyAtOnce(token), "nothing to wait for")
    #expect(verdict.auth == auth, "\(because)")
}

import PandoBytes
import PandoWire
import Testing

@testable import PandoServer

@Suite struct TokenTests {
    private static func token(_ header: String, _ claims: String, _ signature: String = "") -> Text {
        func part(_ text: String) -> String {
            var bytes: [UInt8] = []
            bytes.append(base64: Array(text.utf8).rawSpan, alphabet: .urlSafe)
            return String(decoding: bytes, as: UTF8.self)
        }
        return Text("\(part(header)).\(part(claims)).\(signature)")
    }

    private static let none = #"{"alg":"none","type":"JWT"}"#

    @Test(arguments: [
        (
            token(none, #"{"sub":"bob","iat":0,"exp":3600}"#),
            #"{"uid":"bob","provider":null,"token":{"sub":"bob","iat":0,"exp":3600}}"#,
            "times are not looked at (auth.md §2.5)"
        ),
        (
            token(none, #"{"user_id":"u","firebase":{"sign_in_provider":"custom"}}"#),
            #"{"uid":"u","provider":"custom","token":{"user_id":"u","firebase":{"sign_in_provider":"custom"}}}"#,
            "the provider is a claim"
        ),
        (token(none, #"{"iat":0}"#), nil, "no subject"),
        (token(none, #"{"sub":""}"#), nil, "an empty subject"),
        (token(none, #"{"sub":7}"#), nil, "a subject is text"),
        (token(none, #"{"sub":"bob"}"#, "c2ln"), nil, "a signature that nobody can check"),
        (token(#"{"alg":"HS256"}"#, #"{"sub":"bob"}"#), nil, "signed, it says"),
        (token(#"{"alg":"none"}"#, "[]"), nil, "claims are an object"),
        (token("7", #"{"sub":"bob"}"#), nil, "so is the header"),
        (token(none, #"{"sub":"bob""#), nil, "broken JSON"),
        ("a.b", nil, "two parts"),
        ("a.b.c.d", nil, "four parts"),
        ("", nil, "nothing"),
        ("....", nil, "dots"),
        ("é.é.", nil, "no Base64"),
    ] as [(Text, Text?, String)])
    func unsignedTokens(token: Text, authVariable: Text?, because: String) {
        #expect(UnsignedToken(token)?.authVariable == authVariable, "\(because)")
    }

    /// What a credential makes of a session, as text.
    private func verdict(_ credential: PandoWire.Credential, development: Bool) -> String {
        var said = "nothing"
        TokenVerifier(acceptsDevelopmentTokens: development).verify(credential) { verdict in
            switch verdict {
            case .accepted(let credential, _):
                said = credential.isAdmin ? "admin" : credential.authVariable?.string ?? "anonymous"
            case .refused: said = "refused"
            }
        }
        return said
    }

    @Test func developmentCredentials() {
        #expect(verdict(.init(token: "owner"), development: true) == "admin")
        #expect(verdict(.init(token: "owner", isUnauthenticated: true), development: true) == "anonymous")
        #expect(verdict(.init(token: "owner", authVariable: .string("x")), development: true) == "\"x\"")
        #expect(verdict(.init(token: "nonsense"), development: true) == "refused")
        let huge = Self.token(Self.none, "{\"sub\":\"\(String(repeating: "x", count: 9000))\"}")
        #expect(verdict(.init(token: huge), development: true) == "refused")
    }

    @Test func nothingOfThatWithoutDev() {
        #expect(verdict(.init(token: "owner"), development: false) == "refused")
        let token = Self.token(Self.none, #"{"sub":"bob"}"#)
        #expect(verdict(.init(token: token), development: false) == "refused")
    }
}

import Foundation
import PandoBytes
import Testing

@testable import PandoIdentity

private let hex = String(repeating: "0f", count: 32)

@Test(
    arguments: [
        (hex, nil, 32, "hex"),
        (secretText, nil, 38, "Base64"),
        ("\n  \(secretText)\n", nil, 38, "white space around it"),
        ("_-_-" + String(repeating: "A", count: 40), nil, 33, "the URL's alphabet"),
        ("abcdefghijklmnopqrstuvwxyz0123456789ABCD", nil, 40, "40 letters: a database secret, raw"),
        (hex, .raw, 64, "raw by order"),
        (hex, .base64, 48, "Base64 by order"),
        (String(repeating: "0f", count: 31), nil, 62, "hex of 31 bytes: raw"),
        (String(repeating: "0f", count: 31), .hex, nil, "31 bytes by order"),
        ("short", nil, nil, "5 bytes"),
        ("", nil, nil, "nothing"),
        ("not Base64 at all, but long enough to be one", .base64, nil, "another encoding than was said"),
    ] as [(String, Secret.Encoding?, Int?, String)])
func secrets(written: String, encoding: Secret.Encoding?, byteCount: Int?, reason: String) {
    let secret = try? Secret(written: Array(written.utf8), encoding: encoding, id: nil)
    #expect(secret?.bytes.count == byteCount, "\(reason)")
    if let secret {
        var printed = ""
        dump(secret, to: &printed)
        #expect(!("\(secret) \(printed)".contains(written.prefix(8))), "a secret prints itself")
    }
}

@Test func readsTheAuthObject() throws {
    let json = #"""
        {"secrets":[{"id":"2026","file":"/etc/pando/secret"},{"file":"b","encoding":"raw"}],
         "key_files":[{"file":"k.pem","issuer":"me","audience":"rtdb","provider":"p"}],
         "issuers":[{"issuer":"https://id.example.org","audience":"rtdb","jwks":"auto","provider":"example",
                     "sign_in_provider":"google.com","admin_claim":"db_admin"},
                    {"issuer":"x","audience":"y","jwks":"https://x.example.org/keys"},
                    {"issuer":"x","audience":"y","certificates":"https://x.example.org/certs"}],
         "firebase_project":"demo","allow_secret_as_admin":true,"clock_skew_s":5,"max_token_bytes":4096,
         "failures_per_minute":9,"revoked_before":{"u.1":1700000000}}
        """#
    var configuration = IdentityConfiguration()
    var problems: [String] = []
    configuration.read(try #require(JSONObject(Array(json.utf8))), &problems)
    #expect(problems.isEmpty && configuration.problems.isEmpty)
    #expect(configuration.secrets.map(\.id) == ["2026", nil])
    #expect(configuration.secrets.map(\.encoding) == [nil, .raw])
    #expect(configuration.keyFiles.map(\.issuer) == [Issuer(name: "me", audience: "rtdb", provider: "p")])
    #expect(
        configuration.issuers.map(\.keys) == [
            .discovery, .jwks("https://x.example.org/keys"), .certificates("https://x.example.org/certs"),
            .certificates(IdentityConfiguration.firebaseCertificates),
        ])
    #expect(
        configuration.issuers[0].issuer
            == Issuer(
                name: "https://id.example.org", audience: "rtdb", provider: "example",
                signInProvider: "google.com",
                adminClaim: "db_admin"))
    #expect(configuration.issuers[3].issuer.name == "https://securetoken.google.com/demo")
    #expect(configuration.clockSkew == 5 && configuration.tokenByteLimit == 4096)
    #expect(configuration.failuresPerMinute == 9 && configuration.allowsSecretAsAdmin)
    #expect(configuration.revokedBefore == ["u.1": 1_700_000_000])
}

/// Every problem is said, with its place.
@Test func problemsOfTheAuthObject() throws {
    let json = #"""
        {"secret":[],"secrets":[{"id":"2026"},{"file":"b","encoding":"rot13","colour":"red"},5],"key_files":{},
         "issuers":[{"issuer":"http://id.example.org","audience":"rtdb"},{"issuer":"https://x.example.org"},
                    {"issuer":"x","audience":"y","jwks":"https://a","certificates":"https://b"}],
         "firebase_project":"","allow_secret_as_admin":"yes","clock_skew_s":61,"max_token_bytes":"8192"}
        """#
    var configuration = IdentityConfiguration()
    var problems: [String] = []
    configuration.read(try #require(JSONObject(Array(json.utf8))), &problems)
    problems += configuration.problems
    for word in [
        "auth.secret: ", "auth.secrets[0].file: missing", "auth.secrets[1].encoding",
        "auth.secrets[1].colour",
        "auth.secrets[2]", "auth.key_files", "http://id.example.org", "auth.issuers[1].audience: missing",
        "auth.issuers[2].certificates", "auth.firebase_project", "auth.allow_secret_as_admin", "clock-skew",
        "max_token_bytes",
    ] { #expect(problems.contains { $0.contains(word) }, "\(word)") }
}

@Test func allUnreadableFilesAreReported() async throws {
    var configuration = IdentityConfiguration()
    configuration.secrets = [
        .init(.file("/nonexistent/a")), .init(.environment("short", name: "PANDO_AUTH_SECRET")),
    ]
    configuration.keyFiles = [.init(path: "/nonexistent/b", issuer: Issuer(name: "x", audience: "y"))]
    var error: UnusableIdentity?
    do throws(UnusableIdentity) {
        _ = try await Authenticator(configuration) { _ in }
    } catch let found {
        error = found
    }
    #expect(error?.problems.count == 3)
    #expect(error?.description.contains("short") == false, "a secret is quoted")
}

/// Keys that are changed on the disk count without a restart; broken ones do not.
@Test func filesAreReadAgain() async throws {
    let path = NSTemporaryDirectory() + "pando-secret-\(UInt64.random(in: 0...UInt64.max))"
    defer { try? FileManager.default.removeItem(atPath: path) }
    let texts = [hex, String(repeating: "1e", count: 32)]
    try Data(texts[0].utf8).write(to: URL(fileURLWithPath: path))
    var configuration = IdentityConfiguration()
    configuration.secrets = [.init(.file(path))]
    let issuer = FakeIssuer()
    let authenticator = try await issuer.authenticator(configuration)
    let claims = #"{"sub":"u1","iat":\#(now)}"#
    let tokens = try await [Signer.secret(texts[0]), Signer.secret(texts[1])].map {
        try $0.token(WorkedCase.hs, claims)
    }
    func accepted() async -> [Bool] {
        issuer.advance(.seconds(3))
        return [
            await authenticator.verify(tokens[0], at: now).identity != nil,
            await authenticator.verify(tokens[1], at: now).identity != nil,
        ]
    }
    #expect(await accepted() == [true, false])
    try Data((texts[1] + "\n").utf8).write(to: URL(fileURLWithPath: path))
    #expect(await accepted() == [false, true])
    try Data("short".utf8).write(to: URL(fileURLWithPath: path))
    #expect(await accepted() == [false, true])
    #expect(issuer.state.withLock { $0.reports.count } == 1)
}

/// Beside a secret with an id, a `kid` that is not its id is refused; one without `kid` is tried with both.
@Test func secretsByKeyID() async throws {
    var configuration = IdentityConfiguration()
    configuration.secrets = [
        .init(.environment(hex, name: "A"), id: "2025"), .init(.environment(secretText, name: "B")),
    ]
    let authenticator = try await FakeIssuer().authenticator(configuration)
    let (named, unnamed) = (try await Signer.secret(hex), try await Signer.secret())
    for (signer, kid, isAccepted) in [
        (named, #","kid":"2025""#, true), (named, "", true), (named, #","kid":"2024""#, false),
        (unnamed, #","kid":"2025""#, false), (unnamed, "", true), (unnamed, #","kid":"2024""#, false),
    ] {
        let token = try signer.token(#"{"alg":"HS256"\#(kid)}"#, #"{"sub":"u1","iat":\#(now)}"#)
        #expect((await authenticator.verify(token, at: now).identity != nil) == isAccepted)
    }
}

@Test func failuresAreCounted() async throws {
    var configuration = IdentityConfiguration.whole
    configuration.failuresPerMinute = 3
    let issuer = FakeIssuer()
    let authenticator = try await issuer.authenticator(configuration)
    let signer = try await Signer.secret()
    let good = try signer.token(WorkedCase.hs, #"{"sub":"u1","iat":\#(now)}"#)
    let late = try signer.token(WorkedCase.hs, #"{"sub":"u1","exp":\#(now - 300)}"#)
    for _ in 0..<5 { #expect(await authenticator.verify(late, at: now, from: "a") == .refused(.expired)) }
    for _ in 0..<3 { #expect(await authenticator.verify("x", at: now, from: "a") == .refused(.unparsable)) }
    #expect(await authenticator.verify("x", at: now, from: "a") == .refused(.tooManyFailures))
    #expect(
        await authenticator.verify(good, at: now, from: "a").identity != nil,
        "another client at the same address")
    #expect(await authenticator.verify(late, at: now, from: "a") == .refused(.expired))
    #expect(await authenticator.verify("x", at: now, from: "a") == .refused(.tooManyFailures))
    #expect(await authenticator.verify("x", at: now, from: "b") == .refused(.unparsable))
    #expect(await authenticator.verify(good, at: now, from: "b").identity != nil)
    #expect(await authenticator.verify(good, at: now).identity != nil)
    issuer.advance(.seconds(61))
    #expect(await authenticator.verify(good, at: now, from: "a").identity != nil)
}

/// An issuer is not asked for made-up keys on behalf of an address with too many failures; its good tokens
/// are taken.
@Test func limitedAddressesOfAnIssuer() async throws {
    var configuration = IdentityConfiguration.whole
    configuration.failuresPerMinute = 1
    let issuer = FakeIssuer()
    try issuer.publish([("k1", TestKeys.rsa)])
    let authenticator = try await issuer.authenticator(configuration)
    #expect(await authenticator.verify("x", at: now, from: "a") == .refused(.unparsable))
    let good = try await Signer.rsa().token(WorkedCase.rs, WorkedCase.idClaims())
    #expect(
        await authenticator.verify(good, at: now, from: "a").identity != nil,
        "also when its keys are not here yet")
    let madeUp = try await Signer.rsa().token(#"{"alg":"RS256","kid":"k9"}"#, WorkedCase.idClaims())
    #expect(await authenticator.verify(madeUp, at: now, from: "a") == .refused(.tooManyFailures))
    #expect(issuer.keyRequestCount == 1)
}

@Test func countedAddressesAreBounded() {
    let limit = FailureLimit(perMinute: 2)
    var refusals = 0
    // An address with recent failures stays in the table, however many others come once.
    for index in 0..<(4 * FailureLimit.addressLimit) {
        #expect(limit.countFailure(of: Text("\(index)"), now: .zero))
        if !limit.countFailure(of: "192.0.2.1", now: .zero) { refusals += 1 }
    }
    #expect(refusals == 4 * FailureLimit.addressLimit - 2)
    #expect(limit.addressCount == FailureLimit.addressLimit)
    #expect(!limit.countFailure(of: "192.0.2.1", now: .seconds(59)))
    #expect(limit.countFailure(of: "192.0.2.1", now: .seconds(60)))
    limit.removeFailure(of: "192.0.2.1", now: .seconds(60))
    #expect(
        limit.countFailure(of: "192.0.2.1", now: .seconds(60))
            && limit.countFailure(of: "192.0.2.1", now: .seconds(60)))
    #expect(!limit.countFailure(of: "192.0.2.1", now: .seconds(60)))
}

@Test(
    arguments: [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", true), ("2001:db8:1:2::1", "2001:db8:1:3::1", false),
        ("192.0.2.1", "192.0.2.1", true), ("192.0.2.1", "192.0.2.2", false),
        ("::ffff:192.0.2.1", "192.0.2.1", true),
        ("fe80::1%eth0", "fe80::2", true), ("?", "?", true), ("?", "!", false),
    ] as [(String, String, Bool)])
func addressesCountedTogether(one: String, other: String, isSame: Bool) {
    #expect((AddressGroup(Text(one)) == AddressGroup(Text(other))) == isSame)
}

@Test func acceptedTokensAreCached() async throws {
    let authenticator = try await FakeIssuer().authenticator(.whole)
    let token = try await Signer.secret().token(WorkedCase.hs, #"{"sub":"u1","exp":\#(now + 50)}"#)
    let identity = try #require(await authenticator.verify(token, at: now).identity)
    let digest = SHA256Digest(of: token)
    var cache = VerificationCache()
    #expect(cache.identity(of: digest, at: now, now: .zero) == nil)
    cache.store(identity, of: digest, at: now, now: .zero)
    #expect(cache.identity(of: digest, at: now, now: .seconds(59)) == identity)
    #expect(cache.identity(of: SHA256Digest(of: "x"), at: now, now: .zero) == nil)
    #expect(cache.identity(of: digest, at: now, now: .seconds(60)) == nil, "a minute is over")
    #expect(cache.identity(of: digest, at: now + 50, now: .seconds(1)) == nil, "its own time is over")
    cache.store(identity, of: SHA256Digest(of: "late"), at: now + 50, now: .zero)
    #expect(cache.count == 1)
    for index in 0..<(2 * VerificationCache.tokenLimit) {
        cache.store(identity, of: SHA256Digest(of: Text("\(index)")), at: now, now: .zero)
    }
    #expect(cache.count == VerificationCache.tokenLimit)
    cache.removeAll()
    #expect(cache.count == 0 && cache.identity(of: digest, at: now, now: .zero) == nil)
}

@Test func digests() {
    #expect(
        SHA256Digest(of: "abc").description
            == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
}

@Test func mintedTokensAreAccepted() async throws {
    let authenticator = try await FakeIssuer().authenticator(.whole)
    let secret = try Secret(written: Array(secretText.utf8), encoding: nil, id: nil)
    let mint = TokenMint(uid: "alice", lifetime: 3600, claims: [("role", Array(#""admin""#.utf8))])
    let identity = await authenticator.verify(try await mint.token(signedWith: secret, at: now), at: now)
        .identity
    #expect(identity?.expires == now + 3600 && identity?.subject == "alice")
    #expect(identity?.credential.isAdmin == false)
    #expect(identity?.credential.authVariable?.string.contains(#""role":"admin""#) == true)
    #expect(
        identity?.credential.authVariable?.string.hasPrefix(#"{"uid":"alice","provider":"custom","token":"#)
            == true)
    let admin = TokenMint(uid: nil, lifetime: 60, isAdmin: true)
    #expect(
        await authenticator.verify(try await admin.token(signedWith: secret, at: now), at: now).auth
            == "admin")
    #expect(
        TokenMint(uid: nil, lifetime: 0, claims: [("iss", []), ("a", []), ("a", [])]).problems.count == 4)
    for uid in ["", "a/", "/", "a.b", "$a", "[a]", "a#", "a\u{1}"] as [Text] {
        #expect(TokenMint(uid: uid, lifetime: 60).problems.count == 1, "\(uid.string)")
    }
    #expect(TokenMint(uid: "ann@home: é", lifetime: 60).problems.isEmpty)
}

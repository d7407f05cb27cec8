import PandoBytes
import Testing

@testable import PandoIdentity

private let claims = WorkedCase.idClaims()

/// One issuer, a token by each of its keys, and its requests.
private struct World {
    let issuer = FakeIssuer()
    let authenticator: Authenticator
    let old: Text
    let new: Text
    let madeUp: Text

    init() async throws {
        try issuer.publish([("k1", TestKeys.rsa)])
        authenticator = try await issuer.authenticator(.whole)
        old = try await Signer.rsa().token(#"{"alg":"RS256","kid":"k1"}"#, claims)
        new = try await Signer.rsa(TestKeys.otherRSA).token(#"{"alg":"RS256","kid":"k2"}"#, claims)
        madeUp = try await Signer.rsa(TestKeys.otherRSA).token(#"{"alg":"RS256","kid":"k3"}"#, claims)
    }

    func verdict(_ token: Text) async -> VerificationResult { await authenticator.verify(token, at: now) }
}

@Test func fetchesOnceWhileFresh() async throws {
    let world = try await World()
    for _ in 0..<3 { #expect(await world.verdict(world.old).identity != nil) }
    #expect(world.issuer.keyRequestCount == 1)
    world.issuer.advance(.seconds(3601))
    #expect(await world.verdict(world.old).identity != nil)
    await world.issuer.until { $0.keyRequestCount == 2 }  // an hour, where the issuer does not say
}

/// No verification waits for an issuer whose keys are cached.
@Test func hangingIssuer() async throws {
    let world = try await World()
    #expect(await world.verdict(world.old).identity != nil)
    world.issuer.advance(.seconds(3601))
    world.issuer.hang()
    for _ in 0..<20 { #expect(await world.verdict(world.old).identity != nil) }
    await world.issuer.until { $0.held?.count == 1 }
    #expect(await world.verdict(world.old).identity != nil)
    #expect(world.issuer.keyRequestCount == 2, "one fetch")
    // A token with a missing key waits for the same fetch.
    try world.issuer.publish([("k1", TestKeys.rsa), ("k2", TestKeys.otherRSA)])
    async let waits = world.verdict(world.new)
    #expect(await world.verdict(world.old).identity != nil)
    world.issuer.answer()
    let verdict = await waits
    #expect(
        verdict == .refused(.unknownKey) || verdict.identity != nil, "of the set under way, or of the next")
}

/// Each failure doubles the time until the next fetch, up to the longest.
@Test func failuresBackOff() async throws {
    let world = try await World()
    #expect(await world.verdict(world.old).identity != nil)
    world.issuer.state.withLock { $0.isDown = true }
    world.issuer.advance(.seconds(3601))
    var expected = 2
    for seconds in [10, 20, 40, 80, 80] {
        _ = await world.verdict(world.old)
        await world.issuer.until { [expected] in $0.requests.count == expected + 1 }
        await world.issuer.untilIdle(world.authenticator)
        world.issuer.advance(.seconds(seconds - 1))
        #expect(await world.verdict(world.old).identity != nil)
        await world.issuer.untilIdle(world.authenticator)
        #expect(world.issuer.state.withLock { $0.requests.count } == expected + 1, "\(seconds) s")
        world.issuer.advance(.seconds(1))
        expected += 1
    }
}

/// max-age counts, between five minutes and an hour less than a day.
@Test(
    arguments: [
        (0, 299, 301), (60, 299, 301), (1000, 999, 1001), (1 << 31, 82_799, 82_801),
    ] as [(Int, Int, Int)])
func maxAge(seconds: Int, fresh: Int, stale: Int) async throws {
    let world = try await World()
    world.issuer.state.withLock { $0.maxAge = .seconds(seconds) }
    _ = await world.verdict(world.old)
    world.issuer.advance(.seconds(fresh))
    _ = await world.verdict(world.old)
    #expect(world.issuer.keyRequestCount == 1)
    world.issuer.advance(.seconds(stale - fresh))
    _ = await world.verdict(world.old)
    await world.issuer.until { $0.keyRequestCount == 2 }
}

/// Case 19, and invented key ids.
@Test func unknownKeyIsFetchedOnceAMinute() async throws {
    let world = try await World()
    #expect(await world.verdict(world.old).identity != nil)
    try world.issuer.publish([("k1", TestKeys.rsa), ("k2", TestKeys.otherRSA)])
    #expect(await world.verdict(world.new).identity != nil, "one refresh, then accept")
    #expect(world.issuer.keyRequestCount == 2)
    for _ in 0..<5 { #expect(await world.verdict(world.madeUp) == .refused(.unknownKey)) }
    #expect(world.issuer.keyRequestCount == 2)
    world.issuer.advance(.seconds(61))
    for _ in 0..<5 { #expect(await world.verdict(world.madeUp) == .refused(.unknownKey)) }
    #expect(world.issuer.keyRequestCount == 3)
}

/// A verification during a fetch waits for that fetch.
@Test func oneFetchForMany() async throws {
    let world = try await World()
    await withTaskGroup { group in
        for _ in 0..<50 { group.addTask { await world.verdict(world.old).identity != nil } }
        for await accepted in group { #expect(accepted) }
    }
    #expect(world.issuer.keyRequestCount == 1)
}

/// Invented key ids, or an issuer that has not responded yet: few wait for its fetch, so that they do not
/// take the places of all verifications. Known keys are not affected.
@Test(arguments: [true, false]) func fewWaitForAFetch(hasSet: Bool) async throws {
    let issuer = FakeIssuer()
    try issuer.publish([("k1", TestKeys.rsa)])
    let keys = IssuerKeys(
        IdentityConfiguration.whole.issuers[0],
        fetch: { url throws(FetchError) in try await issuer.fetch(url) },
        now: { issuer.state.withLock { $0.time } }, report: { _ in })
    if hasSet { _ = try await keys.keys(for: "k1") }
    issuer.hang()
    let limit = hasSet ? IssuerKeys.unknownKeyWaitingLimit : IssuerKeys.waitingLimit
    await withTaskGroup(of: Void.self) { group in
        for number in 0..<limit {
            group.addTask { _ = try? await keys.keys(for: Text("invented \(number)")) }
        }
        while await keys.waitingCount < limit { await Task.yield() }
        await #expect(throws: TokenError.keysUnavailable) { try await keys.keys(for: "k2") }
        if hasSet { #expect((try? await keys.keys(for: "k1")) != nil) }
        issuer.answer()
    }
    #expect(await keys.waitingCount == 0)
    #expect((try? await keys.keys(for: "k1")) != nil)
}

/// The last good set is used for a day.
@Test func issuerIsDown() async throws {
    let world = try await World()
    #expect(await world.verdict(world.old).identity != nil)
    world.issuer.state.withLock { $0.isDown = true }
    world.issuer.advance(.seconds(23 * 3600))
    #expect(await world.verdict(world.old).identity != nil)
    await world.issuer.untilIdle(world.authenticator)
    #expect(await world.verdict(world.old).identity != nil)
    await world.issuer.untilIdle(world.authenticator)
    #expect(world.issuer.state.withLock { $0.requests.count } == 3, "no second request at once")
    #expect(world.issuer.state.withLock { $0.reports.count } == 1, "said once")
    world.issuer.advance(.seconds(3601))
    #expect(await world.verdict(world.old) == .refused(.keysUnavailable))
    world.issuer.state.withLock { $0.isDown = false }
    #expect(
        await world.verdict(world.old) == .refused(.keysUnavailable),
        "twenty seconds after the second failure")
    world.issuer.advance(.seconds(21))
    #expect(await world.verdict(world.old).identity != nil)
}

/// A discovery document with another issuer is refused.
@Test(
    arguments: [
        (#"{"issuer":"https://evil.example.org","jwks_uri":"\#(issuerName)/keys"}"#, "another issuer"),
        (#"{"issuer":"\#(issuerName)","jwks_uri":"http://127.0.0.1/keys"}"#, "keys without TLS"),
        (#"{"issuer":"\#(issuerName)","jwks_uri":"file:///etc/keys"}"#, "keys in a file"),
        (#"{"issuer":"\#(issuerName)"}"#, "no keys"),
        (#"[]"#, "no object"),
    ] as [(String, String)])
func discovery(document: String, reason: String) async throws {
    let world = try await World()
    world.issuer.state.withLock { $0.documents[issuerName + "/.well-known/openid-configuration"] = document }
    #expect(await world.verdict(world.old) == .refused(.keysUnavailable), "\(reason)")
    #expect(world.issuer.keyRequestCount == 0)
}

@Test(
    arguments: [
        ("https://id.example.org", true), ("http://127.0.0.1:8080/x", true), ("http://localhost/", true),
        ("http://[::1]:80/", true), ("http://id.example.org", false), ("http://127.0.0.1.example.org", false),
        ("http://10.0.0.1/", false), ("file:///etc/passwd", false), ("", false), ("id.example.org", false),
        ("https://user@id.example.org/", false), ("ftp://id.example.org/", false),
    ] as [(String, Bool)])
func fetchAddresses(text: String, isAllowed: Bool) {
    #expect((FetchURL(text) != nil) == isAllowed)
}

import Foundation
import PandoBytes
import Synchronization
import Testing

@testable import PandoIdentity

/// A file that goes away with the test.
private final class Folder {
    let path = FileManager.default.temporaryDirectory.appendingPathComponent("pando-\(UUID().uuidString)")
        .path

    init() throws { try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true) }
    deinit { try? FileManager.default.removeItem(atPath: path) }

    func write(_ name: String, _ text: String) throws -> String {
        try Data(text.utf8).write(to: URL(fileURLWithPath: path + "/" + name))
        return path + "/" + name
    }
}

private let otherSecret = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

/// Identities of a removed secret or key are revoked; those of other keys are not.
@Test func removedKeysEndTheirIdentities() async throws {
    let folder = try Folder()
    var configuration = IdentityConfiguration()
    configuration.allowsSecretAsAdmin = true
    configuration.secrets = [
        .init(.file(try folder.write("a", secretText))), .init(.file(try folder.write("b", otherSecret))),
    ]
    configuration.keyFiles = [
        .init(
            path: try folder.write("keys", try jwks([("k1", TestKeys.rsa)])),
            issuer: Issuer(name: Text(issuerName), audience: "rtdb"))
    ]
    let issuer = FakeIssuer()
    let authenticator = try await issuer.authenticator(configuration)
    let changes = Mutex<[RevocationState]>([])
    authenticator.onRevocationChange { revocations in changes.withLock { $0.append(revocations) } }
    func identity(_ token: Text) async throws -> Identity {
        try #require(await authenticator.verify(token, at: now).identity)
    }
    let claims = #"{"sub":"u1","iat":\#(now)}"#
    let mine = try await identity(try await Signer.secret().token(WorkedCase.hs, claims))
    let admin = try await identity(Text(secretText))
    let other = try await identity(try await Signer.secret(otherSecret).token(WorkedCase.hs, claims))
    let byFile = try await identity(try await Signer.rsa().token(WorkedCase.rs, WorkedCase.idClaims()))
    for identity in [mine, admin, other, byFile] { #expect(authenticator.revocations.allows(identity)) }
    await authenticator.reload()
    #expect(changes.withLock { $0.isEmpty }, "nothing has changed")

    _ = try folder.write("a", "BBBBAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
    await authenticator.reload()
    #expect(changes.withLock { $0 } == [authenticator.revocations])
    #expect(
        [mine, admin, other, byFile].map(authenticator.revocations.allows) == [false, false, true, true])

    _ = try folder.write("keys", try jwks([("k1", TestKeys.otherRSA)]))
    issuer.advance(.seconds(2))
    await authenticator.reloadIfChanged()
    #expect(
        [mine, admin, other, byFile].map(authenticator.revocations.allows) == [false, false, true, false])

    _ = try folder.write("b", "short")
    await authenticator.reload()
    #expect(authenticator.revocations.allows(other), "after a problem the earlier keys stay")
}

/// A file that could not be read is read again although nothing about it has changed that a stamp shows: as
/// when only its permission has.
@Test func unreadableFileIsReadAgainWithTheSameStamp() async throws {
    let folder = try Folder()
    var configuration = IdentityConfiguration()
    configuration.allowsSecretAsAdmin = true
    let path = try folder.write("a", secretText)
    configuration.secrets = [.init(.file(path))]
    let issuer = FakeIssuer()
    let authenticator = try await issuer.authenticator(configuration)
    let date = Date(timeIntervalSince1970: 1_760_000_000)
    func replace(_ text: String) async throws {
        _ = try folder.write("a", text)
        try FileManager.default.setAttributes([.modificationDate: date], ofItemAtPath: path)
    }
    func check() async {
        issuer.advance(.seconds(2))
        await authenticator.reloadIfChanged()
    }
    let unreadable = "short" + String(repeating: " ", count: otherSecret.utf8.count - 5)
    try await replace(unreadable)
    let stamp = await LocalKeys.stamp(configuration)
    await check()
    await check()
    #expect(issuer.state.withLock { $0.reports.count } == 1, "the same problem is reported once")
    #expect(await authenticator.verify(Text(secretText), at: now).identity != nil, "the earlier key stays")

    try await replace(otherSecret)
    #expect(await LocalKeys.stamp(configuration) == stamp)
    await check()
    #expect(await authenticator.verify(Text(otherSecret), at: now).identity != nil)
    #expect(await authenticator.verify(Text(secretText), at: now).identity == nil)
}

/// `revoked_before` of the configuration file is read again, and counts for identities that were verified
/// before.
@Test func revocationsAreReadAgain() async throws {
    let folder = try Folder()
    func write(_ members: String) throws -> String {
        try folder.write("pando.json", #"{"auth":{\#(members)}}"#)
    }
    var configuration = IdentityConfiguration.whole
    configuration.revocationFile = try write("")
    let authenticator = try await FakeIssuer().authenticator(configuration)
    let signer = try await Signer.secret()
    func identity(_ claims: String) async throws -> Identity {
        try #require(await authenticator.verify(try signer.token(WorkedCase.hs, claims), at: now).identity)
    }
    let identities = [
        try await identity(#"{"sub":"u1","iat":\#(now)}"#),
        try await identity(#"{"sub":"u1","iat":\#(now),"auth_time":\#(now - 60)}"#),
        try await identity(#"{"sub":"u1","exp":\#(now + 60)}"#),
        try await identity(#"{"sub":"u2","iat":\#(now - 60)}"#),
    ]
    #expect(identities.allSatisfy(authenticator.revocations.allows))
    _ = try write(#""revoked_before":{"u1":\#(now - 1)}"#)
    await authenticator.reload()
    #expect(identities.map(authenticator.revocations.allows) == [true, false, false, true])
    let old = try signer.token(WorkedCase.hs, #"{"sub":"u1","iat":\#(now - 60)}"#)
    #expect(await authenticator.verify(old, at: now) == .refused(.revoked))
    _ = try write(#""revoked_before":{"u1":"soon"}"#)
    await authenticator.reload()
    #expect(
        await authenticator.verify(old, at: now) == .refused(.revoked),
        "after a problem the earlier keys stay")
}

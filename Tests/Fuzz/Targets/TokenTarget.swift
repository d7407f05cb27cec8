import PandoBytes
import PandoIdentity

/// Tokens: none is accepted but those that were signed with the secret, whatever is changed in them.
///
/// The corpus has valid tokens of the user `ada`, signed with ``secretText``, among others.
@Sendable func checkToken(_ input: [UInt8]) async throws {
    let token = Text(String(decoding: input, as: UTF8.self))
    if case .accepted(let identity) = await (try authenticators.value).own.verify(token, at: now) {
        try require(identity.subject == "ada" && !identity.credential.isAdmin, "a forged token was accepted")
        try require((identity.validUntil ?? 0) >= now, "an expired token was accepted")
    }
    // Tokens of `--dev` have no signature: any may be accepted, and none may trap.
    if case .accepted(let identity) = await (try authenticators.value).development.verify(token, at: now) {
        try require(token == "owner" || identity.credential.uid != nil, "accepted without a user")
    }
}

/// The secret of the tokens in the corpus, and the time at which they are valid.
private let secretText = "c2VjcmV0IG9mIHRoZSB3b3JrZWQgY2FzZXMsIDMyIGJ5dGVzISE="
private let now: Int64 = 1_760_000_000

private struct Authenticators: Sendable {
    let own: Authenticator
    let development: Authenticator
}

private let authenticators = Task {
    var configuration = IdentityConfiguration()
    configuration.secrets = [.init(.environment(secretText, name: "SECRET"))]
    var development = IdentityConfiguration()
    development.acceptsDevelopmentTokens = true
    return Authenticators(
        own: try await Authenticator(configuration) { _ in },
        development: try await Authenticator(development) { _ in })
}

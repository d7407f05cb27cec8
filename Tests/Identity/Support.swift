import JWTKit
import PandoBytes
import PandoRules
import PandoTree
import Synchronization
import Testing

@testable import PandoIdentity

/// The time of the worked cases (auth §6).
let now: Int64 = 1_760_000_000

/// The secret S of the worked cases, as it stands in its file.
let secretText = "c2VjcmV0IG9mIHRoZSB3b3JrZWQgY2FzZXMsIDMyIGJ5dGVzISE="
let issuerName = "https://id.example.org"

/// Signs anything, also what no library would.
struct Signer: Sendable {
    let algorithm: any JWTAlgorithm

    static func rsa(_ pem: String = TestKeys.rsa, _ digest: DigestAlgorithm = .sha256) async throws -> Signer
    {
        let key = try Insecure.RSA.PrivateKey(pem: pem)
        return Signer(algorithm: try await JWTKeyCollection().add(rsa: key, digestAlgorithm: digest).getKey())
    }

    static func hmac(_ bytes: [UInt8]) async throws -> Signer {
        let keys = await JWTKeyCollection().add(hmac: HMACKey(from: bytes), digestAlgorithm: .sha256)
        return Signer(algorithm: try await keys.getKey())
    }

    static func secret(_ text: String = secretText) async throws -> Signer {
        try await hmac(Secret(written: Array(text.utf8), encoding: nil, id: nil).bytes)
    }

    func token(_ header: String, _ claims: String) throws -> Text {
        let signed = unsigned(header, claims).dropLast()
        let signature = try algorithm.sign(Array(signed.utf8))
        return Text(signed + "." + base64(signature))
    }
}

/// Ends in a dot: the signature is empty.
func unsigned(_ header: String, _ claims: String) -> String {
    base64(Array(header.utf8)) + "." + base64(Array(claims.utf8)) + "."
}

func base64(_ bytes: [UInt8]) -> String {
    var text: [UInt8] = []
    text.append(base64: bytes.rawSpan, alphabet: .urlSafe)
    return String(decoding: text, as: UTF8.self)
}

/// `{"keys":[…]}` of the public halves of RSA keys.
func jwks(_ keys: [(id: String?, pem: String)]) throws -> String {
    let entries = try keys.map { id, pem in
        let primitives = try Insecure.RSA.PrivateKey(pem: pem).publicKey.getKeyPrimitives()
        let name = id.map { #""kid":"\#($0)","# } ?? ""
        return #"{"kty":"RSA",\#(name)"use":"sig","n":"\#(base64(Array(primitives.modulus)))","e":"AQAB"}"#
    }
    return #"{"keys":[\#(entries.joined(separator: ","))]}"#
}

/// An issuer that exists in memory, and a clock that is set by hand.
final class FakeIssuer: Sendable {
    struct State {
        var documents: [String: String] = [:]
        var maxAge: Duration?
        var isDown = false
        var requests: [String] = []
        var time: Duration = .zero
        var reports: [String] = []
        /// Requests that are not answered yet; nil when they are at once.
        var held: [CheckedContinuation<Void, Never>]?

        var keyRequestCount: Int { requests.filter { $0.hasSuffix("/keys") }.count }
    }

    let state = Mutex(State())

    func fetch(_ url: FetchURL) async throws(FetchError) -> FetchedDocument {
        let document: FetchedDocument? = state.withLock { state in
            state.requests.append(url.url.absoluteString)
            guard !state.isDown, let text = state.documents[url.url.absoluteString] else { return nil }
            return FetchedDocument(body: Array(text.utf8), maxAge: state.maxAge)
        }
        // Other calls meanwhile find the fetch in progress.
        await Task.yield()
        await withCheckedContinuation { continuation in
            let isHeld = state.withLock { state in
                state.held?.append(continuation)
                return state.held != nil
            }
            if !isHeld { continuation.resume() }
        }
        guard let document else { throw FetchError(description: "is down") }
        return document
    }

    func publish(_ keys: [(id: String?, pem: String)]) throws {
        let jwks = try jwks(keys)
        state.withLock { state in
            state.documents[issuerName + "/.well-known/openid-configuration"] =
                #"{"issuer":"\#(issuerName)","jwks_uri":"\#(issuerName)/keys"}"#
            state.documents[issuerName + "/keys"] = jwks
        }
    }

    /// From now on requests wait for ``answer()``.
    func hang() { state.withLock { $0.held = [] } }

    func answer() {
        for continuation in state.withLock({ $0.held.take() }) ?? [] { continuation.resume() }
    }

    /// Waits for something that happens meanwhile.
    func until(_ condition: @Sendable (State) -> Bool) async {
        while !state.withLock({ condition($0) }) { await Task.yield() }
    }

    /// Waits until nothing is fetched any more.
    func untilIdle(_ authenticator: Authenticator) async { await authenticator.waitForFetches() }

    func advance(_ time: Duration) { state.withLock { $0.time += time } }
    var keyRequestCount: Int { state.withLock { $0.keyRequestCount } }

    func authenticator(_ configuration: IdentityConfiguration) async throws -> Authenticator {
        try await Authenticator(
            configuration, fetch: { url throws(FetchError) in try await self.fetch(url) },
            monotonic: { self.state.withLock { $0.time } },
            report: { text in self.state.withLock { $0.reports.append(text) } })
    }
}

extension IdentityConfiguration {
    /// A secret, an issuer in memory, and a Firebase project beside it.
    static var whole: IdentityConfiguration {
        var configuration = IdentityConfiguration()
        configuration.secrets = [SecretSource(.environment(secretText, name: "SECRET"))]
        configuration.issuers = [
            RemoteIssuer(issuer: Issuer(name: Text(issuerName), audience: "rtdb"), keys: .discovery)
        ]
        return configuration
    }
}

extension VerificationResult {
    var refusal: TokenError? { if case .refused(let refusal) = self { refusal } else { nil } }
    var identity: Identity? { if case .accepted(let identity) = self { identity } else { nil } }
    /// The `auth` variable; "admin" for an administrator.
    var auth: String? {
        guard let identity else { return nil }
        return identity.credential.isAdmin ? "admin" : identity.credential.authVariable?.string ?? "null"
    }
}

extension Signer {
    static func publicPEM() throws -> String {
        try Insecure.RSA.PrivateKey(pem: TestKeys.rsa).publicKey.pemRepresentation
    }
}

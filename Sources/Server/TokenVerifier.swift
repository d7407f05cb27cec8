import PandoBytes
import PandoRules
import PandoTree
import PandoWire

/// What a credential turned out to be (auth.md §1, §4.2).
enum Verdict: Sendable {
    /// `expires`: seconds since 1970; nil when the credential does not expire.
    case accepted(PandoRules.Credential, expires: Int64?)
    case refused(isExpired: Bool, reason: StaticString)
}

/// Finds out whose a credential is.
///
/// The answer comes through a callback, perhaps later: verifying must not block a loop, and a connection's messages
/// wait meanwhile. In `--dev` the answer is at hand.
struct TokenVerifier: Sendable {
    /// `owner` and unsigned tokens (auth.md §2.5).
    let acceptsDevelopmentTokens: Bool

    /// Longest token we look at (auth.md §5.2).
    static let tokenByteLimit = 8 << 10

    func verify(_ credential: PandoWire.Credential, then answer: (Verdict) -> Void) {
        answer(verdict(on: credential))
    }

    private func verdict(on credential: PandoWire.Credential) -> Verdict {
        guard acceptsDevelopmentTokens, credential.token.utf8Count <= Self.tokenByteLimit else { return Self.unparsable }
        if credential.token == "owner" { return admin(credential) }
        guard let variable = UnsignedToken(credential.token)?.authVariable else { return Self.unparsable }
        return .accepted(PandoRules.Credential(authVariable: variable), expires: nil)
    }

    /// An administrator may act as somebody else (auth.md §2.4).
    private func admin(_ credential: PandoWire.Credential) -> Verdict {
        if credential.isUnauthenticated { return .accepted(.anonymous, expires: nil) }
        if let variable = credential.authVariable {
            return .accepted(PandoRules.Credential(authVariable: Text(variable.description)), expires: nil)
        }
        return .accepted(.admin, expires: nil)
    }

    private static let unparsable = Verdict.refused(isExpired: false, reason: "Could not parse auth token.")
}

/// A token of the emulator: a JWT with `alg` `none` and an empty signature, whose times nobody checks (auth.md §2.5).
struct UnsignedToken {
    /// The `auth` variable: `{"uid":…,"provider":…,"token":{claims}}` (auth.md §3).
    let authVariable: Text

    /// Nil for anything but an unsigned token with a subject.
    init?(_ token: Text) {
        let parts = token.string.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, parts[2].isEmpty,
            let header = decodeBase64(Array(parts[0]).rawSpan, alphabet: .urlSafe),
            let claims = decodeBase64(Array(parts[1]).rawSpan, alphabet: .urlSafe),
            Self.members(of: header)?["alg"].map({ String(decoding: header[$0], as: UTF8.self) }) == "\"none\"",
            let members = Self.members(of: claims),
            let subject = members["sub"] ?? members["user_id"], claims[subject].first == UInt8(ascii: "\""),
            subject.count > 2
        else { return nil }
        var provider: ArraySlice<UInt8> = Array("null".utf8)[...]
        if let firebase = members["firebase"], let inner = Self.members(of: Array(claims[firebase])),
            let name = inner["sign_in_provider"] {
            provider = Array(claims[firebase])[name]
        }
        var json: [UInt8] = []
        json.append("{\"uid\":")
        json += claims[subject]
        json.append(",\"provider\":")
        json += provider
        json.append(",\"token\":")
        json += claims
        json.append("}")
        guard let text = String(validating: json, as: UTF8.self) else { return nil }
        authVariable = Text(text)
    }

    /// Where each member's value stands; nil for what is no JSON object.
    private static func members(of json: [UInt8]) -> [Text: Range<Int>]? {
        withCursor(over: json.rawSpan) { cursor in
            var reader = JSONReader(cursor)
            var members: [Text: Range<Int>] = [:]
            do {
                try reader.readObject { (reader, name) throws(MalformedJSON) in
                    members[name] = try reader.skipValue(depth: 1)
                }
                try reader.expectEnd()
            } catch {
                return nil
            }
            return members
        }
    }
}

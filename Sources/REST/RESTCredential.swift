import PandoBytes
import PandoHTTP
import PandoTree

/// The credential of a request (auth §1): the token, and where it was. Both decide how a bad one is refused.
package enum RESTCredential: Equatable, Sendable {
    case none
    /// `auth=`: an ID token, a legacy token or a database secret.
    case auth(Text)
    /// `access_token=`: an OAuth2 token; `owner` in dev mode.
    case accessToken(Text)
    /// `Authorization: Bearer`: as `access_token=`.
    case bearer(Text)

    /// The header has precedence over `access_token`, and that over `auth`. (Unverified for the original,
    /// rest §15.) An empty parameter counts as absent: SDKs send it when no user is signed in. An empty
    /// Bearer is a bad token.
    package init(_ fields: HeaderFields, _ parameters: QueryString) {
        if let token = Self.bearer(fields) {
            self = .bearer(token)
        } else if let token = parameters["access_token"], !token.isEmpty {
            self = .accessToken(token)
        } else if let token = parameters["auth"], !token.isEmpty {
            self = .auth(token)
        } else {
            self = .none
        }
    }

    package var token: Text? {
        switch self {
        case .none: nil
        case .auth(let token), .accessToken(let token), .bearer(let token): token
        }
    }

    /// The error for a bad token of this kind (auth §4.1). For an expired one it is
    /// ``RESTError/tokenExpired``.
    package var refusal: RESTError {
        switch self {
        case .none, .auth: .tokenUnparsable
        case .accessToken, .bearer: .unauthorized
        }
    }

    /// The token of `Authorization: Bearer …`. Other schemes are ignored: a proxy may use them.
    private static func bearer(_ fields: HeaderFields) -> Text? {
        let values = fields.values(of: "authorization")
        guard let value = values.first else { return nil }
        // The field may occur once (RFC 9110 §11.6.2). Several are treated as an empty Bearer, which is a bad
        // token.
        guard values.count == 1 else { return "" }
        let bytes = value.bytes
        let isSpace = { (byte: UInt8) in byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
        let scheme = bytes.prefix { !isSpace($0) }
        guard scheme.span.equals(ignoringCase: "bearer") else { return nil }
        let token = bytes[scheme.endIndex...].drop(while: isSpace)
        return Text(decoding: token.span)
    }
}

/// Printing a credential, or a request that contains one, prints only the length of the secret.
extension RESTCredential: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String {
        switch self {
        case .none: "none"
        case .auth(let token): "auth(\(token.utf8Count) bytes)"
        case .accessToken(let token): "access_token(\(token.utf8Count) bytes)"
        case .bearer(let token): "Bearer(\(token.utf8Count) bytes)"
        }
    }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// `auth_variable_override=`: the `auth` variable with which an administrator's request is evaluated
/// (rest §4).
package struct AuthVariableOverride: Equatable, Sendable {
    /// The JSON as it was sent: an object, or `null`.
    package let json: Text
    /// The members; nil for `null`, signed out; `.empty` for `{}`. Their names may be illegal in a database.
    package let claims: Node?

    /// - Throws: ``RESTError/authVariableMalformed``.
    init(_ text: Text) throws(RESTError) {
        json = text
        let bytes = text.bytes
        claims = try withCursor(over: bytes.rawSpan) { (cursor) throws(RESTError) -> Node? in
            var parser = DraftParser(JSONReader(cursor))
            let first = parser.reader.peek()
            guard let draft = try? parser.readDraft(), (try? parser.reader.expectEnd()) != nil else {
                throw .authVariableMalformed
            }
            switch parser.reader.invalidData {
            // Claims are not stored: their names may be anything.
            case nil, .key: break
            default: throw .authVariableMalformed
            }
            guard draft.placeholders.isEmpty, !draft.node.isLeaf else { throw .authVariableMalformed }
            if first == UInt8(ascii: "{") { return draft.node }
            guard first == UInt8(ascii: "n") else { throw .authVariableMalformed }
            return nil
        }
    }
}

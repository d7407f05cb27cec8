import PandoBytes
import PandoTree

/// One message from a client, reassembled and parsed (realtime §3, §4).
package enum ClientMessage: Equatable, Sendable {
    case request(Request)
    /// Control message `p`: the reply is a pong.
    case ping
    /// Control message `a`: the client accepts the offer to move from long polling to this WebSocket (§1.6).
    case upgrade
    /// Control message `n`: the last message on the old transport (§1.6).
    case endOfTransmission
    /// Any other control message. Ignored.
    case unknownControl(Text)
}

/// A request. It gets exactly one reply, with its number (§3.3).
package struct Request: Equatable, Sendable {
    /// `r`: chosen by the client, and repeated in the reply. Starts at 0 or 1, and continues after a
    /// reconnect.
    package var number: Int64
    /// `a` and `b`.
    package var action: Action

    package init(number: Int64, action: Action) {
        self.number = number
        self.action = action
    }
}

/// What a request asks for (§4). Rare and large cases are `indirect`, so that a request with a write is small
/// when it is moved through a mailbox.
package enum Action: Equatable, Sendable {
    /// `s`. Its counters are ignored (§4.1).
    case statistics
    /// `q`.
    /// - queryText: The query object as the client sent it; nil for a default listen. The message that
    ///   revokes the listen repeats it: JavaScript identifies the listen by all members that it has sent,
    ///   unknown ones included (§5.4). Their order does not matter.
    indirect case listen(Listen, queryText: Text? = nil)
    /// `n`.
    indirect case unlisten(Path, Query?, tag: Int64?)
    /// `g`.
    indirect case get(Path, Query)
    /// `p` without a hash.
    case put(Write)
    /// `p` with a hash: the write is made only if the node at the path has this hash (§11). If it has
    /// another, `wantsCurrentValue` asks for the current value (§11.2, `"cv":true`).
    case transaction(Write, expectedHash: Text, wantsCurrentValue: Bool)
    /// `m`: the base path, and entries with absolute targets. No target is equal to another or an ancestor of
    /// it.
    case merge(Path, [Write])
    /// `o`.
    case onDisconnectPut(Write)
    /// `om`; as ``merge(_:_:)``.
    case onDisconnectMerge(Path, [Write])
    /// `oc`.
    case onDisconnectCancel(Target)
    /// `auth` and `gauth`, with any kind of credential (§4.7).
    case authenticate(AuthenticationRequest)
    /// `unauth`.
    case unauthenticate
    /// `appcheck`.
    case appCheck
    /// `unappcheck`; JavaScript sends `unappeck`.
    case dropAppCheck
    /// Any other action: the reply is an error.
    case unknown(Text)
    /// A known action whose path, data or query violates the data model: the reply has an error status. The
    /// connection stays open.
    case invalid(Text, InvalidData)
}

/// What a client asks for when it signs in (§4.7): the body of `auth` and `gauth`.
package struct AuthenticationRequest: Equatable, Sendable {
    /// A JWT, an access token, a legacy secret, or `owner`. Secret: must not be logged.
    package var token: Text
    /// `"noauth":true`: an administrator asks to be treated as not signed in.
    package var isUnauthenticated: Bool
    /// `authvar`: an administrator asks to be treated as a user with these auth variables. nil when absent;
    /// an empty object is `.empty`. Its keys need not be legal keys of the database: the names of claims are
    /// often URLs.
    package var authVariable: Node?

    package init(token: Text, isUnauthenticated: Bool = false, authVariable: Node? = nil) {
        self.token = token
        self.isUnauthenticated = isUnauthenticated
        self.authVariable = authVariable
    }
}

/// Printing one does not print the secret.
extension AuthenticationRequest: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "AuthenticationRequest(\(token.utf8Count) bytes)" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// A message that violates the protocol: the connection is closed (§4.0).
package enum MalformedMessage: Error, Equatable, Sendable {
    case json(MalformedJSON)
    /// A required member is missing. (Its name in the protocol.)
    case missing(String)
    /// A member has a JSON type that it must not have, for example null.
    case wrongType(String)
    /// The envelope's `t` is neither `c` nor `d`.
    case unknownKind
}

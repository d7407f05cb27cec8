import PandoBytes
import PandoTree

/// One message from a client, reassembled and parsed (realtime §3, §4).
package enum ClientMessage: Equatable, Sendable {
    case request(Request)
    /// Control message `p`: answered with a pong.
    case ping
    /// Control message `a`: the client accepts the offer to move from long polling to this WebSocket (§1.6).
    case upgrade
    /// Control message `n`: the last message on the old transport (§1.6).
    case endOfTransmission
    /// Any other control message. Ignored.
    case unknownControl(Text)
}

/// A request. It gets exactly one response, with its number (§3.3).
package struct Request: Equatable, Sendable {
    /// `r`: chosen by the client, and repeated in the response. Starts at 0 or 1, and continues after a
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
    indirect case listen(ListenRequest)
    /// `n`.
    indirect case unlisten(Path, query: Query?, tag: Int64?)
    /// `g`.
    indirect case get(Path, Query)
    /// `p`. With `hash` it is a transaction: the write is made only if the node at the path has this hash
    /// (§11). If it has another, `wantsCurrentValue` asks for the current value (§11.2, `"cv":true`).
    case put(Target, Draft, hash: Text?, wantsCurrentValue: Bool)
    /// `m`: the base path, and entries with absolute targets. No target is equal to another or an ancestor of
    /// it.
    case merge(Path, [Write])
    /// `o`.
    case onDisconnectPut(Target, Draft)
    /// `om`; as ``merge(_:_:)``.
    case onDisconnectMerge(Path, [Write])
    /// `oc`.
    case onDisconnectCancel(Target)
    /// `auth` and `gauth`, with any kind of credential (§4.7).
    case authenticate(Credential)
    /// `unauth`.
    case unauthenticate
    /// `appcheck`.
    case appCheck
    /// `unappcheck`; JavaScript sends `unappeck`.
    case dropAppCheck
    /// Any other action: answered with an error.
    case unknown(Text)
    /// A known action whose path, data or query violates the data model: answered with an error status. The
    /// connection stays open.
    case invalid(Text, InvalidData)
}

/// A subscription to one location (§4.2).
package struct ListenRequest: Equatable, Sendable {
    /// The location.
    package var path: Path
    /// nil for a default listen. A listen with a tag has a query even if that loads all data: the client
    /// identifies it by its tag.
    package var query: Query?
    /// The query object as the client sent it. The message that revokes the listen repeats it: JavaScript
    /// identifies the listen by all members that it has sent, unknown ones included (§5.4). Their order does
    /// not matter.
    package var queryText: Text?
    /// Positive; nil if and only if `query` is nil.
    package var tag: Int64?
    /// The simple hash of the data that the client has; `""` for none. nil from C++ clients, which must
    /// always be sent data.
    package var hash: Text?
    /// nil when absent. It may be unusable: then the simple hash decides, and all data is sent if that
    /// differs.
    package var compoundHash: CompoundHash?

    package init(
        path: Path, query: Query? = nil, queryText: Text? = nil, tag: Int64? = nil, hash: Text? = nil,
        compoundHash: CompoundHash? = nil
    ) {
        self.path = path
        self.query = query
        self.queryText = queryText
        self.tag = tag
        self.hash = hash
        self.compoundHash = compoundHash
    }
}

/// The credential that a client signs in with (§4.7).
package struct Credential: Equatable, Sendable {
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

/// Printing a credential, or a request that has one, does not print the secret.
extension Credential: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "Credential(\(token.utf8Count) bytes)" }
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

extension ClientMessage {
    /// Parses one complete message, in one pass if its members have one of the orders that the SDKs write.
    ///
    /// Members may have any order; unknown ones are ignored; of two with the same name the last one counts.
    /// The bytes need not be UTF-8: every string is checked, and anything else must be ASCII.
    /// - Throws: ``MalformedMessage``: the connection must be closed. Data that violates the data model gives
    ///   an ``Action/invalid(_:_:)`` instead.
    /// - Complexity: O(bytes).
    package init(parsing message: RawSpan) throws(MalformedMessage) {
        self = try withCursor(over: message) { (cursor) throws(MalformedMessage) in
            var parser = MessageParser(cursor)
            do throws(MalformedJSON) {
                // Returned directly: through a variable it would be copied.
                if let message = try parser.readMessage() { return message }
            } catch {
                throw .json(error)
            }
            throw parser.fault
        }
    }

    /// As ``init(parsing:)``, with a bound on the memory of its data.
    /// - Parameter nodeLimit: Most nodes of a write (``PandoTree/Limits/nodeCount(writeByteLimit:)``). A
    ///   write with more is an ``Action/invalid(_:_:)``, and takes no more memory than `nodeLimit` nodes.
    /// - Throws: As ``init(parsing:)``.
    package init(parsing message: RawSpan, nodeLimit: Int) throws(MalformedMessage) {
        self = try withCursor(over: message) { (cursor) throws(MalformedMessage) in
            var parser = MessageParser(cursor, nodeLimit: nodeLimit)
            do throws(MalformedJSON) {
                if let message = try parser.readMessage() { return message }
            } catch {
                if case .tooManyNodes = error { return .request(try Self.oversizedRequest(cursor)) }
                throw .json(error)
            }
            throw parser.fault
        }
    }

    /// The request of a message whose data has too many nodes. Only what is around the data is read, for the
    /// number of the response.
    private static func oversizedRequest(_ cursor: ByteCursor) throws(MalformedMessage) -> Request {
        var parser = MessageParser(cursor, skipsData: true)
        let message: ClientMessage?
        do throws(MalformedJSON) { message = try parser.readMessage() } catch { throw .json(error) }
        guard case .request(var request)? = message else { throw parser.fault }
        request.action = .invalid("", .tooManyNodes)
        return request
    }
}

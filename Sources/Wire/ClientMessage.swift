import PandoBytes
import PandoTree

/// One message of a client, reassembled and understood (realtime §3, §4).
package enum ClientMessage: Equatable, Sendable {
    case request(Request)
    /// Control `p`: wants a pong.
    case ping
    /// Control `a`: the client answers our offer to move from long polling to this WebSocket (§1.6).
    case upgrade
    /// Control `n`: the last message on the old transport (§1.6).
    case endOfTransmission
    /// Any other control verb. Ignored.
    case unknownControl(Text)
}

/// A request; it gets exactly one response, with its number (§3.3).
package struct Request: Equatable, Sendable {
    /// `r`: opaque, echoed as it is. Begins at 0 or 1, and goes on after a reconnect.
    package var number: Int64
    package var action: Action

    package init(number: Int64, action: Action) {
        self.number = number
        self.action = action
    }
}

/// What a request asks for (§4). Rare and large cases are boxed, so that a write stays small on its way
/// through the mailbox.
package enum Action: Equatable, Sendable {
    /// `s`. What it counts is not looked at (§4.1).
    case statistics
    /// `q`.
    indirect case listen(Listen)
    /// `n`.
    indirect case unlisten(Path, query: Query?, tag: Int64?)
    /// `g`.
    indirect case get(Path, Query)
    /// `p`. With `hash`, only if the node at the path still has it (§11). `wantsCurrentValue` asks for the
    /// current value when it has not (§11.2, `"cv":true`).
    case put(Target, Draft, hash: Text?, wantsCurrentValue: Bool)
    /// `m`: the base path, and entries with absolute targets, none at or above another.
    case merge(Path, [MergeEntry])
    /// `o`.
    case onDisconnectPut(Target, Draft)
    /// `om`; as ``merge(_:_:)``.
    case onDisconnectMerge(Path, [MergeEntry])
    /// `oc`.
    case onDisconnectCancel(Target)
    /// `auth` and `gauth`: every kind of credential comes under either (§4.7).
    case authenticate(Credential)
    /// `unauth`.
    case unauthenticate
    /// `appcheck`.
    case appCheck
    /// `unappcheck`, or `unappeck` as JavaScript spells it.
    case dropAppCheck
    /// An action we do not know: answered with an error.
    case unknown(Text)
    /// A known action whose path, data or query is against the data model: answered with an error status. The
    /// connection lives.
    case invalid(Text, InvalidData)
}

/// A subscription to one location (§4.2).
package struct Listen: Equatable, Sendable {
    package var path: Path
    /// nil for a default listen. A query that loads all data, if a client should tag one, stays a tagged
    /// listen: the client knows it by its tag.
    package var query: Query?
    /// The query object as the client wrote it, to be handed back when the listen is revoked: JavaScript
    /// looks its listen up by the members it sent, the ones we ignore included (§5.4). It sorts them itself.
    package var queryText: Text?
    /// Positive; there if and only if `query` is.
    package var tag: Int64?
    /// The simple hash of what the client has; `""` for nothing; nil from C++, which must always be sent
    /// data.
    package var hash: Text?
    /// nil when absent. Perhaps of no use: the simple hash stands beside it, and whole data is always right.
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

/// One location of a multi-path write.
package struct MergeEntry: Equatable, Sendable {
    /// From the root of the database.
    package var target: Target
    package var draft: Draft

    package init(target: Target, draft: Draft) {
        self.target = target
        self.draft = draft
    }
}

/// What a client signs in with (§4.7).
package struct Credential: Equatable, Sendable {
    /// A JWT, an access token, a legacy secret, or `owner`. A secret: never to be logged.
    package var token: Text
    /// `"noauth":true`: an administrator asks to be treated as signed out.
    package var isUnauthenticated: Bool
    /// `authvar`: an administrator impersonates these variables. nil when absent; an empty object is
    /// `.empty`. Its keys may be illegal in a database: claims are often named by URLs.
    package var authVariable: Node?

    package init(token: Text, isUnauthenticated: Bool = false, authVariable: Node? = nil) {
        self.token = token
        self.isUnauthenticated = isUnauthenticated
        self.authVariable = authVariable
    }
}

/// Whoever prints a credential, or a request that holds one, does not print the secret.
extension Credential: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "Credential(\(token.utf8Count) bytes)" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// A message that breaks the protocol; the connection is closed (§4.0).
package enum MalformedMessage: Error, Equatable, Sendable {
    case json(MalformedJSON)
    /// A required member is not there. (Its name as the protocol spells it.)
    case missing(String)
    /// A member is there with another JSON type than it must have; null is one too.
    case wrongType(String)
    /// The envelope's `t` is neither `c` nor `d`.
    case unknownKind
}

extension ClientMessage {
    /// Parses one whole message, in one pass where its members come in any of the orders that SDKs write.
    ///
    /// Members may come in any order; unknown ones are ignored; of two with one name the last counts. The
    /// bytes need not be known to be UTF-8: every string is checked here, and there is nothing but ASCII
    /// around them.
    /// - Throws: ``MalformedMessage``: close the connection. What is merely no data of ours is an
    ///   ``Action/invalid(_:_:)`` instead.
    /// - Complexity: O(bytes).
    package init(parsing message: RawSpan) throws(MalformedMessage) {
        self = try withCursor(over: message) { (cursor) throws(MalformedMessage) in
            var parser = MessageParser(cursor)
            do throws(MalformedJSON) {
                // Returned from here: kept in a variable it would be copied.
                if let message = try parser.readMessage() { return message }
            } catch {
                throw .json(error)
            }
            throw parser.fault
        }
    }

    /// The same for a message that may be large.
    /// - Parameter nodeLimit: Most nodes that a write may have
    ///   (``PandoTree/Limits/nodeCount(writeByteLimit:)``); one that has more is an ``Action/invalid(_:_:)``,
    ///   and takes no more memory than so many.
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

    /// The request of a message whose data has too many nodes: what stands around the data is read, so that
    /// it can be refused by its number.
    private static func oversizedRequest(_ cursor: ByteCursor) throws(MalformedMessage) -> Request {
        var parser = MessageParser(cursor, skipsData: true)
        let message: ClientMessage?
        do throws(MalformedJSON) { message = try parser.readMessage() } catch { throw .json(error) }
        guard case .request(var request)? = message else { throw parser.fault }
        request.action = .invalid("", .tooManyNodes)
        return request
    }
}

import PandoBytes
import PandoDatabase
import PandoEngine
import PandoHTTP
import PandoREST

/// A request to become a WebSocket (realtime §1.1).
package struct UpgradeRequest: Sendable {
    package let head: RequestHead
    /// The session that begins, unless one by long polling is to move here.
    package let openRequest: OpenRequest
    /// `s`: the client has a session by long polling that is to move here.
    package let joins: Bool
    /// Its id; nil where the client sent none that is valid.
    package let polling: PublicSessionID?

    /// Whether the client takes a ping for what it is. The Admin SDK for Java fails at every frame but text
    /// and close (realtime §2.3); its user agent ends in this way in all versions.
    package var answersPings: Bool {
        head.fields.bytes(of: "user-agent").map { !$0.span.hasSuffix("/AdminJava") } ?? true
    }

    /// Reads the query and the host.
    package init(_ head: RequestHead) {
        let query = head.query(plusIsSpace: false)
        let host = head.authority
        self.head = head
        let namespace =
            query["ns"].flatMap { $0.isEmpty ? nil : NamespaceName.received($0) }
            ?? NamespaceName.fromHost(host)
        openRequest = OpenRequest(
            namespace: namespace, host: Text(host), previousSession: query["ls"])
        joins = query["s"] != nil
        polling = query["s"].flatMap { PublicSessionID($0) }
    }

    /// `/.ws`, with or without slashes behind it.
    static func isPath(_ path: ArraySlice<UInt8>) -> Bool { isPlace("/.ws", path) }
}

extension LongPollingRequest {
    /// `/.lp`, with or without slashes behind it.
    static func isPath(_ path: ArraySlice<UInt8>) -> Bool { isPlace("/.lp", path) }
}

private func isPlace(_ place: StaticString, _ path: ArraySlice<UInt8>) -> Bool {
    guard path.span.hasPrefix(place) else { return false }
    return path.dropFirst(place.utf8CodeUnitCount).allSatisfy { $0 == UInt8(ascii: "/") }
}

/// A request that another loop has read, and that is handled on the loop of its session.
package struct MovedRequest: Sendable {
    package let head: RequestHead
    /// What came behind the request.
    package let rest: [UInt8]
    /// How often its connection was moved, this move included.
    package let moveCount: Int
}

import PandoBytes
import PandoTree

// Control messages and replies of the server, appended as JSON to the caller's buffer (realtime §3.2,
// §3.3, §4.8). Each is a complete message in valid UTF-8; pushes are in `Push.swift`.

/// The result of a request (§4.8).
package enum Status: String, Sendable {
    case ok
    case permissionDenied = "permission_denied"
    /// A transaction's hash does not match.
    case dataStale = "datastale"
    case invalidToken = "invalid_token"
    case expiredToken = "expired_token"
    /// The data to read or to write is too large.
    case tooBig = "too_big"
    case unavailable
    case internalError = "internal_error"
    /// `setPriority` on a missing node (§4.5).
    case failed
    /// Data that violates the data model (§10).
    case invalidData = "invalid_data"
    /// An unknown action (§4.0).
    case error
}

/// The `d` of a reply.
package enum ReplyData: Sendable {
    /// `""`: success without data.
    case none
    /// `{}`: success of a listen. Its `d` must be an object: Android crashes otherwise (§4.2).
    case object
    /// `{"w":["no_index"]}`: success of a filtered listen without a matching `.indexOn`.
    case noIndex
    /// A reason, or `unauthenticated`.
    case text(Text)
    /// The data of a get, in export form.
    case node(Node)
    /// Success of `auth` (§4.7).
    /// - Parameters:
    ///   - json: The auth variables as JSON, which is not checked; nil for an administrator.
    ///   - expires: Seconds since 1970; nil for never.
    case authenticated(json: [UInt8]?, expires: Int64?)
    /// A reason, and next to `d` the node that the transaction's hash was compared with (§11.2).
    case current(reason: Text, node: Node, hash: Text)
}

extension [UInt8] {
    // MARK: Control

    /// Appends the first message of a connection.
    /// - Parameters:
    ///   - milliseconds: The server's time, since 1970.
    ///   - host: Where the client can reach the server: the `Host` of its request (§1.4).
    ///   - sessionID: Random, so that it cannot be guessed; not empty.
    package mutating func append(handshake milliseconds: Int64, host: Text, sessionID: Text) {
        append("{\"t\":\"c\",\"d\":{\"t\":\"h\",\"d\":{\"ts\":")
        append(decimal: milliseconds)
        append(",\"v\":\"5\",\"h\":")
        append(json: host)
        append(",\"s\":")
        append(json: sessionID)
        append("}}}")
    }

    /// Appends the reply to a ping. Without `d` JavaScript would ignore it.
    package mutating func appendPong() {
        append("{\"t\":\"c\",\"d\":{\"t\":\"o\",\"d\":null}}")
    }

    /// Appends the offer to move from long polling to the WebSocket on which it is sent (§1.6).
    package mutating func appendUpgrade() {
        append("{\"t\":\"c\",\"d\":{\"t\":\"a\",\"d\":{}}}")
    }

    /// Appends the last message over long polling of a session that moves to a WebSocket (§1.6).
    package mutating func appendEndOfTransmission() {
        append("{\"t\":\"c\",\"d\":{\"t\":\"n\",\"d\":{}}}")
    }

    /// Appends a shutdown: the client disconnects, and does not reconnect by itself.
    package mutating func append(shutdown reason: Text) {
        append("{\"t\":\"c\",\"d\":{\"t\":\"s\",\"d\":")
        append(json: reason)
        append("}}")
    }

    /// Appends a redirect to another server (§1.4).
    /// - Parameter host: `host` or `host:port`.
    package mutating func append(reset host: Text) {
        append("{\"t\":\"c\",\"d\":{\"t\":\"r\",\"d\":")
        append(json: host)
        append("}}")
    }

    /// Appends an error that some clients log; the server closes the connection next.
    package mutating func append(errorNotice text: Text) {
        append("{\"t\":\"c\",\"d\":{\"t\":\"e\",\"d\":")
        append(json: text)
        append("}}")
    }

    // MARK: Responses

    /// Appends the reply to request `number`. O(data).
    package mutating func append(reply number: Int64, _ status: Status, _ data: ReplyData = .none) {
        if status == .ok, case .none = data {
            return append(atMost: ByteWriter.acknowledgementByteLimit) { $0.append(acknowledgement: number) }
        }
        append("{\"t\":\"d\",\"d\":{\"r\":")
        append(decimal: number)
        if status == .ok {
            append(",\"b\":{\"s\":\"ok\",\"d\":")
        } else {
            append(",\"b\":{\"s\":\"")
            append(utf8: status.rawValue)
            append("\",\"d\":")
        }
        switch data {
        case .none: append("\"\"")
        case .object: append("{}")
        case .noIndex: append("{\"w\":[\"no_index\"]}")
        case .text(let text): append(json: text)
        case .node(let node): append(json: node)
        case .authenticated(let json, let expires):
            append("{\"auth\":")
            if let json { append(contentsOf: json) } else { append("null") }
            append(",\"expires\":")
            if let expires { append(decimal: expires) } else { append("null") }
            append("}")
        case .current(let reason, let node, let hash):
            append(json: reason)
            append(",\"current\":{\"value\":")
            append(json: node)
            append(",\"hash\":")
            append(json: hash)
            append("}")
        }
        append("}}}")
    }
}

extension ByteWriter {
    /// Most bytes that ``append(acknowledgement:)`` writes.
    package static var acknowledgementByteLimit: Int {
        acknowledgementHead.utf8CodeUnitCount + 1 + decimalByteLimit + acknowledgementTail.utf8CodeUnitCount
    }

    /// Appends the most common reply to request `number`: `ok` without data.
    package mutating func append(acknowledgement number: Int64) {
        append(Self.acknowledgementHead)
        append(decimal: number)
        append(Self.acknowledgementTail)
    }

    private static var acknowledgementHead: StaticString { "{\"t\":\"d\",\"d\":{\"r\":" }
    private static var acknowledgementTail: StaticString { ",\"b\":{\"s\":\"ok\",\"d\":\"\"}}}" }
}

import PandoBytes
import PandoTree

// What the server says, appended as JSON to a buffer that the caller owns (realtime §3.2, §3.3, §4.8).
// Every message here is valid UTF-8 and whole; pushes are in `Push.swift`.

/// How a request ended (§4.8).
package enum Status: String, Sendable {
    case ok
    case permissionDenied = "permission_denied"
    /// A transaction's hash does not match.
    case dataStale = "datastale"
    case invalidToken = "invalid_token"
    case expiredToken = "expired_token"
    /// What was asked for, or is to be written, is too large.
    case tooBig = "too_big"
    case unavailable
    case internalError = "internal_error"
    /// `setPriority` on a missing node (§4.5).
    case failed
    /// Data against the data model (§8).
    case invalidData = "invalid_data"
    /// An unknown action (§4.0).
    case error
}

/// The `d` of a response.
package enum Payload: Sendable {
    /// `""`: success with nothing to say.
    case none
    /// `{}`: the success of a listen, whose `d` must be an object or Android crashes (§4.2).
    case object
    /// `{"w":["no_index"]}`: the success of a filtered listen without a matching `.indexOn`.
    case noIndex
    /// A reason, or `unauthenticated`.
    case text(Text)
    /// The data of a get, in export form.
    case node(Node)
    /// The success of `auth` (§4.7).
    /// - Parameters:
    ///   - json: The auth variables as JSON text that is trusted to be valid; nil for an administrator.
    ///   - expires: Seconds since 1970; nil for never.
    case authenticated(json: [UInt8]?, expires: Int64?)
    /// A reason, and beside `d` the node the write was compared with (§11.2).
    case current(reason: Text, node: Node, hash: Text)
}

extension [UInt8] {
    // MARK: Control

    /// Appends the first message of a connection.
    /// - Parameters:
    ///   - milliseconds: Server time since 1970.
    ///   - host: Where the client can reach us: its own request's `Host` (§1.4).
    ///   - sessionID: Not guessable, not empty.
    package mutating func append(handshake milliseconds: Int64, host: Text, sessionID: Text) {
        append("{\"t\":\"c\",\"d\":{\"t\":\"h\",\"d\":{\"ts\":")
        append(decimal: milliseconds)
        append(",\"v\":\"5\",\"h\":")
        append(json: host)
        append(",\"s\":")
        append(json: sessionID)
        append("}}}")
    }

    /// Appends the answer to a ping. Without its `d` JavaScript would drop it.
    package mutating func appendPong() {
        append("{\"t\":\"c\",\"d\":{\"t\":\"o\",\"d\":null}}")
    }

    /// Appends the offer to move from long polling to the WebSocket on which it is sent (§1.6).
    package mutating func appendUpgrade() {
        append("{\"t\":\"c\",\"d\":{\"t\":\"a\",\"d\":{}}}")
    }

    /// Appends the last message by long polling of a session that goes on over a WebSocket (§1.6).
    package mutating func appendEndOfTransmission() {
        append("{\"t\":\"c\",\"d\":{\"t\":\"n\",\"d\":{}}}")
    }

    /// Appends a shutdown: the client closes and does not come back by itself.
    package mutating func append(shutdown reason: Text) {
        append("{\"t\":\"c\",\"d\":{\"t\":\"s\",\"d\":")
        append(json: reason)
        append("}}")
    }

    /// Appends a redirect to `host` or `host:port` (§1.4).
    package mutating func append(reset host: Text) {
        append("{\"t\":\"c\",\"d\":{\"t\":\"r\",\"d\":")
        append(json: host)
        append("}}")
    }

    /// Appends an error that some clients log; the server closes next.
    package mutating func append(errorNotice text: Text) {
        append("{\"t\":\"c\",\"d\":{\"t\":\"e\",\"d\":")
        append(json: text)
        append("}}")
    }

    // MARK: Responses

    /// Appends the one response to request `number`. O(payload).
    package mutating func append(response number: Int64, _ status: Status, _ payload: Payload = .none) {
        if status == .ok, case .none = payload {
            return append(room: ByteWriter.acknowledgementByteLimit) { $0.append(acknowledgement: number) }
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
        switch payload {
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
    /// Most that ``append(acknowledgement:)`` writes.
    package static var acknowledgementByteLimit: Int {
        acknowledgementHead.utf8CodeUnitCount + 1 + decimalByteLimit + acknowledgementTail.utf8CodeUnitCount
    }

    /// Appends the response to request `number` that most responses are: `ok`, and nothing else to say.
    package mutating func append(acknowledgement number: Int64) {
        append(Self.acknowledgementHead)
        append(decimal: number)
        append(Self.acknowledgementTail)
    }

    private static var acknowledgementHead: StaticString { "{\"t\":\"d\",\"d\":{\"r\":" }
    private static var acknowledgementTail: StaticString { ",\"b\":{\"s\":\"ok\",\"d\":\"\"}}}" }
}

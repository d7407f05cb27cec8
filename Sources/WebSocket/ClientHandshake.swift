import PandoBytes
import PandoHTTP

/// Why the response to an upgrade request does not open a WebSocket (RFC 6455 §4.1).
package enum UpgradeFailure: Error, Hashable, Sendable {
    /// Any status but 101.
    case refused(statusCode: Int)
    /// `Upgrade` is not `websocket`.
    case notAnUpgrade
    /// `Connection` does not name `upgrade`.
    case connectionNotUpgraded
    /// `Sec-WebSocket-Accept` is not what the key demands.
    case wrongAcceptKey
    /// The server chose an extension or a subprotocol that was not offered.
    case unexpectedChoice
}

/// The client's side of the opening handshake.
package struct ClientHandshake: Sendable {
    private let key: [UInt8]

    /// - Parameter nonce: 16 random bytes, fresh for each connection (RFC 6455 §4.1).
    package init(nonce: (UInt64, UInt64)) {
        var bytes: [UInt8] = []
        bytes.append(littleEndian: nonce.0)
        bytes.append(littleEndian: nonce.1)
        var key: [UInt8] = []
        key.append(base64: bytes.rawSpan)
        self.key = key
    }

    /// Appends the upgrade request.
    /// - Parameters:
    ///   - target: Path and query: `/.ws?v=5&ns=demo`.
    ///   - host: Of the `Host` field: `localhost:9000`.
    package func appendRequest(target: String, host: String, to output: inout [UInt8]) {
        output.append(requestLine: "GET", target: target)
        output.append(field: "Host", text: host)
        output.append(field: "Upgrade", "websocket")
        output.append(field: "Connection", "Upgrade")
        output.append(field: "Sec-WebSocket-Key", text: String(decoding: key, as: UTF8.self))
        output.append(field: "Sec-WebSocket-Version", ServerHandshake.version)
        output.appendEndOfHead()
    }

    /// Checks the head of the response. Frames may follow directly behind it.
    /// - Throws: ``UpgradeFailure``.
    package func check(_ head: ResponseHead) throws(UpgradeFailure) {
        let fields = head.fields
        guard head.statusCode == 101 else { throw .refused(statusCode: head.statusCode) }
        guard fields.count(of: "upgrade") == 1, fields["upgrade"]?.lowercased() == "websocket" else {
            throw .notAnUpgrade
        }
        guard fields.has(token: "upgrade", in: "connection") else { throw .connectionNotUpgraded }
        guard fields.count(of: "sec-websocket-accept") == 1,
            fields["sec-websocket-accept"] == acceptKey(for: key)
        else { throw .wrongAcceptKey }
        guard fields.count(of: "sec-websocket-extensions") == 0,
            fields.count(of: "sec-websocket-protocol") == 0
        else { throw .unexpectedChoice }
    }
}

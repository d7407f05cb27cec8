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
    /// The server chose an extension or a subprotocol that was not offered, or an extension twice.
    case unexpectedChoice
    /// `Sec-WebSocket-Extensions` does not follow the grammar (RFC 6455 §9.1).
    case malformedExtensions
    /// The parameters of permessage-deflate are invalid, or not those that were offered (RFC 7692 §7.1).
    case invalidDeflateParameters
}

/// The client's side of the opening handshake.
package struct ClientHandshake: Sendable {
    private let key: [UInt8]
    private let deflate: DeflateParameters?

    /// - Parameters:
    ///   - nonce: 16 random bytes, fresh for each connection (RFC 6455 §4.1).
    ///   - deflate: The offer of permessage-deflate; nil for none.
    package init(nonce: (UInt64, UInt64), deflate: DeflateParameters? = nil) {
        self.deflate = deflate
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
        deflate?.append(to: &output)
        output.appendEndOfHead()
    }

    /// Checks the head of the response. Frames may follow directly behind it.
    /// - Returns: How messages are compressed; nil where they are not.
    /// - Throws: ``UpgradeFailure``.
    @discardableResult
    package func check(_ head: ResponseHead) throws(UpgradeFailure) -> DeflateAgreement? {
        let fields = head.fields
        guard head.statusCode == 101 else { throw .refused(statusCode: head.statusCode) }
        guard fields.count(of: "upgrade") == 1, fields["upgrade"]?.asciiString?.lowercased() == "websocket"
        else {
            throw .notAnUpgrade
        }
        guard fields.has(token: "upgrade", in: "connection") else { throw .connectionNotUpgraded }
        guard fields.count(of: "sec-websocket-accept") == 1,
            fields["sec-websocket-accept"] == Text(acceptKey(for: key))
        else { throw .wrongAcceptKey }
        guard fields.count(of: "sec-websocket-protocol") == 0 else { throw .unexpectedChoice }
        guard let extensions = readExtensions(fields.values(of: "sec-websocket-extensions")) else {
            throw .malformedExtensions
        }
        guard let chosen = extensions.first else { return nil }
        guard let deflate, extensions.count == 1, chosen.name == "\(DeflateParameters.extensionName)" else {
            throw .unexpectedChoice
        }
        guard let response = DeflateParameters(chosen, isOffer: false),
            let agreement = deflate.check(response)
        else { throw .invalidDeflateParameters }
        return agreement
    }
}

import PandoBytes
import PandoHTTP

/// Why an upgrade is refused (RFC 6455 §4.2.1).
package enum UpgradeRefusal: Error, Hashable, Sendable {
    case methodNotGet
    case versionBelow11
    /// No `Upgrade: websocket`: a plain request.
    case notAnUpgrade
    /// `Connection` does not name `upgrade`.
    case connectionNotUpgraded
    /// An upgrade must not have content: it could hide a second request.
    case hasContent
    case malformedKey
    case missingVersion
    case unsupportedVersion
    /// `Sec-WebSocket-Extensions` does not follow the grammar (RFC 6455 §9.1).
    case malformedExtensions

    /// The status of the response.
    package var status: HTTPStatus {
        switch self {  // No `default`: each new refusal needs a status here.
        case .methodNotGet: .methodNotAllowed
        case .notAnUpgrade, .unsupportedVersion: .upgradeRequired
        case .versionBelow11, .connectionNotUpgraded, .hasContent, .malformedKey, .missingVersion,
            .malformedExtensions:
            .badRequest
        }
    }
}

/// The server's side of the opening handshake. The caller checks path and origin.
package struct ServerHandshake: Sendable {
    /// The only version there is (RFC 6455 §4.1).
    static let version: StaticString = "13"

    private let accept: String
    /// Comes back in the response.
    private let requestID: ArraySlice<UInt8>?
    /// How messages are compressed; nil where they are not. For ``MessageCompression``.
    package private(set) var deflate: DeflateAgreement?

    /// Checks an upgrade request. No subprotocol is chosen, whatever the client offers, and no extension but
    /// permessage-deflate.
    /// - Parameter deflate: What this server wants of permessage-deflate; nil for no extension at all.
    /// - Throws: ``UpgradeRefusal``, for ``appendRefusal(_:lines:body:isHead:to:)``.
    package init(_ head: RequestHead, deflate options: DeflateOptions? = nil) throws(UpgradeRefusal) {
        let fields = head.fields
        guard head.method == .get else { throw .methodNotGet }
        guard head.version >= .http11 else { throw .versionBelow11 }
        guard fields.has(token: "websocket", in: "upgrade") else { throw .notAnUpgrade }
        guard fields.has(token: "upgrade", in: "connection") else { throw .connectionNotUpgraded }
        guard head.framing == .none || head.framing == .length(0) else { throw .hasContent }
        guard fields.count(of: "sec-websocket-version") > 0 else { throw .missingVersion }
        guard fields.count(of: "sec-websocket-version") == 1, fields["sec-websocket-version"] == "13" else {
            throw .unsupportedVersion
        }
        guard fields.count(of: "sec-websocket-key") == 1, let key = fields.bytes(of: "sec-websocket-key"),
            key.count == 24, decodeBase64(Array(key).rawSpan)?.count == 16
        else { throw .malformedKey }
        accept = acceptKey(for: Array(key))
        requestID = head.requestID
        if let options {
            guard let offers = readExtensions(fields.values(of: "sec-websocket-extensions")) else {
                throw .malformedExtensions
            }
            deflate = options.negotiate(offers)
        }
    }

    /// Messages will not be compressed, although client and server could: for want of memory.
    package mutating func declineDeflate() {
        deflate = nil
    }

    /// Appends the 101 response. Android's client accepts exactly these values (realtime §1.1).
    package func appendResponse(to output: inout [UInt8]) {
        output.append(statusLine: .switchingProtocols)
        output.append(field: "Upgrade", "websocket")
        output.append(field: "Connection", "Upgrade")
        output.append(field: "Sec-WebSocket-Accept", text: accept)
        deflate?.response.append(to: &output)
        output.append(requestID: requestID)
        output.appendEndOfHead()
    }

    /// Appends the response to a request that was refused. The connection must be closed after it.
    /// - Parameters:
    ///   - lines: Further lines of the head, each with its CR LF: `Date`, and the request's id.
    ///   - body: JSON; empty for none.
    ///   - isHead: The request was HEAD, whose response has no body.
    package static func appendRefusal(
        _ refusal: UpgradeRefusal, lines: [UInt8] = [], body: [UInt8] = [], isHead: Bool = false,
        to output: inout [UInt8]
    ) {
        output.append(statusLine: refusal.status)
        switch refusal.status {
        case .upgradeRequired:
            // RFC 9110 §15.5.22 demands `Upgrade`, RFC 6455 §4.2.2 the version.
            output.append(field: "Upgrade", "websocket")
            output.append(field: "Sec-WebSocket-Version", version)
            output.append(field: "Connection", "Upgrade, close")
        case .methodNotAllowed:
            output.append(field: "Allow", "GET")
            output.append(field: "Connection", "close")
        default:
            output.append(field: "Connection", "close")
        }
        if !body.isEmpty { output.append(field: "Content-Type", "application/json; charset=utf-8") }
        output.append(field: "Content-Length", decimal: UInt64(body.count))
        output += lines
        output.appendEndOfHead()
        if !isHead { output += body }
    }
}

/// The value of `Sec-WebSocket-Accept` for a key (RFC 6455 §4.2.2): 28 ASCII characters.
func acceptKey(for key: [UInt8]) -> String {
    var text = key
    text.append("258EAFA5-E914-47DA-95CA-C5AB0DC85B11" as StaticString)
    return SHA1.base64(of: text.rawSpan)
}

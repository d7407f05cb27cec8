import PandoBytes
import PandoHTTP
import PandoREST
import PandoWebSocket

/// The upgrade of an HTTP connection to a WebSocket (realtime §1): its request, and the answer.
struct UpgradeExchange {
    /// For which the messages of the WebSocket that the connection has become are compressed; nil where they
    /// are not.
    private(set) var window: DeflateWindow?

    /// Asks for the upgrade.
    /// - Parameter rest: What follows the request.
    func begin(_ head: RequestHead, rest: RawSpan, _ context: inout ConnectionContext) {
        context.append(.http(.upgrade(UpgradeRequest(head), rest: [UInt8](copying: rest))))
    }

    /// Answers the handshake of ``HTTPAction/upgrade(_:rest:)``.
    /// - Parameter mayJoin: Whether the session by long polling that the request names is here, and may move.
    /// - Returns: What was answered.
    mutating func answer(
        _ request: UpgradeRequest, mayJoin: Bool, _ context: inout ConnectionContext
    ) -> UpgradeResponse {
        let response = UpgradeResponse(
            to: request, mayJoin: mayJoin, context.compression, dateLine: context.dateLine)
        context.write(response.bytes)
        if response.isAccepted { window = response.window }
        return response
    }
}

/// The response to the handshake of a WebSocket (RFC 6455 §4.2.2; realtime §1.1).
struct UpgradeResponse {
    private(set) var bytes: [UInt8] = []
    private(set) var status = HTTPStatus.switchingProtocols
    /// Whether the connection is a WebSocket behind it; otherwise it ends.
    private(set) var isAccepted = false
    /// For which the messages of the WebSocket are compressed; nil where they are not.
    private(set) var window: DeflateWindow?

    /// - Parameters:
    ///   - mayJoin: Whether the session by long polling that the request names is here, and may move.
    ///   - compression: nil where the server agrees on no compression.
    ///   - dateLine: Of a refusal (``ResponseContext/dateLine``).
    init(
        to request: UpgradeRequest, mayJoin: Bool, _ compression: SharedCompression?, dateLine: [UInt8]
    ) {
        do throws(UpgradeRefusal) {
            var handshake = try ServerHandshake(
                request.head, deflate: compression == nil ? nil : DeflateOptions())
            if let agreement = handshake.deflate {
                // Without takeover on either side, so the connection has no memory of its own for it.
                if (try? compression?.sharedInflater()) == nil {
                    handshake.declineDeflate()
                } else {
                    window = DeflateWindow(windowBits: agreement.server.windowBits)
                }
            }
            handshake.appendResponse(to: &bytes)
        } catch {
            status = error.status
            let context = ResponseContext(request.head, dateLine: dateLine)
            ServerHandshake.appendRefusal(
                error, lines: context.dateLine, body: RESTResponse.refusalBody(status),
                isHead: context.isHead, to: &bytes)
            return
        }
        // Where the session may not move, the client goes on by long polling (realtime §1.6).
        isAccepted = mayJoin || !request.joins
        if !isAccepted { bytes.append(closeFrame: .normal) }
    }
}

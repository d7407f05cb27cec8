import PandoBytes
import PandoWebSocket

/// The response to the handshake of a WebSocket (RFC 6455 §4.2.2; realtime §1.1).
struct UpgradeResponse {
    private(set) var bytes: [UInt8] = []
    /// Whether the connection is a WebSocket behind it; otherwise it ends.
    private(set) var isAccepted = false
    /// For which the messages of the WebSocket are compressed; nil where they are not.
    private(set) var window: DeflateWindow?

    /// - Parameters:
    ///   - mayJoin: Whether the session by long polling that the request names is here, and may move.
    ///   - compression: nil where the server agrees on no compression.
    init(to request: UpgradeRequest, mayJoin: Bool, _ compression: SharedCompression?) {
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
            ServerHandshake.appendRefusal(error, requestID: request.head.requestID, to: &bytes)
            return
        }
        // Where the session may not move, the client goes on by long polling (realtime §1.6).
        isAccepted = mayJoin || !request.joins
        if !isAccepted { bytes.append(closeFrame: .normal) }
    }
}

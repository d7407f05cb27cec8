import PandoBytes
import PandoHTTP
import PandoReactor
import PandoTree
import PandoWebSocket

/// A connection before it has said what it wants: reads one request head, and becomes a WebSocket session or gets an
/// answer and is closed.
final class HTTPConnection: ChannelDelegate {
    /// A client that has not finished a head by then is cut off (slow-loris).
    static let headTimeout: Duration = .seconds(30)
    /// Where the realtime protocol lives (wire-protocol §1.1).
    private static let realtimePath = "/.ws"

    private let owner: IOLoop
    private var reader = RequestHeadReader()
    private var deadline: TimerToken?

    init(_ channel: Channel, on owner: IOLoop) {
        self.owner = owner
        deadline = owner.loop.schedule(after: Self.headTimeout) { [weak channel] in channel?.close() }
    }

    func received(_ bytes: inout MutableRawSpan, on channel: Channel) {
        var offset = 0
        do {
            guard let head = try reader.read(bytes.bytes, from: &offset) else { return }
            cancelDeadline()
            guard isRealtime(head.path) else { return answer(.notFound, "Not found", on: channel) }
            try upgrade(head, channel, &bytes, offset)
        } catch let error as HTTPError {
            answer(error.status, "Bad request", on: channel)
        } catch let refusal as UpgradeRefusal {
            var response: [UInt8] = []
            ServerHandshake.appendRefusal(refusal, to: &response)
            channel.write(response.rawSpan)
            channel.closeAfterFlush()
        } catch {
            channel.close()
        }
    }

    func channelDidClose(_ channel: Channel, reason: CloseReason) {
        cancelDeadline()
    }

    private func cancelDeadline() {
        if let deadline { owner.loop.cancel(deadline) }
        deadline = nil
    }

    /// `/.ws`, with or without slashes behind it.
    private func isRealtime(_ path: String) -> Bool {
        guard path.hasPrefix(Self.realtimePath) else { return false }
        return path.dropFirst(Self.realtimePath.count).allSatisfy { $0 == "/" }
    }

    /// Answers the handshake and hands the channel, with what the client sent ahead, to a session.
    private func upgrade(
        _ head: RequestHead, _ channel: Channel, _ bytes: inout MutableRawSpan, _ offset: Int
    ) throws(UpgradeRefusal) {
        let handshake = try ServerHandshake(head)
        var response: [UInt8] = []
        handshake.appendResponse(to: &response)
        channel.write(response.rawSpan)
        let query = head.query(plusIsSpace: false)
        let host = head.authority
        let named = query["ns"].flatMap { $0.isEmpty ? nil : $0 }
        let session = owner.open(
            channel,
            OpenRequest(
                namespace: named ?? NamespaceName.fromHost(host),
                host: Text(host),
                previousSession: query["ls"].map { Text($0) }))
        channel.delegate = session
        session.received(&bytes, from: offset, on: channel)
    }

    private func answer(_ status: HTTPStatus, _ message: StaticString, on channel: Channel) {
        var body: [UInt8] = []
        body.append("{\n  \"error\" : \"")
        body.append(message)
        body.append("\"\n}\n")
        var response: [UInt8] = []
        response.append(statusLine: status)
        response.append(field: "Content-Type", "application/json; charset=utf-8")
        response.append(field: "Content-Length", decimal: UInt64(body.count))
        response.append(field: "Connection", "close")
        response.appendEndOfHead()
        response += body
        channel.write(response.rawSpan)
        channel.closeAfterFlush()
    }
}

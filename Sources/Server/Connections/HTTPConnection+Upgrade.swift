import PandoBytes
import PandoHTTP
import PandoREST
import PandoWebSocket

// From HTTP to a WebSocket (wire-protocol §1).

extension HTTPConnection {
    /// Where the realtime protocol lives (wire-protocol §1.1).
    private static let realtimePath: StaticString = "/.ws"

    /// `/.ws`, with or without slashes behind it.
    func isRealtime(_ path: ArraySlice<UInt8>) -> Bool {
        guard path.span.hasPrefix(Self.realtimePath) else { return false }
        return path.dropFirst(Self.realtimePath.utf8CodeUnitCount).allSatisfy { $0 == UInt8(ascii: "/") }
    }

    /// Answers the handshake and hands the channel, with what the client sent ahead, to a session.
    func upgrade(_ head: RequestHead, _ bytes: inout MutableRawSpan, _ offset: Int) {
        if channel.isReserved {
            let context = AnswerContext(head, dateLine: owner.dateLine)
            return refuseForWantOfConnections(PendingRequest(context, began: owner.loop.now))
        }
        stage = .ended
        var response: [UInt8] = []
        do throws(UpgradeRefusal) {
            try ServerHandshake(head).appendResponse(to: &response)
        } catch {
            ServerHandshake.appendRefusal(error, to: &response)
            channel.write(response.rawSpan)
            owner.becameIdle(self)
            return channel.closeAfterFlush()
        }
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
        owner.forget(self)
        channel.delegate = session
        session.received(&bytes, from: offset, on: channel)
    }
}

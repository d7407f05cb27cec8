import PandoBytes
import PandoDatabase
import PandoHTTP
import PandoREST
import PandoReactor
import PandoStorage
import PandoWebSocket

// From HTTP to a WebSocket (realtime §1).

extension HTTPConnection {
    /// Where the realtime protocol lives (realtime §1.1).
    private static let realtimePath: StaticString = "/.ws"

    /// `/.ws`, with or without slashes behind it.
    func isRealtime(_ path: ArraySlice<UInt8>) -> Bool {
        guard path.span.hasPrefix(Self.realtimePath) else { return false }
        return path.dropFirst(Self.realtimePath.utf8CodeUnitCount).allSatisfy { $0 == UInt8(ascii: "/") }
    }

    /// Answers the handshake and hands the channel, with what the client sent ahead, to a session.
    func upgrade(_ head: RequestHead, _ bytes: inout MutableRawSpan, _ offset: Int) {
        if channel.isReserved {
            let context = ResponseContext(head, dateLine: owner.dateLine)
            return refuseForWantOfConnections(PendingRequest(context, began: owner.loop.now))
        }
        let query = head.query(plusIsSpace: false)
        // A session by long polling that is to move here; nil where there is none of that id (any more).
        let joins = query["s"] != nil
        let polling = query["s"].flatMap { PublicSessionID(Text($0)) }.flatMap { owner.directory[$0] }
        if let polling, let loop = otherLoop(of: polling) {
            return owner.move(self, head, rest: bytes.bytes.extracting(offset..<bytes.byteCount), to: loop)
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
        let host = head.authority
        let named = query["ns"].flatMap { $0.isEmpty ? nil : $0 } ?? NamespaceName.fromHost(host)
        channel.write(response.rawSpan)
        guard joins else {
            let session = owner.open(
                channel,
                OpenRequest(namespace: named, host: Text(host), previousSession: query["ls"].map { Text($0) })
            )
            return become(session, &bytes, offset)
        }
        guard let polling = polling.flatMap({ owner.polling($0) }), polling.mayBeJoined,
            NamespaceName.areSame(named, polling.namespace)
        else {
            // The client goes on by long polling (realtime §1.6).
            response = []
            response.append(closeFrame: .normal)
            channel.write(response.rawSpan)
            owner.becameIdle(self)
            return channel.closeAfterFlush()
        }
        let session = owner.join(channel, to: polling)
        polling.join(session)
        become(session, &bytes, offset)
    }

    private func become(_ session: WebSocketSession, _ bytes: inout MutableRawSpan, _ offset: Int) {
        owner.forget(self)
        channel.delegate = session
        session.received(&bytes, from: offset, on: channel)
    }
}

import PandoBytes
import PandoHTTP
import PandoReactor
import PandoWebSocket

/// One client of the echo server: the opening handshake, then each message is sent back.
final class EchoConnection: ChannelDelegate {
    private enum Stage {
        case head(RequestHeadReader)
        case open
    }

    private let owner: EchoLoop
    private var stage = Stage.head(RequestHeadReader())
    private var reader: MessageReader
    private var closing = CloseHandshake(role: .server)
    private var broadcasts = false

    init(on owner: EchoLoop) {
        self.owner = owner
        reader = MessageReader(role: .server, messageByteLimit: owner.messageByteLimit, checksText: true)
    }

    func received(_ bytes: inout MutableRawSpan, on channel: Channel) {
        var offset = 0
        if case .head(var head) = stage {
            guard readHandshake(&head, bytes.bytes, &offset, channel) else { return }
            stage = .open
        }
        readFrames(&bytes, from: offset, channel)
    }

    func channelDidEnd(_ channel: Channel) {
        _ = closing.peerVanished()
        channel.closeAfterFlush()
    }

    func channelDidClose(_ channel: Channel, reason: ChannelCloseReason) {
        owner.leave(channel)
    }

    // MARK: Handshake

    /// - Returns: true when the connection has become a WebSocket.
    private func readHandshake(
        _ reader: inout RequestHeadReader, _ bytes: RawSpan, _ offset: inout Int, _ channel: Channel
    ) -> Bool {
        var response: [UInt8] = []
        do {
            guard let head = try reader.read(bytes, from: &offset) else {
                stage = .head(reader)
                return false
            }
            try ServerHandshake(head).appendResponse(to: &response)
            broadcasts = head.path == "/broadcast"
            if broadcasts { owner.join(channel) }
            channel.write(response.rawSpan)
            return true
        } catch let refusal as UpgradeRefusal {
            ServerHandshake.appendRefusal(refusal, to: &response)
        } catch let error as HTTPError {
            response.append(statusLine: error.status)
            response.append(field: "Connection", "close")
            response.append(field: "Content-Length", "0")
            response.appendEndOfHead()
        } catch {
            preconditionFailure("heads and handshakes throw nothing else")
        }
        channel.write(response.rawSpan)
        channel.closeAfterFlush()
        return false
    }

    // MARK: Frames

    private func readFrames(_ bytes: inout MutableRawSpan, from start: Int, _ channel: Channel) {
        var offset = start
        // Moved out of `self` while spans into its memory are used, so that no one else accesses it.
        var reader = exchange(
            &self.reader, with: MessageReader(role: .server, messageByteLimit: 0, checksText: true))
        do {
            while let event = try reader.next(&bytes, from: &offset) {
                switch event {
                case .text(let payload): reader.withBytes(of: payload, in: bytes) { echo(.text, $0, channel) }
                case .binary(let payload):
                    reader.withBytes(of: payload, in: bytes) { echo(.binary, $0, channel) }
                case .ping(let payload): reader.withBytes(of: payload, in: bytes) { send(.pong, $0, channel) }
                case .pong: break
                case .close(let code, _): act(closing.receivedClose(code), channel)
                }
            }
        } catch {
            act(closing.failed(error), channel)
        }
        self.reader = consume reader
    }

    private func echo(_ opcode: Opcode, _ payload: RawSpan, _ channel: Channel) {
        guard broadcasts else { return send(opcode, payload, channel) }
        var frame: [UInt8] = []
        frame.reserveCapacity(payload.byteCount + 10)
        frame.append(frame: opcode, payload: payload)
        owner.broadcast(SharedBytes(frame))
    }

    private func send(_ opcode: Opcode, _ payload: RawSpan, _ channel: Channel) {
        guard closing.isOpen else { return }
        owner.withHeader(opcode, payloadByteCount: payload.byteCount) { channel.write($0) }
        channel.write(payload)
    }

    private func act(_ action: CloseHandshake.Action, _ channel: Channel) {
        switch action {
        case .nothing, .awaitEnd: break
        case .send(let code): sendClose(code, channel)
        case .sendThenDisconnect(let code), .sendThenAwaitEnd(let code):
            sendClose(code, channel)
            channel.closeAfterFlush()
        case .disconnect: channel.closeAfterFlush()
        }
    }

    private func sendClose(_ code: CloseCode?, _ channel: Channel) {
        var frame: [UInt8] = []
        frame.append(closeFrame: code)
        channel.write(frame.rawSpan)
    }
}

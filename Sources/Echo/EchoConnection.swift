import PandoBytes
import PandoHTTP
import PandoReactor
import PandoTLS
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
    /// nil where permessage-deflate was not negotiated.
    private var deflater: MessageDeflater?

    init(on owner: EchoLoop) {
        self.owner = owner
        reader = MessageReader(
            role: .server, messageByteLimit: owner.options.messageByteLimit, checksText: true)
    }

    /// Begins a connection on a socket.
    static func adopt(_ socket: ConnectedSocket, on owner: EchoLoop) {
        // It fails when there is no memory for one more epoll entry: then the socket is closed.
        let tls = owner.options.certificates.map { TLSConnection(server: $0.context) }
        _ = try? Channel.adopt(socket, on: owner.loop, tls: tls) { _ in EchoConnection(on: owner) }
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
            try upgrade(head, channel).appendResponse(to: &response)
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

    private func upgrade(_ head: RequestHead, _ channel: Channel) throws(UpgradeRefusal) -> ServerHandshake {
        broadcasts = head.path == "/broadcast"
        var options = owner.options.deflate
        // All listeners get the same frame.
        if broadcasts { options?.server.takesOver = false }
        var handshake = try ServerHandshake(head, deflate: options)
        if let agreement = handshake.deflate {
            if let compression = MessageCompression(
                agreement, role: .server, shared: owner.compression, budget: owner.options.budget)
            {
                deflater = compression.deflater
                reader = MessageReader(
                    role: .server, messageByteLimit: owner.options.messageByteLimit, checksText: true,
                    inflater: compression.inflater)
            } else {
                handshake.declineDeflate()
            }
        }
        if broadcasts { owner.join(channel, windowBits: handshake.deflate?.server.windowBits) }
        return handshake
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
                // Its inflaters leave none to it.
                case .compressed: act(closing.failed(.noMemoryToInflate), channel)
                case .ping(let payload):
                    reader.withBytes(of: payload, in: bytes) { sendPlain(.pong, $0, channel) }
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
        guard !broadcasts else { return owner.broadcast(opcode, payload) }
        guard let deflater, deflater.compresses(byteCount: payload.byteCount), closing.isOpen else {
            return sendPlain(opcode, payload, channel)
        }
        owner.withBuffer {
            deflater.append(message: opcode, payload: payload, to: &$0)
        } _: {
            channel.write($0)
        }
    }

    private func sendPlain(_ opcode: Opcode, _ payload: RawSpan, _ channel: Channel) {
        guard closing.isOpen else { return }
        owner.withBuffer {
            $0.append(frameHeader: opcode, payloadByteCount: payload.byteCount)
        } _: {
            channel.write($0)
        }
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

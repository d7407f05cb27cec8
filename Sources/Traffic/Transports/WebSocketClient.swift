import PandoBytes
import PandoCompression
import PandoHTTP
import PandoReactor
import PandoWebSocket

/// The events of a ``WebSocketClient``, on its loop.
package protocol WebSocketClientDelegate: AnyObject {
    /// The handshake is done; frames may be sent.
    func webSocketDidOpen(_ socket: WebSocketClient)
    /// Bytes were read: the messages in them follow, any number.
    func webSocketWillRead(_ socket: WebSocketClient)
    /// A text message; its bytes are valid during the call.
    func webSocket(_ socket: WebSocketClient, received text: RawSpan)
    func webSocketDidPong(_ socket: WebSocketClient)
    /// The last call. `problem` is nil when we had asked for the end.
    func webSocketDidEnd(_ socket: WebSocketClient, problem: String?)
}

extension WebSocketClientDelegate {
    package func webSocketWillRead(_ socket: WebSocketClient) {}
}

/// The client's side of a WebSocket: the opening handshake, then text messages. For measurements only: it
/// answers pings, does not check UTF-8, and its masking keys are cheap, not unpredictable. Confined to its
/// channel's loop.
package final class WebSocketClient: ChannelDelegate {
    private enum Stage {
        case upgrading(ClientHandshake, ResponseHeadReader)
        case open
    }

    private let messageByteLimit: Int
    private let channel: Channel
    private let maskingKeys: MaskingKeys
    /// Released at the end: it usually references this object.
    private var delegate: (any WebSocketClientDelegate)?
    private var stage: Stage
    private var isClosing = false
    private var problem: String?
    private var reader: MessageReader
    /// What the connections of one loop share that offer permessage-deflate; nil where none is offered.
    private let compression: SharedCompression?
    /// Of this client's messages, where both sides have agreed on it.
    private var deflater: MessageDeflater?

    /// Sends the upgrade request at once.
    /// - Parameters:
    ///   - target: Path and query.
    ///   - host: For the field `Host`.
    ///   - maskingKeys: Shared by the connections of one loop, as is `compression`.
    ///   - compression: For permessage-deflate; nil offers none.
    package init(
        on channel: Channel, target: String, host: String, messageByteLimit: Int, maskingKeys: MaskingKeys,
        compression: SharedCompression? = nil, delegate: any WebSocketClientDelegate
    ) {
        self.channel = channel
        self.messageByteLimit = messageByteLimit
        self.maskingKeys = maskingKeys
        self.compression = compression
        self.delegate = delegate
        reader = MessageReader(role: .client, messageByteLimit: messageByteLimit, checksText: false)
        let handshake = ClientHandshake(
            nonce: (.random(in: 0 ... .max), .random(in: 0 ... .max)),
            deflate: compression == nil ? nil : .withoutTakeover)
        stage = .upgrading(handshake, ResponseHeadReader())
        var request: [UInt8] = []
        handshake.appendRequest(target: target, host: host, to: &request)
        channel.write(request.rawSpan)
    }

    /// Sends a text message. All messages that are sent while one read is handled leave with one system call.
    package func send(_ text: [UInt8]) {
        send(.text, text.rawSpan)
    }

    /// The same.
    package func send(_ text: RawSpan) {
        send(.text, text)
    }

    package func ping() {
        let nothing: [UInt8] = []
        send(.ping, nothing.rawSpan)
    }

    /// Asks the server to end the connection (RFC 6455 §7.1.1: it does so first).
    package func close() {
        let code: [UInt8] = [0x03, 0xE8]  // 1000, normal
        send(.close, code.rawSpan)
        isClosing = true
    }

    /// Resets the connection.
    package func cut() {
        isClosing = true
        channel.reset()
    }

    private func send(_ opcode: Opcode, _ payload: RawSpan) {
        if opcode == .text, let deflater, deflater.compresses(byteCount: payload.byteCount) {
            var frame: [UInt8] = []
            deflater.append(message: .text, payload: payload, to: &frame, maskingKey: .random(in: 1 ... .max))
            return channel.write(frame.rawSpan)
        }
        maskingKeys.withFrame(opcode, payload) { channel.write($0) }
    }

    /// Ends the connection because the peer violated the protocol.
    private func fail(_ text: String) {
        guard problem == nil else { return }
        problem = text
        channel.close()
    }

    // MARK: What comes

    package func received(_ bytes: inout MutableRawSpan, on channel: Channel) {
        var offset = 0
        if case .upgrading(let handshake, var head) = stage {
            do {
                guard let response = try head.read(bytes.bytes, from: &offset) else {
                    stage = .upgrading(handshake, head)
                    return
                }
                if try handshake.check(response) != nil { try agreeOnCompression() }
            } catch {
                return fail("not upgraded: \(error)")
            }
            stage = .open
            delegate?.webSocketDidOpen(self)
        }
        if let delegate {
            delegate.webSocketWillRead(self)
            readFrames(&bytes, from: offset, for: delegate)
        }
    }

    private func agreeOnCompression() throws(CompressionError) {
        guard let compression else { return }
        deflater = try compression.deflater(windowBits: 15)
        reader = MessageReader(
            role: .client, messageByteLimit: messageByteLimit, checksText: false,
            inflater: try compression.sharedInflater())
    }

    /// - Parameter delegate: ``delegate``, retained once for all messages.
    private func readFrames(
        _ bytes: inout MutableRawSpan, from start: Int, for delegate: any WebSocketClientDelegate
    ) {
        var offset = start
        // The reader returns spans of its own memory, so no other code may use it meanwhile.
        var reader = exchange(
            &self.reader, with: MessageReader(role: .client, messageByteLimit: 0, checksText: false))
        do {
            while let event = try reader.next(&bytes, from: &offset) {
                switch event {
                case .text(let payload):
                    reader.withBytes(of: payload, in: bytes) { delegate.webSocket(self, received: $0) }
                case .binary: fail("a binary message")
                case .compressed: fail("a message that was left compressed")
                case .ping(let payload): reader.withBytes(of: payload, in: bytes) { send(.pong, $0) }
                case .pong: delegate.webSocketDidPong(self)
                case .close(let code, _):
                    guard !isClosing else { break }
                    problem = "closed by the server, code \(code?.rawValue ?? 1005)"
                }
            }
        } catch {
            fail("\(error)")
        }
        self.reader = reader
    }

    package func channelDidEnd(_ channel: Channel) {
        channel.close()
    }

    package func channelDidClose(_ channel: Channel, reason: ChannelCloseReason) {
        let last = delegate
        delegate = nil
        guard reason != .loopStopped else { return }
        // After a failure of TLS the reason says which.
        if !isClosing, problem == nil {
            problem = reason == .requested ? "ended by the server" : "\(reason)"
        }
        last?.webSocketDidEnd(self, problem: isClosing ? nil : problem)
    }
}

import PandoBytes
import PandoHTTP
import PandoReactor
import PandoWebSocket

/// One connection to the measured server: the opening handshake, the greeting and the listen if it needs them,
/// then messages for its session's load.
final class Client: ChannelDelegate {
    private enum Stage {
        case upgrading(ClientHandshake, ResponseHeadReader)
        case awaitingGreeting
        case awaitingListen
        case ready
    }

    /// 0…; the load knows what each does.
    let index: Int
    private let session: Session
    private let channel: Channel
    private var stage: Stage
    private var isClosing = false
    private var reader = MessageReader(role: .client, messageByteLimit: 1 << 20, checksText: false)

    init(_ index: Int, on channel: Channel, of session: Session) {
        self.index = index
        self.channel = channel
        self.session = session
        let handshake = ClientHandshake(nonce: (.random(in: 0 ... .max), .random(in: 0 ... .max)))
        stage = .upgrading(handshake, ResponseHeadReader())
        var request: [UInt8] = []
        handshake.appendRequest(
            target: session.load.dialect.target, host: session.host, to: &request)
        channel.write(request.rawSpan)
    }

    /// Sends a text message. In an answer to a message it leaves with all others in one system call.
    func send(_ text: [UInt8]) {
        send(.text, text.rawSpan)
    }

    func ping() {
        let nothing: [UInt8] = []
        send(.ping, nothing.rawSpan)
    }

    /// Asks the server to end the connection (RFC 6455 §7.1.1: it does so first).
    func close() {
        let code: [UInt8] = [0x03, 0xE8]  // 1000, normal
        send(.close, code.rawSpan)
        isClosing = true
    }

    private func send(_ opcode: Opcode, _ payload: RawSpan) {
        session.withFrame(opcode, payload) { channel.write($0) }
    }

    // MARK: What comes

    func received(_ bytes: inout MutableRawSpan, on channel: Channel) {
        var offset = 0
        if case .upgrading(let handshake, var head) = stage {
            do {
                guard let answer = try head.read(bytes.bytes, from: &offset) else {
                    stage = .upgrading(handshake, head)
                    return
                }
                try handshake.check(answer)
            } catch {
                return session.fail("connection \(index) was not upgraded: \(error)")
            }
            if session.load.dialect.awaitsGreeting { stage = .awaitingGreeting } else { becomeReady() }
        }
        readFrames(&bytes, from: offset)
    }

    private func readFrames(_ bytes: inout MutableRawSpan, from start: Int) {
        var offset = start
        // The reader lends memory of its own, so nobody else may hold it meanwhile.
        var reader = MessageReader(role: .client, messageByteLimit: 0, checksText: false)
        swap(&reader, &self.reader)
        do {
            while let event = try reader.next(&bytes, from: &offset) {
                switch event {
                case .text(let payload): reader.withBytes(of: payload, in: bytes) { received($0) }
                case .binary: session.fail("connection \(index): a binary message")
                case .ping(let payload): reader.withBytes(of: payload, in: bytes) { send(.pong, $0) }
                case .pong: session.ponged()
                case .close(let code, _):
                    guard !isClosing else { break }
                    session.fail("connection \(index): closed by the server, code \(code?.rawValue ?? 1005)")
                }
            }
        } catch {
            session.fail("connection \(index): \(error)")
        }
        swap(&reader, &self.reader)
    }

    private func received(_ text: RawSpan) {
        switch stage {
        case .ready: session.load.received(text, by: self)
        case .awaitingGreeting:
            guard Dialect.isGreeting(text) else { return session.fail("connection \(index): no greeting") }
            guard let path = session.load.listenedPath(of: index) else { return becomeReady() }
            var listen: [UInt8] = []
            Dialect.appendListen(path: path, to: &listen)
            send(listen)
            stage = .awaitingListen
        case .awaitingListen:
            // What stands before the answer is the data of now: an earlier run's.
            if Dialect.acknowledged(text) == Dialect.listenNumber { becomeReady() }
        case .upgrading: preconditionFailure("frames come behind the head")
        }
    }

    private func becomeReady() {
        stage = .ready
        session.becameReady(self)
    }

    func channelDidEnd(_ channel: Channel) {
        channel.close()
    }

    func channelDidClose(_ channel: Channel, reason: CloseReason) {
        guard reason != .loopStopped else { return }
        session.ended(self, because: reason == .requested ? "ended by the server" : "\(reason)")
    }
}

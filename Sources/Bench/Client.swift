import PandoBytes
import PandoReactor
import PandoTraffic

/// One connection to the measured server: the greeting and the listen if it needs them, then messages for its
/// session's load.
final class Client: WebSocketClientDelegate {
    private enum Stage { case awaitingUpgrade, awaitingGreeting, awaitingListen, ready }

    /// No server of ours sends a longer message to us.
    private static let messageByteLimit = 1 << 20

    /// 0…; the load knows what each does.
    let index: Int
    private var socket: WebSocketClient?
    private let session: Session
    private var stage = Stage.awaitingUpgrade

    init(_ index: Int, of session: Session) {
        self.index = index
        self.session = session
    }

    /// Becomes a WebSocket on `channel`.
    func connect(on channel: Channel) -> WebSocketClient {
        let socket = WebSocketClient(
            on: channel, target: session.load.dialect.target, host: session.host,
            messageByteLimit: Self.messageByteLimit, maskingKeys: session.maskingKeys, delegate: self)
        self.socket = socket
        return socket
    }

    /// Sends a text message. In an answer to a message it leaves with all others in one system call.
    func send(_ text: [UInt8]) { socket?.send(text) }

    func ping() { socket?.ping() }

    /// Asks the server to end the connection.
    func close() { socket?.close() }

    // MARK: What comes

    func webSocketDidOpen(_ socket: WebSocketClient) {
        if session.load.dialect.awaitsGreeting { stage = .awaitingGreeting } else { becomeReady() }
    }

    func webSocket(_ socket: WebSocketClient, received text: RawSpan) {
        switch stage {
        case .ready: session.load.received(text, by: self)
        case .awaitingGreeting:
            guard WireProtocol.isGreeting(text) else {
                return session.fail("connection \(index): no greeting")
            }
            guard let path = session.load.listenedPath(of: index) else { return becomeReady() }
            var listen: [UInt8] = []
            WireProtocol.appendListen(path: path, to: &listen)
            send(listen)
            stage = .awaitingListen
        case .awaitingListen:
            // What stands before the answer is the data of now: an earlier run's.
            if WireProtocol.acknowledged(text) == WireProtocol.listenNumber { becomeReady() }
        case .awaitingUpgrade: preconditionFailure("messages come behind the head")
        }
    }

    private func becomeReady() {
        stage = .ready
        session.becameReady(self)
    }

    func webSocketDidPong(_ socket: WebSocketClient) { session.ponged() }

    func webSocketDidEnd(_ socket: WebSocketClient, problem: String?) {
        session.ended(self, because: problem ?? "ended by the server")
    }
}

import PandoBytes
import PandoReactor
import PandoTraffic
import PandoWebSocket

/// A realtime connection of an honest client: requests, each with a closure for its reply, and pushes. It
/// may be connected again after its end; requests meanwhile are sent then. Confined to its loop.
final class RealtimeLink: WebSocketClientDelegate {
    /// Called once: with the reply and its message, or with nil when the connection ended before.
    typealias ReplyHandler = (Reply?, RawSpan) -> Void

    /// SDKs send a keep-alive this often.
    private static let keepAlivePause: Duration = .seconds(45)
    private static let frameByteLimit = 1 << 20

    /// The greeting has come, and the token was accepted. Called before requests that waited are sent.
    var onUp: () -> Void = {}
    /// A push: its action, and the range of its body in the message.
    var onPush: (String, Range<Int>, RawSpan) -> Void = { _, _, _ in }
    /// The connection ended, or could not be made. The link may be connected again.
    var onEnd: (String) -> Void = { _ in }
    private(set) var isUp = false
    /// Bytes of messages since the link was made.
    private(set) var receivedByteCount = 0
    /// Bytes that are read a second; nil for no limit.
    var pace: Int? { didSet { pacing?.bytesPerSecond = pace } }

    private let site: HostileSite
    private let loop: EventLoop
    private let options: SocketOptions
    private let maskingKeys = MaskingKeys()
    private let compression: SharedCompression?
    private var socket: WebSocketClient?
    private var pacing: PacedReader?
    private var chunks = ChunkedMessage()
    private var nextNumber = 1
    private var handlers: [Int: ReplyHandler] = [:]
    private var unsent: [[UInt8]] = []
    private var isLeaving = false
    /// Counts connections, so that a keep-alive of an earlier one ends with it.
    private var connectionNumber = 0

    init(_ site: HostileSite, on loop: EventLoop, options: SocketOptions = SocketOptions(), pace: Int? = nil)
    {
        self.site = site
        compression = site.target.compresses ? SharedCompression() : nil
        self.loop = loop
        self.options = options
        self.pace = pace
    }

    /// Connects; ``onUp`` or ``onEnd`` follows, never from inside this call.
    func connect() {
        (isUp, isLeaving, chunks) = (false, false, ChunkedMessage())
        connectionNumber += 1
        do {
            try site.target.connect(on: loop, options: options) { [self] channel in
                let made = WebSocketClient(
                    on: channel, target: site.realtimeTarget, host: site.target.host,
                    messageByteLimit: Self.frameByteLimit, maskingKeys: maskingKeys, compression: compression,
                    delegate: self)
                socket = made
                guard pace != nil else { return made }
                let paced = PacedReader(made, of: channel, on: loop, bytesPerSecond: pace)
                pacing = paced
                return paced
            } onFailure: { [self] error in
                ended("\(error)")
            }
        } catch {
            loop.schedule(after: .zero) { [self] in ended("\(error)") }
        }
    }

    /// Ends the connection; ``onEnd`` is not called, and replies that are missing come as nil.
    func close() {
        isLeaving = true
        guard let socket else { return ended("") }
        socket.cut()
    }

    /// Sends a request (§3.3) whose body has the path, and what `members` appends behind it.
    func request(
        _ action: StaticString, _ path: String, _ members: (inout [UInt8]) -> Void = { _ in },
        then handler: @escaping ReplyHandler
    ) {
        let number = takeNumber(handler)
        var text: [UInt8] = []
        text.append(realtimeRequest: action, number: number, path: path, members)
        if isUp { socket?.send(text) } else { unsent.append(text) }
    }

    private func takeNumber(_ handler: @escaping ReplyHandler) -> Int {
        defer { nextNumber += 1 }
        handlers[nextNumber] = handler
        return nextNumber
    }

    private func keepAlive(_ number: Int) {
        loop.schedule(after: Self.keepAlivePause) { [weak self] in
            guard let self, isUp, number == connectionNumber else { return }
            socket?.send([UInt8(ascii: "0")])
            keepAlive(number)
        }
    }

    // MARK: What comes

    func webSocketDidOpen(_ socket: WebSocketClient) {}

    func webSocketDidPong(_ socket: WebSocketClient) {}

    func webSocketDidEnd(_ socket: WebSocketClient, problem: String?) { ended(problem ?? "ended") }

    func webSocket(_ socket: WebSocketClient, received text: RawSpan) {
        receivedByteCount += text.byteCount
        switch chunks.append(text) {
        case .whole: handle(text)
        case .partial: break
        case .complete(let message): handle(message.rawSpan)
        case .tooLong: socket.cut()
        }
    }

    private func handle(_ text: RawSpan) {
        if let number = Envelope.plainReply(text) { return handle(number, .ok, text) }
        guard let message = try? Envelope.read(text) else { return }
        switch message {
        case .greeting: greeted()
        case .reply(let number, let status, _):
            handle(number, status == "datastale" ? .stale : status.map { .refused($0) } ?? .ok, text)
        case .push(let action, let body): onPush(action, body, text)
        case .otherControl: break
        }
    }

    private func handle(_ number: Int, _ reply: Reply, _ text: RawSpan) {
        if let handler = handlers.removeValue(forKey: number) { handler(reply, text) }
    }

    private func greeted() {
        guard let token = site.token else { return up() }
        let number = takeNumber { [weak self] reply, _ in
            guard let self else { return }
            if case .ok? = reply { up() } else if reply != nil { socket?.cut() }
        }
        var text: [UInt8] = []
        text.append(authentication: token, number: number)
        socket?.send(text)
    }

    private func up() {
        isUp = true
        onUp()
        for text in unsent { socket?.send(text) }
        unsent = []
        keepAlive(connectionNumber)
    }

    private func ended(_ problem: String) {
        (isUp, socket, pacing) = (false, nil, nil)
        unsent = []
        let lost = handlers
        handlers = [:]
        let nothing: [UInt8] = []
        for reply in lost.values { reply(nil, nothing.rawSpan) }
        if !isLeaving { onEnd(problem) }
    }
}

extension [UInt8] {
    /// Appends a request of the realtime protocol (§3.3).
    /// - Parameter members: Appends the members after the path, beginning with a comma.
    mutating func append(
        realtimeRequest action: StaticString, number: Int, path: String, _ members: (inout [UInt8]) -> Void
    ) {
        append(#"{"t":"d","d":{"r":"#)
        append(decimal: Int64(number))
        append(#","a":""#)
        append(action)
        append(#"","b":{"p":"/"#)
        append(utf8: path)
        append(#"""#)
        members(&self)
        append(#"}}}"#)
    }
}

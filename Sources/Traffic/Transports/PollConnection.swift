import PandoBytes
import PandoHTTP
import PandoReactor

/// The session by long polling that a connection belongs to.
protocol PollConnectionDelegate: AnyObject {
    var loop: EventLoop { get }
    /// Where the connection connects to.
    var address: SocketAddress { get }
    /// A response has come.
    func read(_ script: RawSpan, statusCode: Int, from connection: PollConnection)
    /// A request will not have a response.
    func failed(_ connection: PollConnection, _ problem: String)
}

/// A persistent HTTP connection of a long-polling session: one request at a time. As in a browser, a request
/// on a connection that was used before, and that ends before the first byte of the response, is repeated on
/// a new connection.
final class PollConnection: ChannelDelegate {
    /// The longest response that is accepted.
    private static let bodyByteLimit: UInt64 = 256 << 20

    private enum Stage {
        case head(ResponseHeadReader)
        case body(ResponseHead, BodyReader)
    }

    /// Released at the end: it references this object.
    var session: (any PollConnectionDelegate)?
    private var channel: Channel?
    private var stage = Stage.head(ResponseHeadReader())
    private var body: [UInt8] = []
    private var request: [UInt8] = []
    /// Responses that this TCP connection has had, and whether the next one has begun.
    private var responseCount = 0
    private var hasBegun = false
    /// A request waits for its response.
    private(set) var isBusy = false
    /// The poll has waited so long that the session has sent another and does not count this one.
    var isLate = false
    var lateTimer: TimerToken?

    /// - Parameter channel: A connection that is open; nil to connect with the first request.
    init(of session: (any PollConnectionDelegate)? = nil, on channel: Channel? = nil) {
        self.session = session
        self.channel = channel
    }

    func send(_ bytes: [UInt8]) {
        precondition(!isBusy, "one request at a time")
        (request, isBusy, isLate) = (bytes, true, false)
        guard let channel else { return connect() }
        channel.write(bytes.rawSpan)
    }

    private func connect() {
        guard let session else { return }
        let loop = session.loop
        (stage, body, responseCount, hasBegun) = (.head(ResponseHeadReader()), [], 0, false)
        do {
            try Connector.connect(to: session.address, on: loop) { [self] channel in
                guard self.session != nil else {
                    // Ended meanwhile. Not from inside the call that returns the delegate.
                    loop.schedule(after: .zero) { channel.close() }
                    return self
                }
                self.channel = channel
                let waiting = request
                channel.write(waiting.rawSpan)
                return self
            } onFailure: { [self] error in
                self.session?.failed(self, "\(error)")
            }
        } catch {
            session.failed(self, "\(error)")
        }
    }

    /// Ends the connection; the session gets no more calls.
    func end(resets: Bool) {
        session = nil
        if resets { channel?.reset() } else { channel?.close() }
        channel = nil
    }

    func received(_ bytes: inout MutableRawSpan, on channel: Channel) {
        hasBegun = true
        var offset = 0
        do {
            while session != nil, try readPart(bytes.bytes, &offset) {}
        } catch {
            session?.failed(self, "no HTTP: \(error)")
        }
    }

    /// - Returns: false when the bytes are used up.
    private func readPart(_ bytes: RawSpan, _ offset: inout Int) throws(HTTPError) -> Bool {
        switch stage {
        case .head(var reader):
            guard offset < bytes.byteCount else { return false }
            guard let head = try reader.read(bytes, from: &offset) else {
                stage = .head(reader)
                return false
            }
            stage = .body(head, try BodyReader(head.framing, byteLimit: Self.bodyByteLimit))
            return true
        case .body(let head, var reader):
            guard let event = try reader.next(bytes, from: &offset) else {
                stage = .body(head, reader)
                return false
            }
            stage = .body(head, reader)
            switch event {
            case .data(let range): body.append(bytes.extracting(range))
            case .end: replied(head)
            }
            return true
        }
    }

    private func replied(_ head: ResponseHead) {
        stage = .head(ResponseHeadReader())
        responseCount += 1
        hasBegun = false
        let whole = exchange(&body, with: [])
        guard isBusy, let session else {
            self.session?.failed(self, "a reply to no request")
            return
        }
        if !head.keepsAlive {
            channel?.close()
            channel = nil
        }
        // Busy until the messages are delivered: requests meanwhile use the other connection, as in the SDK.
        session.read(whole.rawSpan, statusCode: head.statusCode, from: self)
    }

    /// The response has been handled.
    func becomeFree() { isBusy = false }

    func channelDidEnd(_ channel: Channel) {
        channel.close()
    }

    func channelDidClose(_ channel: Channel, reason: ChannelCloseReason) {
        guard channel === self.channel else { return }
        self.channel = nil
        guard reason != .loopStopped, let session, isBusy else { return }
        guard responseCount > 0, !hasBegun else { return session.failed(self, "\(reason)") }
        connect()
    }
}

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
    /// Released at the end: it references this object.
    var session: (any PollConnectionDelegate)?
    private var channel: Channel?
    private var responses = ResponseReader()
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
        (responses, responseCount, hasBegun) = (ResponseReader(), 0, false)
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
            while session != nil, let (head, body) = try responses.next(bytes.bytes, from: &offset) {
                replied(head, body)
            }
        } catch {
            session?.failed(self, "no HTTP: \(error)")
        }
    }

    private func replied(_ head: ResponseHead, _ body: [UInt8]) {
        responseCount += 1
        hasBegun = false
        guard isBusy, let session else {
            self.session?.failed(self, "a reply to no request")
            return
        }
        if !head.keepsAlive {
            channel?.close()
            channel = nil
        }
        // Busy until the messages are delivered: requests meanwhile use the other connection, as in the SDK.
        session.read(body.rawSpan, statusCode: head.statusCode, from: self)
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

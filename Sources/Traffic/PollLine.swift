import PandoBytes
import PandoHTTP
import PandoReactor

/// One kept HTTP connection of a session of long polling: one request at a time. As in a browser, a
/// connection that was used before and turns out to be closed before any byte of an answer is made anew, and
/// the request once more.
final class PollLine: ChannelDelegate {
    /// Longest answer that is taken.
    private static let bodyByteLimit: UInt64 = 256 << 20

    private enum Stage {
        case head(ResponseHeadReader)
        case body(ResponseHead, BodyReader)
    }

    /// Let go of at the end: it holds this object.
    var session: LongPollingClient?
    private var channel: Channel?
    private var stage = Stage.head(ResponseHeadReader())
    private var body: [UInt8] = []
    private var request: [UInt8] = []
    /// Answers that this TCP connection has brought, and whether any byte of the next one has come.
    private var answerCount = 0
    private var hasBegun = false
    /// Waits for an answer.
    private(set) var isBusy = false
    /// The client does not count its poll any more: it has waited too long and made another.
    var isLate = false
    var lateTimer: TimerToken?

    /// - Parameter channel: A connection that stands already.
    init(of session: LongPollingClient? = nil, on channel: Channel? = nil) {
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
        (stage, body, answerCount, hasBegun) = (.head(ResponseHeadReader()), [], 0, false)
        do {
            try Connector.connect(to: session.address, on: loop) { [self] channel in
                guard self.session != nil else {
                    // Ended meanwhile; not from inside the call that hands the channel out.
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
            case .end: answered(head)
            }
            return true
        }
    }

    private func answered(_ head: ResponseHead) {
        stage = .head(ResponseHeadReader())
        answerCount += 1
        hasBegun = false
        var whole: [UInt8] = []
        swap(&whole, &body)
        guard isBusy, let session else {
            self.session?.failed(self, "an answer to no request")
            return
        }
        if !head.keepsAlive {
            channel?.close()
            channel = nil
        }
        // Busy until the messages are delivered: what is sent meanwhile takes the other line, as in the SDK.
        session.read(whole.rawSpan, statusCode: head.statusCode, from: self)
    }

    /// The answer is dealt with.
    func becomeFree() { isBusy = false }

    func channelDidEnd(_ channel: Channel) {
        channel.close()
    }

    func channelDidClose(_ channel: Channel, reason: CloseReason) {
        guard channel === self.channel else { return }
        self.channel = nil
        guard reason != .loopStopped, let session, isBusy else { return }
        guard answerCount > 0, !hasBegun else { return session.failed(self, "\(reason)") }
        connect()
    }
}

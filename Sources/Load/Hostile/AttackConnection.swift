import PandoBytes
import PandoHTTP
import PandoReactor
import PandoTime
import PandoTraffic
import PandoWebSocket

/// What opens the connections of an attacker.
protocol AttackConnectionDelegate: AnyObject {
    /// The connection has ended: because the server has ended it (`cut`), or on its own account.
    func lost(_ connection: AttackConnection, cut: Bool)
}

/// A connection of an attacker: opens, sends the burst of its role, and goes on as ``AttackRole/next`` says.
/// Confined to its loop.
///
///     (upgrading, or starting a session) ─▶ attacking ─▶ over
final class AttackConnection: ChannelDelegate {
    private enum Stage {
        case upgrading(ClientHandshake, ResponseHeadReader)
        /// By long polling: its response has the session's id and password.
        case starting(PollingStart)
        case attacking, over
    }

    /// How often a connection that will disconnect checks whether everything was sent.
    private static let hangUpTick: Duration = .milliseconds(16)
    /// How often the allowance of a slow reader grows.
    private static let pacingTick: Duration = .milliseconds(48)

    private let channel: Channel
    private let context: AttackContext
    /// Not unowned: bytes may come, and timers fire, when it has ended. It forgets its connections at its
    /// end.
    private let delegate: any AttackConnectionDelegate
    private let burst: SharedBytes?
    private var stage: Stage
    private var writtenByteCount = 0
    /// Bytes that a paced connection may read now.
    private var allowance = 0
    /// Of a session by long polling.
    private var credentials: PollingStart.Credentials?
    private var pollCount = 0

    init(_ channel: Channel, _ context: AttackContext, delegate: any AttackConnectionDelegate) {
        self.channel = channel
        self.context = context
        self.delegate = delegate
        burst = context.takeBurst()
        switch context.role.opening {
        case .tcp:
            stage = .attacking
            // Not from inside the call that is about to hand the channel out.
            context.loop.schedule(after: .zero) { [weak self] in self?.attack() }
        case .polling:
            stage = .starting(PollingStart())
            var request: [UInt8] = []
            request.append(polling: PollingStart.parameters, at: context.site)
            write(request)
        case .webSocket:
            let handshake = ClientHandshake(
                nonce: (.random(in: 0 ... .max), .random(in: 0 ... .max)),
                deflate: context.site.target.compresses ? .withoutTakeover : nil)
            stage = .upgrading(handshake, ResponseHeadReader())
            var request: [UInt8] = []
            handshake.appendRequest(
                target: context.site.realtimeTarget, host: context.site.target.host, to: &request)
            write(request)
        }
    }

    private var isAttacking: Bool {
        if case .attacking = stage { true } else { false }
    }

    /// Ends the connection at once.
    func cut() {
        guard channel.isOpen else { return }
        settleCount()
        stage = .over
        channel.reset()
    }

    private func attack() {
        guard isAttacking, channel.isOpen else { return }
        if context.role.opening == .webSocket, let token = context.site.token {
            var text: [UInt8] = []
            text.append(authentication: token, number: 0)
            var frame: [UInt8] = []
            frame.append(clientFrame: text)
            write(frame)
        }
        if case .polling(let pause) = context.role.opening { poll(every: pause) } else { send() }
        switch context.role.reading {
        case .nothing: channel.pauseReading()
        case .everything: break
        case .paced(let bytesPerSecond, let wait):
            if wait > .zero { channel.pauseReading() }
            pace(bytesPerSecond, after: max(wait, Self.pacingTick))
        }
        if case .hangUp(let wait) = context.role.next { hangUp(at: .now + wait) }
    }

    private func write(_ bytes: [UInt8]) {
        writtenByteCount += bytes.count
        channel.write(bytes.rawSpan)
    }

    private func send() {
        guard let burst else { return }
        writtenByteCount += burst.count
        context.sentBurst(burst.count)
        channel.write(burst)
    }

    private func poll(every pause: Duration?) {
        guard isAttacking, channel.isOpen, let credentials else { return }
        pollCount += 1
        var request: [UInt8] = []
        // The request that started the session had the first number.
        var parameters = "ser=\(pollCount + 1)&id=\(credentials.id)&pw=\(credentials.password)"
        if pollCount == 1, let burst { parameters += String(decoding: burst.array, as: UTF8.self) }
        request.append(polling: parameters, at: context.site)
        context.sentBurst(request.count)
        write(request)
        guard let pause else { return }
        context.loop.schedule(after: pause) { [weak self] in self?.poll(every: pause) }
    }

    /// Subtracts what waits in this process: it was not sent.
    private func settleCount() { context.notSent(channel.outboundByteCount) }

    private func hangUp(at deadline: MonotonicTime) {
        context.loop.schedule(after: Self.hangUpTick) { [weak self] in
            guard let self, isAttacking, channel.isOpen else { return }
            guard channel.acknowledgedByteCount >= writtenByteCount || .now >= deadline else {
                return hangUp(at: deadline)
            }
            cut()
            delegate.lost(self, cut: false)
        }
    }

    private func pace(_ bytesPerSecond: Int, after wait: Duration) {
        context.loop.schedule(after: wait) { [weak self] in
            guard let self, isAttacking, channel.isOpen else { return }
            let grown = Double(bytesPerSecond) * (Self.pacingTick / .seconds(1))
            allowance = min(allowance + Int(grown), bytesPerSecond)
            if allowance > 0 { channel.resumeReading() }
            pace(bytesPerSecond, after: Self.pacingTick)
        }
    }

    // MARK: What comes

    func received(_ bytes: inout MutableRawSpan, on channel: Channel) {
        context.read(bytes.byteCount)
        do {
            if try begin(bytes.bytes) { return attack() }
        } catch {
            return channel.close()
        }
        if case .paced = context.role.reading {
            allowance -= bytes.byteCount
            if allowance <= 0 { channel.pauseReading() }
        }
        if case .sendAgainWhenAnswered = context.role.next, isAttacking,
            channel.acknowledgedByteCount >= writtenByteCount
        {
            send()
        }
    }

    /// Reads the response to the request that opens the connection.
    /// - Returns: Whether it is complete with these bytes.
    private func begin(_ bytes: RawSpan) throws -> Bool {
        var offset = 0
        switch stage {
        case .attacking, .over: return false
        case .upgrading(let handshake, var head):
            guard let response = try head.read(bytes, from: &offset) else {
                stage = .upgrading(handshake, head)
                return false
            }
            try handshake.check(response)
        case .starting(var start):
            credentials = try start.read(bytes)
            guard credentials != nil else {
                stage = .starting(start)
                return false
            }
        }
        stage = .attacking
        return true
    }

    func channelDidDrain(_ channel: Channel) {
        if case .sendAgain = context.role.next, isAttacking { send() }
    }

    func channelDidEnd(_ channel: Channel) { channel.close() }

    func channelDidClose(_ channel: Channel, reason: ChannelCloseReason) {
        if case .over = stage { return }
        stage = .over
        if reason != .loopStopped { delegate.lost(self, cut: true) }
    }
}

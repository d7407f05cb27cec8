import PandoBytes
import PandoEngine
import PandoIdentity
import PandoREST
import PandoReactor

/// One connection as the database thread knows it: what it is sent, in order. Confined to its loop.
///
///     ready ──large message──▶ encoding ──pieces──▶ sending ──last piece──▶ ready
///
/// While a large message is on its way, later outputs wait behind it. What waits, and what a client leaves unread, is
/// bounded: a client with much to take is not read from, and one that takes nothing is cut off.
class ClientSession: ChannelDelegate {
    /// Why a socket is not read for a while. It is read again when no reason is left.
    struct PauseReasons: OptionSet {
        let rawValue: UInt8
        /// The database or the disk is behind.
        static let congestion = PauseReasons(rawValue: 1)
        /// A token is being verified; what comes behind it waits.
        static let verification = PauseReasons(rawValue: 2)
        /// The client has much to take before it may ask for more.
        static let unreadOutput = PauseReasons(rawValue: 4)
        /// A REST request is under way, and the next one waits for its answer.
        static let request = PauseReasons(rawValue: 8)
    }

    private enum Outlet {
        case ready
        case encoding(LargeMessage)
        /// `next`: the piece to be sent next.
        case sending(LargeMessage, next: Int)
    }

    fileprivate enum Waiting {
        case bytes([UInt8])
        case shared(SharedBytes)
        case large(LargeMessage)
        case close(OutputBatch.CloseReason)
    }

    /// Bytes a client may have to take before its socket is not read any more.
    private static let unreadByteLimit = 4 << 20
    /// Outputs that may wait behind a large one before the socket is not read any more; small answers that came together
    /// are one.
    private static let waitingCountLimit = 1000
    /// A client that takes nothing of a large message for that long is cut off.
    static let stallTimeout: Duration = .seconds(30)
    /// A client that takes a large message slower than this, after that time, is cut off too.
    private static let slowestBytesPerSecond = 65_536.0

    let id: SessionID
    let channel: Channel
    let owner: IOLoop
    /// Whether tokens of `--dev` count: not on behalf of web pages from elsewhere.
    var isLocal = true
    /// When the client last sent anything.
    var lastHeard: MonotonicTime
    private var outlet = Outlet.ready
    private var waiting: [Waiting] = []
    private var waitingByteCount = 0
    /// When the client last took a piece of something large.
    var lastProgress: MonotonicTime
    /// When the large message under way began to be sent.
    private var sendingBegan: MonotonicTime
    private var pauseReasons: PauseReasons = []
    /// Bytes of a message that is not complete, as the loop counts them (``IOLoop/keepUnfinished(_:for:)``).
    final var unfinishedByteCount = 0

    init(_ id: SessionID, on channel: Channel, of owner: IOLoop) {
        self.id = id
        self.channel = channel
        self.owner = owner
        lastHeard = owner.loop.now
        lastProgress = owner.loop.now
        sendingBegan = owner.loop.now
    }

    // MARK: For subclasses

    /// Whether the database was sent anything of the session, and so must know of its end.
    var isKnownToDatabase: Bool { true }

    /// Whether outputs still reach the client.
    var isOpen: Bool { channel.isOpen }

    /// Ends the connection, with the goodbye that its protocol has.
    func end(_ reason: OutputBatch.CloseReason) {
        channel.closeAfterFlush()
    }

    /// Tells that a message is larger than can be sent; a request that asked for it gets its answer.
    func refuse(_ message: LargeMessage) {
        channel.reset()
    }

    /// Looks after a client that may have gone silent.
    func checkIdle(at now: MonotonicTime) {
        guard case .sending(let message, let next) = outlet else { return }
        // Who trickles holds what others wait for, as who takes nothing does.
        let elapsed = now - sendingBegan - Self.stallTimeout
        let taken = message.pieces?.prefix(next).reduce(0) { $0 + $1.count } ?? 0
        let isTooSlow = elapsed > .zero && Double(taken) < elapsed / .seconds(1) * Self.slowestBytesPerSecond
        if isTooSlow || now - lastProgress > Self.stallTimeout { channel.reset() }
    }

    func received(_ bytes: inout MutableRawSpan, on channel: Channel) {}

    /// Whose the token is that ``IOLoop/verify(_:for:)`` was asked about.
    func finish(_ verdict: Verdict) {}

    /// Keys or revocations have changed: whoever may not stay is nobody from now on.
    func recheck(_ standing: Standing) {}

    /// What came of a REST request.
    func receive(_ outcome: RESTOutcome) {}

    /// What the helper thread has found out about data that the session asked it about.
    func finish(_ survey: Survey) {}

    /// What the helper thread has read of a body.
    func finish(_ body: BodyOutcome) {}

    /// Whether ``dropUnfinished()`` would free anything.
    var mayDropUnfinished: Bool { true }

    /// Memory is short, and this session keeps most: it gives up what is not complete.
    func dropUnfinished() {
        channel.reset()
    }

    /// The turn that was asked for with ``IOLoop/nextTick(for:)``.
    func nextTick() {}

    /// What an event stream is told.
    func receive(_ events: [StreamEvent]) {}

    /// Nothing more will be answered: ends the connection if nothing is under way.
    func endIfIdle() {}

    func channelDidEnd(_ channel: Channel) {
        channel.closeAfterFlush()
    }

    func channelDidClose(_ channel: Channel, reason: PandoReactor.CloseReason) {
        outlet = .ready
        waiting = []
        owner.remove(self)
    }

    // MARK: Outputs

    /// Whole frames; copied.
    func send(_ bytes: RawSpan) {
        guard isOpen else { return }
        if case .ready = outlet {
            channel.write(bytes)
            pauseIfUnread()
        } else {
            var copy: [UInt8] = []
            copy.append(bytes)
            wait(.bytes(copy), byteCount: copy.count)
        }
    }

    func send(_ bytes: SharedBytes) {
        guard isOpen else { return }
        if case .ready = outlet {
            channel.write(bytes)
            pauseIfUnread()
        } else {
            wait(.shared(bytes), byteCount: bytes.count)
        }
    }

    func send(_ message: LargeMessage) {
        guard isOpen else { return }
        guard case .ready = outlet else { return wait(.large(message), byteCount: message.estimatedByteCount) }
        outlet = .encoding(message)
        owner.encode(message, for: id)
    }

    func close(_ reason: OutputBatch.CloseReason) {
        if case .ready = outlet { return end(reason) }
        // What was to be said first is said first; who goes away is not waited for.
        if reason == .finished { wait(.close(reason), byteCount: 0) } else { end(reason) }
    }

    /// The message of ``Outlet/encoding(_:)`` is encoded.
    func finishEncoding(_ message: LargeMessage) {
        guard case .encoding(let expected) = outlet, expected === message else { return }
        if message.pieces == nil {
            outlet = .ready
            refuse(message)
            sendWaiting()
        } else {
            outlet = .sending(message, next: 0)
            sendingBegan = owner.loop.now
            sendPieces()
        }
    }

    func channelDidDrain(_ channel: Channel) {
        sendPieces()
        resume(.unreadOutput)
    }

    /// Hands over the next piece when the client has taken the last.
    private func sendPieces() {
        guard case .sending(let message, let next) = outlet, isOpen, let pieces = message.pieces else { return }
        lastProgress = owner.loop.now
        channel.write(pieces[next])
        if next + 1 < pieces.count {
            outlet = .sending(message, next: next + 1)
        } else {
            outlet = .ready
            sendWaiting()
        }
    }

    /// Sends what waited, up to the next large message.
    private func sendWaiting() {
        var rest: [Waiting] = []
        swap(&rest, &waiting)
        waitingByteCount = 0
        for (index, output) in rest.enumerated() {
            guard case .ready = outlet else {
                waiting = Array(rest[index...])
                waitingByteCount = waiting.reduce(0) { $0 + $1.byteCount }
                return
            }
            switch output {
            case .bytes(let bytes): send(bytes.rawSpan)
            case .shared(let bytes): send(bytes)
            case .large(let message): send(message)
            case .close(let reason): end(reason)
            }
        }
    }

    /// Keeps an output back. A client that lets too much gather is treated as one that does not read.
    private func wait(_ output: Waiting, byteCount: Int) {
        waitingByteCount += byteCount
        if waitingByteCount > channel.outboundByteLimit { return channel.reset() }
        waiting.append(output)
        if waiting.count > Self.waitingCountLimit || waitingByteCount > Self.unreadByteLimit { pause(.unreadOutput) }
    }

    private func pauseIfUnread() {
        if channel.outboundByteCount > Self.unreadByteLimit { pause(.unreadOutput) }
    }

    // MARK: Backpressure

    func pause(_ reason: PauseReasons) {
        if pauseReasons.isEmpty { channel.pauseReading() }
        pauseReasons.insert(reason)
    }

    func resume(_ reason: PauseReasons) {
        guard pauseReasons.contains(reason) else { return }
        pauseReasons.remove(reason)
        if pauseReasons.isEmpty { channel.resumeReading() }
    }

    func resumeAll() {
        guard !pauseReasons.isEmpty else { return }
        pauseReasons = []
        channel.resumeReading()
    }

    var isPausedForCongestion: Bool { pauseReasons.contains(.congestion) }
}

extension ClientSession.Waiting {
    fileprivate var byteCount: Int {
        switch self {
        case .bytes(let bytes): bytes.count
        case .shared(let bytes): bytes.count
        case .large(let message): message.estimatedByteCount
        case .close: 0
        }
    }
}

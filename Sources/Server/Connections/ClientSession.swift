import PandoBytes
import PandoDatabase
import PandoEngine
import PandoIdentity
import PandoREST
import PandoReactor

/// One client as the database thread knows it: what it is sent, in order. Confined to its loop.
///
///     ready ──large message──▶ encoding ──pieces──▶ sending ──last piece──▶ ready
///
/// While a large message is on its way, later outputs wait behind it. What waits, and what a client leaves
/// unread, is bounded: a client with much to take is not read from, and one that takes nothing is
/// disconnected.
///
/// Subclasses carry the outputs to the client: over one connection (``ChannelSession``), or in the answers to
/// its polls (``LongPollingSession``).
class ClientSession {
    /// Why a socket is not read for a while. It is read again when no reason is left.
    struct PauseReasons: OptionSet {
        let rawValue: UInt8
        /// The database or the disk is behind.
        static let congestion = PauseReasons(rawValue: 1)
        /// The process holds too much, and this client much of it (``MemoryBudget``).
        static let memory = PauseReasons(rawValue: 16)
        /// What was read is not looked at yet: a token is being verified, as many requests as may be wait for
        /// their answers (``RequestWindow``), or the client has much to take.
        static let held = PauseReasons(rawValue: 2)
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

    private enum Waiting {
        case bytes([UInt8])
        case shared(SharedBytes)
        case large(LargeMessage)
        case windowMark
        case close(DisconnectReason)
        /// It was sent.
        case gone
    }

    /// Bytes a client may have to take before its socket is not read any more.
    static let unreadByteLimit = 1 << 20
    /// Bytes a client may have to take before what is pushed to it is coalesced (``PushCoalescer``).
    private static let laggingByteLimit = 256 << 10
    /// Outputs that may wait behind a large one before the socket is not read any more; small answers that
    /// came together are one.
    private static let waitingCountLimit = 1000
    /// As slow as a client may send a body (the `MinRate` of Apache httpd's mod_reqtimeout), on every
    /// surface.
    static let slowestBytesPerSecond = 500

    /// Changes once in the life of a WebSocket that takes over a long-polling session: to the id of that.
    final var id: SessionID
    final let owner: IOLoop
    /// When the client last sent anything.
    final var lastHeard: MonotonicTime
    private var outlet = Outlet.ready
    /// Outputs behind a large message, from ``waitingHead`` on, and the memory that each keeps.
    private var waiting: [(output: Waiting, byteCount: Int)] = []
    private var waitingHead = 0
    private var waitingByteCount = 0
    final var pauseReasons: PauseReasons = []
    /// The database coalesces what it pushes to this client, until it has read what it was sent.
    private(set) final var isLagging = false
    /// Bytes of a message that is not complete, as the loop counts them (``IOLoop/keepUnfinished(_:for:)``).
    final var unfinishedByteCount = 0
    /// The database was told that the session is over (``IOLoop/endSession(_:)``).
    final var hasEnded = false

    init(_ id: SessionID, of owner: IOLoop) {
        self.id = id
        self.owner = owner
        lastHeard = owner.loop.now
    }

    // MARK: What carries the outputs

    /// Whether outputs still reach the client.
    var isOpen: Bool { preconditionFailure("a subclass says") }

    /// Hands whole frames on; copied.
    func write(_ frames: RawSpan) { preconditionFailure("a subclass does") }

    func write(_ frames: SharedBytes) { preconditionFailure("a subclass does") }

    /// Bytes handed on that the client has not taken, as far as this process knows.
    var unsentByteCount: Int { preconditionFailure("a subclass says") }

    /// Nothing more is taken from the client until ``resumeReading()``.
    func pauseReading() { preconditionFailure("a subclass does") }

    func resumeReading() { preconditionFailure("a subclass does") }

    /// Ends the connection at once; what waits for the client is dropped.
    func cut() { preconditionFailure("a subclass does") }

    /// Where the client is; nil once it is gone.
    var peerAddress: SocketAddress? { nil }

    /// Its connection was accepted in the administrators' reserve.
    var isReserved: Bool { false }

    /// A piece of a large message was handed on, and more follow: ``sendPieces()`` is to be called when the
    /// client can take the next.
    func pieceWasWritten() {}

    /// Whether a message that is encoded can be sent at all.
    func canTake(_ message: LargeMessage) -> Bool { true }

    /// No output waits for another any more.
    func outputsWereWritten() {}

    // MARK: For subclasses

    /// Whether the database was sent anything of the session, and so must know of its end.
    var isKnownToDatabase: Bool { true }

    /// Ends the connection, with the closing words that its protocol has.
    func end(_ reason: DisconnectReason) { cut() }

    /// Tells that a message is larger than can be sent; a request that asked for it gets its answer.
    func refuse(_ message: LargeMessage) { cut() }

    /// Looks after a client that may have gone silent.
    func checkIdle(at now: MonotonicTime) {}

    // MARK: Of the realtime protocol

    /// Sends one message, in its place among the outputs.
    func sendMessage(_ message: RawSpan) {}

    /// The client broke the protocol: ends the connection.
    func fail(_ failure: SessionFailure) { cut() }

    /// Whether ``RealtimeSession`` takes more has changed.
    func inputMayGoOn() {}

    /// A control message that is about what carries the session (realtime §1.6).
    func receive(_ control: TransportControl) {}

    // MARK: Outcomes

    /// Whose the token is that ``IOLoop/verify(_:for:)`` was asked about.
    func finish(_ verdict: VerificationResult) {}

    /// Keys or revocations have changed: whoever may not stay is nobody from now on.
    func recheck(_ revocations: RevocationState) {}

    /// What came of a REST request.
    func receive(_ outcome: RESTCallResult) {}

    /// What the helper thread has found out about data that the session asked it about.
    func finish(_ survey: NodeSizeCheck) {}

    /// What a worker has read of a large message.
    func finish(_ parsed: ParsedMessage) {}

    /// What the helper thread has read of a body.
    func finish(_ body: BodyOutcome) {}

    /// Memory that this client makes the server hold, in bytes. What it shares with others weighs little.
    var heldByteCount: Int {
        var total = unfinishedByteCount + waitingByteCount
        if case .sending(let message, let next) = outlet {
            // From the piece that the channel has.
            let pieces = message.byteCount(from: max(0, next - 1))
            total += message.isShared ? pieces / Self.sharedWeight : pieces
        }
        return total
    }

    /// What one client leaves unread of what many get is there for the others too.
    static let sharedWeight = 16

    /// Memory is short, and this session holds most: it gives that up, and with it the connection unless its
    /// protocol has a better answer.
    func giveUpHeldBytes() { cut() }

    /// Everything before a mark of the session's ``RequestWindow`` has been sent.
    func windowMarkReturned() {}

    /// Whether the client has a large share of all requests that wait.
    var holdsManyRequests: Bool { false }

    /// The turn that was asked for with ``IOLoop/nextTick(for:)``.
    func nextTick() {}

    /// What an event stream is told.
    func receive(_ events: [StreamEvent]) {}

    /// Nothing more will be answered: ends the connection if nothing is under way.
    func endIfIdle() {}

    /// What carries the session is gone.
    final func leave() {
        dropOutputs()
        owner.remove(self)
    }

    /// Drops what waits to be sent.
    final func dropOutputs() {
        if case .encoding = outlet { owner.abandonJobs(of: id) }
        outlet = .ready
        dropWaiting()
    }

    // MARK: Outputs

    /// Whole frames; copied.
    func send(_ bytes: RawSpan) {
        guard isOpen else { return }
        if case .ready = outlet {
            write(bytes)
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
            write(bytes)
            pauseIfUnread()
        } else {
            wait(.shared(bytes), byteCount: bytes.count)
        }
    }

    func send(_ message: LargeMessage) {
        guard isOpen else { return }
        guard case .ready = outlet else { return wait(.large(message), byteCount: message.waitingByteCount) }
        outlet = .encoding(message)
        owner.encode(message, for: id)
    }

    func close(_ reason: DisconnectReason) {
        if case .ready = outlet { return end(reason) }
        // What was to be said first is said first; who goes away is not waited for.
        if reason == .finished { wait(.close(reason), byteCount: 0) } else { end(reason) }
    }

    /// A mark keeps its place among the outputs: what waits before it is not sent yet.
    func returnWindowMark() {
        if case .ready = outlet { return windowMarkReturned() }
        wait(.windowMark, byteCount: 0)
    }

    /// The message of ``Outlet/encoding(_:)`` is encoded.
    func finishEncoding(_ message: LargeMessage) {
        guard case .encoding(let expected) = outlet, expected === message else { return }
        if message.pieces == nil || !canTake(message) {
            outlet = .ready
            refuse(message)
            sendWaiting()
        } else if message.pieces?.isEmpty == true {
            outlet = .ready
            sendWaiting()
        } else {
            outlet = .sending(message, next: 0)
            sendPieces()
        }
    }

    /// The client has taken nearly all that was handed on.
    final func didDrain() {
        sendPieces()
        catchUpIfDrained()
        resume(.unreadOutput)
        outputDrained()
    }

    /// Whether nothing waits for another output.
    final var areOutputsWritten: Bool {
        if case .ready = outlet { waitingHead == waiting.count } else { false }
    }

    /// The client has much to take before it may ask for more.
    final var isUnread: Bool { pauseReasons.contains(.unreadOutput) }

    /// Hands over the next piece when the client has taken the last.
    final func sendPieces() {
        guard case .sending(let message, let next) = outlet, isOpen, let pieces = message.pieces else {
            return
        }
        write(pieces[next])
        if next + 1 < pieces.count {
            outlet = .sending(message, next: next + 1)
            pieceWasWritten()
        } else {
            outlet = .ready
            sendWaiting()
        }
    }

    /// Sends what waited, up to the next large message.
    private func sendWaiting() {
        while waitingHead < waiting.count, case .ready = outlet, isOpen {
            let (output, byteCount) = waiting[waitingHead]
            waiting[waitingHead].output = .gone
            waitingHead += 1
            waitingByteCount -= byteCount
            owner.waitingByteCount -= byteCount
            if waitingHead == waiting.count { dropWaiting() }
            switch output {
            case .bytes(let bytes): send(bytes.rawSpan)
            case .shared(let bytes): send(bytes)
            case .large(let message): send(message)
            case .windowMark: windowMarkReturned()
            case .close(let reason): end(reason)
            case .gone: break
            }
        }
        if areOutputsWritten { outputsWereWritten() }
        catchUpIfDrained()
    }

    /// Where nothing waits and the socket takes what it is given, no drain is reported.
    final func catchUpIfDrained() {
        guard isLagging || isUnread, areOutputsWritten,
            unsentByteCount <= owner.loop.configuration.outboundLowWaterByteCount
        else { return }
        if isLagging { catchUp() }
        guard isUnread else { return }
        resume(.unreadOutput)
        outputDrained()
    }

    /// The client may ask for more.
    func outputDrained() {}

    private func dropWaiting() {
        waiting.removeAll(keepingCapacity: waiting.capacity <= Self.keptWaitingCount)
        waitingHead = 0
        owner.waitingByteCount -= waitingByteCount
        waitingByteCount = 0
    }

    /// Keeps an output back. A client that lets too much gather is treated as one that does not read.
    private func wait(_ output: Waiting, byteCount: Int) {
        waitingByteCount += byteCount
        owner.waitingByteCount += byteCount
        if waitingByteCount > owner.loop.configuration.outboundByteLimit { return cut() }
        if waitingHead > Self.keptWaitingCount, waitingHead * 2 > waiting.count {
            waiting.removeFirst(waitingHead)
            waitingHead = 0
        }
        waiting.append((output, byteCount))
        let waitingCount = waiting.count - waitingHead
        noteLag(waitingCount: waitingCount)
        if waitingCount > Self.waitingCountLimit || waitingByteCount > Self.unreadByteLimit {
            pause(.unreadOutput)
        }
    }

    /// Room for outputs that is kept when none wait.
    private static let keptWaitingCount = 64

    /// Tells the database when the client falls behind; ``catchUpIfDrained()`` tells when it has caught up.
    /// - Parameters:
    ///   - waitingCount: Outputs that wait.
    ///   - byteCount: What they hold, beside those of this class.
    final func noteLag(waitingCount: Int = 0, byteCount: Int = 0) {
        guard !isLagging,
            unsentByteCount + waitingByteCount + byteCount > Self.laggingByteLimit
                || waitingCount > Self.waitingCountLimit / 2
        else { return }
        isLagging = true
        owner.post(.lagging(id), byteCount: 0, for: nil)
    }

    /// The client has read nearly all that it was sent.
    final func catchUp() {
        isLagging = false
        owner.post(.caughtUp(id), byteCount: 0, for: nil)
    }

    private func pauseIfUnread() {
        let byteCount = unsentByteCount
        // Nearly always; a client is behind before it is not read.
        guard byteCount + waitingByteCount > Self.laggingByteLimit else { return }
        noteLag()
        if byteCount > Self.unreadByteLimit { pause(.unreadOutput) }
    }

    /// Whether a message that is not complete comes too slowly, or not at all: memory is held for it.
    /// - Parameters:
    ///   - receivedByteCount: Bytes of input so far.
    ///   - isExpected: A message is not complete, and the client may send.
    ///   - pace: Begins when it first is, and ends when it is not.
    final func isInputTooSlow(
        _ receivedByteCount: Int, whileExpected isExpected: Bool, _ pace: inout MinimumRateMonitor?,
        at now: MonotonicTime
    ) -> Bool {
        guard isExpected else {
            pace = nil
            return false
        }
        var current = pace ?? MinimumRateMonitor(receivedByteCount, at: now)
        defer { pace = current }
        return current.isTooSlow(
            receivedByteCount, at: now, window: owner.configuration.requestTimeout,
            bytesPerSecond: Self.slowestBytesPerSecond)
    }
}

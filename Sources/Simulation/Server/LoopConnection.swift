import PandoBytes
import PandoConnections
import PandoDatabase
import PandoEngine
import PandoIdentity
import PandoREST
import PandoTime

/// A connection of a ``SimulatedLoop``: it gives a state machine of `Connections` its events, and carries out
/// what the machine decides. The counterpart of the sessions in `Sources/Loops`.
///
/// Subclasses hold the state machines.
class LoopConnection {
    let id: SessionID
    let channel: SimulatedChannel
    let services: LoopServices
    private var isReadingPaused = false
    private var isPausedForCongestion = false
    private var isAmongPaused = false
    /// When ``deadlinePassed()`` is due.
    private(set) var deadline: MonotonicTime?
    /// The channel is another connection's now.
    private(set) var hasLeft = false

    init(_ id: SessionID, on channel: SimulatedChannel, _ services: LoopServices) {
        self.id = id
        self.channel = channel
        self.services = services
    }

    // MARK: What the state machine knows

    /// Most bytes of the next read.
    var readByteLimit: Int { .max }
    /// Why the state machine does not read.
    var pauses: PauseReasons { [] }
    /// Whether the client has a large share of all requests that wait.
    var hasManyRequests: Bool { false }
    /// Whether requests of the client for which it may be paused are not answered yet.
    var awaitsAnswers: Bool { false }

    // MARK: Events of the state machine, each between ``prepare()`` and ``finish()``

    func received(_ bytes: inout [UInt8]) {}
    func drained() {}
    func peerEnded() {}
    func closed(inOrder: Bool) {}
    func send(_ frames: [UInt8]) {}
    func send(shared frames: SharedBytes) {}
    func send(_ message: LargeMessage) {}
    func windowMarkReturned() {}
    func receive(_ result: RESTCallResult) {}
    func receive(_ events: [StreamEvent]) {}
    func receive(_ update: StreamUpdate) {}
    func receive(_ window: StreamWindow) {}
    func close(_ reason: DisconnectReason) {}
    func finish(_ result: WorkerResult) {}
    // Every subclass overrides these: one that ignored them would look like a lost wake-up of the server.
    func nextTurn() { preconditionFailure("a connection without turns") }
    func deadlinePassed() { preconditionFailure("a connection without deadlines") }
    func sweep() { preconditionFailure("a connection that is not swept") }
    func pause(_ reason: PauseReasons) {}
    func resume(_ reason: PauseReasons) {}

    /// Sets the state machine's inputs.
    final func prepare() {
        services.context.now = services.now
        services.context.socket.unsentByteCount = channel.unsentByteCount
        services.context.socket.writtenByteCount = channel.writtenByteCount
        services.context.socket.acknowledgedByteCount = channel.acknowledgedByteCount
        services.context.socket.isOpen = channel.isOpen
    }

    /// Carries out what the state machine has decided.
    final func finish() {
        var actions = ContiguousArray<ConnectionAction>()
        services.context.takeActions(into: &actions)
        for action in actions { carryOut(action) }
        guard !hasLeft else { return }
        if services.countPosted(hasManyRequests: hasManyRequests), !isPausedForCongestion {
            isPausedForCongestion = true
            if !isAmongPaused { services.paused.append(id) }
            isAmongPaused = true
            pause(.congestion)
        } else if isPausedForCongestion, !awaitsAnswers {
            isPausedForCongestion = false
            resume(.congestion)
        }
        followPauses()
    }

    final func resumeAfterBackpressure() {
        isAmongPaused = false
        guard isPausedForCongestion else { return }
        isPausedForCongestion = false
        resume(.congestion)
    }

    /// The deadline has come.
    final func fireDeadline() {
        deadline = nil
        deadlinePassed()
    }

    /// Reads the channel while there is no reason to pause.
    final func followPauses() {
        guard pauses.isEmpty == isReadingPaused, !hasLeft else { return }
        if isReadingPaused, services.fault?.forgetsResume(of: channel.link.number) == true { return }
        isReadingPaused.toggle()
        channel.setReading(paused: isReadingPaused)
    }

    /// The channel is another connection's from now on.
    final func letGo() {
        if isReadingPaused { channel.setReading(paused: false) }
        hasLeft = true
    }

    private func carryOut(_ action: ConnectionAction) {
        switch action {
        case .write(let bytes): channel.write(bytes)
        case .writeShared(let bytes): channel.write(bytes.array)
        case .closeAfterFlush: channel.closeAfterFlush()
        // Input that was not read makes the kernel send a reset.
        case .close, .reset: channel.reset()
        case .verify(let token): services.workers.add(.verify(token), for: id)
        case .parse(let message): services.workers.add(.parse(message), for: id)
        case .encode(let message): services.workers.add(.encode(message), for: id)
        case .measure(let node, let query, let byteLimit, let wantsETag):
            services.workers.add(.measure(node, query, byteLimit: byteLimit, wantsETag: wantsETag), for: id)
        case .makeWindow(let window): services.workers.add(.makeWindow(window), for: id)
        case .abandonJobs: services.workers.abandonJobs(of: id)
        case .nextTurn: services.turns.append(id)
        case .wake(let time): deadline = time
        case .http(.upgrade(let request, let rest)):
            services.upgrade(id, request, rest)
        // No token of a simulation expires or is revoked.
        case .expire, .recheck, .release, .releaseBody, .countLimit, .countDelay: break
        case .readBody(let bytes, let isGzip, let request):
            precondition(!isGzip, "no client sends a compressed body")
            let byteLimit = services.context.settings.writeByteLimit
            services.workers.add(.readBody(bytes, request, byteLimit: byteLimit), for: id)
        case .cancelBody: services.workers.cancelBody(of: id)
        case .inflate: preconditionFailure("no client compresses")
        case .inspect: preconditionFailure("no client asks for reports")
        case .http, .polling, .handover: preconditionFailure("no client polls: \(action)")
        }
    }
}

/// An HTTP connection: REST requests, an event stream, or the upgrade to a WebSocket.
final class HTTPLoopConnection: LoopConnection {
    private var connection: HTTPConnection

    init(_ id: SessionID, _ channel: SimulatedChannel, _ services: LoopServices) {
        services.context.now = services.now
        connection = HTTPConnection(id, isReserved: false, &services.context)
        super.init(id, on: channel, services)
    }

    override var readByteLimit: Int { connection.readByteLimit }
    override var pauses: PauseReasons { connection.pauses }
    override var awaitsAnswers: Bool { connection.awaitsAnswers }

    private func event(_ body: (inout HTTPConnection, inout ConnectionContext) -> Void) {
        prepare()
        body(&connection, &services.context)
        finish()
    }

    override func received(_ bytes: inout [UInt8]) {
        prepare()
        do {
            var span = bytes.mutableSpan
            var raw = unsafe span.mutableBytes
            connection.received(&raw, &services.context)
        }
        finish()
    }

    override func drained() { event { $0.drained(&$1) } }
    override func peerEnded() { event { $0.peerEnded(&$1) } }
    override func closed(inOrder: Bool) { event { $0.closed(inOrder: inOrder, &$1) } }
    override func receive(_ result: RESTCallResult) { event { $0.receive(result, &$1) } }
    override func receive(_ events: [StreamEvent]) { event { $0.receive(events, &$1) } }
    override func receive(_ update: StreamUpdate) { event { $0.receive(update, &$1) } }
    override func receive(_ window: StreamWindow) { event { $0.receive(window, &$1) } }
    override func close(_ reason: DisconnectReason) { event { $0.close(reason, &$1) } }
    override func nextTurn() { event { $0.nextTurn(&$1) } }
    override func deadlinePassed() { event { $0.deadlinePassed(&$1) } }
    override func sweep() { event { $0.tick(&$1) } }

    override func finish(_ result: WorkerResult) {
        switch result {
        case .verified(let result): event { $0.verified(result, &$1) }
        case .measured(let size): event { $0.measured(size, &$1) }
        case .bodyRead(let body): event { $0.bodyRead(body, &$1) }
        case .parsed, .encoded: preconditionFailure("an HTTP connection parses and encodes by itself")
        }
    }

    override func pause(_ reason: PauseReasons) {
        connection.pause(reason)
        followPauses()
    }

    override func resume(_ reason: PauseReasons) {
        connection.resume(after: reason)
        followPauses()
    }

    /// Answers the handshake of a WebSocket.
    /// - Returns: Whether the channel is a WebSocket's from now on.
    func upgrade(_ request: UpgradeRequest) -> Bool {
        prepare()
        let isUpgraded = connection.upgrade(request, mayJoin: false, &services.context)
        finish()
        return isUpgraded
    }
}

/// A WebSocket.
final class WebSocketLoopConnection: LoopConnection {
    private var connection: WebSocketConnection

    init(_ id: SessionID, _ channel: SimulatedChannel, _ services: LoopServices) {
        services.context.now = services.now
        connection = WebSocketConnection(id, &services.context)
        super.init(id, on: channel, services)
    }

    override var readByteLimit: Int { connection.readByteLimit }
    override var pauses: PauseReasons { connection.pauses }
    override var hasManyRequests: Bool { connection.hasManyRequests }
    override var awaitsAnswers: Bool { connection.awaitsAnswers }

    private func event(_ body: (inout WebSocketConnection, inout ConnectionContext) -> Void) {
        prepare()
        body(&connection, &services.context)
        finish()
    }

    override func received(_ bytes: inout [UInt8]) {
        prepare()
        do {
            var span = bytes.mutableSpan
            var raw = unsafe span.mutableBytes
            connection.received(&raw, &services.context)
        }
        finish()
    }

    override func drained() { event { $0.drained(&$1) } }
    override func peerEnded() { event { $0.peerEnded(&$1) } }
    override func closed(inOrder: Bool) { event { $0.closed(&$1) } }
    override func windowMarkReturned() { event { $0.windowMarkReturned(&$1) } }
    override func nextTurn() { event { $0.nextTurn(&$1) } }
    override func close(_ reason: DisconnectReason) { event { $0.close(reason, &$1) } }
    override func send(_ message: LargeMessage) { event { $0.send(message, &$1) } }
    override func deadlinePassed() { event { $0.deadlinePassed(&$1) } }
    override func sweep() { event { $0.tick(&$1) } }

    override func send(_ frames: [UInt8]) {
        prepare()
        carryOut(connection.send(frames.rawSpan, &services.context), frames)
    }

    override func send(shared frames: SharedBytes) {
        prepare()
        carryOut(connection.send(frames, &services.context), frames.array)
    }

    private func carryOut(_ outcome: SendOutcome, _ frames: [UInt8]) {
        switch outcome {
        case .drop: break
        case .write: channel.write(frames)
        case .writeAndCarryOut:
            channel.write(frames)
            finish()
        case .carryOut: finish()
        }
    }

    override func finish(_ result: WorkerResult) {
        switch result {
        case .verified(let result): event { $0.verified(result, &$1) }
        case .parsed(let message): event { $0.parsed(message, &$1) }
        case .encoded(let message): event { $0.encoded(message, &$1) }
        case .measured, .bodyRead: preconditionFailure("a WebSocket measures nothing, and has no bodies")
        }
    }

    override func pause(_ reason: PauseReasons) {
        connection.pause(reason)
        followPauses()
    }

    override func resume(_ reason: PauseReasons) {
        connection.resume(after: reason)
        followPauses()
    }
}

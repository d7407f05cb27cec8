import PandoBytes
import PandoConnections
import PandoDatabase
import PandoEngine
import PandoHTTP
import PandoIdentity
import PandoREST
import PandoReactor
import PandoWebSocket

/// What an HTTP connection asks for that concerns other sessions, or the loop's table.
protocol HTTPSessionDelegate: AnyObject {
    /// - Parameter connection: May have left the table since the event.
    func carryOut(_ action: consuming HTTPAction, of connection: HTTPSession)
    /// The connection is in progress with a request, or waits for another.
    func rank(_ connection: HTTPSession, as activity: HTTPConnection.Activity)
}

/// An HTTP connection on its channel.
final class HTTPSession: ChannelSession {
    private var connection: HTTPConnection
    /// Lives as long as the process.
    private let delegate: any HTTPSessionDelegate
    /// As the loop ranks it among those that may be closed for others.
    private var rankedActivity = HTTPConnection.Activity.silent
    /// See ``ConnectionStatus/needsAcknowledgedByteCount``.
    private var needsAcknowledgedByteCount = false
    /// The body that the body thread has.
    private var bodyJob: BodyJob?

    init(
        _ id: SessionID, on channel: Channel, _ services: SessionServices, delegate: any HTTPSessionDelegate
    ) {
        self.delegate = delegate
        services.context.now = services.loop.now
        connection = HTTPConnection(id, isReserved: channel.isReserved, &services.context)
        super.init(id, on: channel, services)
        channel.readByteLimit = connection.readByteLimit
        services.metrics.http.add(1)
    }

    deinit { services.metrics.http.add(-1) }

    override var connectionByteCount: Int {
        countedByteCount + unsentWeight(isShared: connection.sharesOutput)
    }

    /// Of the last request, by the word of the proxy where that is trusted.
    override var peerAddress: SocketAddress? {
        guard isTrustedProxy, let peer = super.peerAddress else { return super.peerAddress }
        return services.trustedProxies.client(forwardedFor: connection.forwardedFor, by: peer)
    }

    /// The client by whose address connections are counted: the one that the trusted proxy names; nil where
    /// the peer is none, and where it names none.
    var namedClient: SocketAddress? {
        guard isTrustedProxy, let proxy = channel.peerAddress else { return nil }
        return services.trustedProxies.namedClient(forwardedFor: connection.forwardedFor, by: proxy)
    }

    override var awaitsAnswers: Bool { connection.awaitsAnswers }

    override var isResponding: Bool { connection.isResponding }

    /// It was refused, or is closing.
    var hasEnded: Bool { connection.hasEnded }

    private func prepareEvent() {
        services.refreshDate()
        if isTrustedProxy { services.proxy = channel.peerAddress }
        if needsAcknowledgedByteCount { prepareWithAcknowledged() } else { prepareSocket() }
    }

    private func finish() {
        carryOutActions()
        guard !hasLeft else { return }
        let status = connection.status()
        follow(status)
        needsAcknowledgedByteCount = status.needsAcknowledgedByteCount
        guard connection.activity != rankedActivity else { return }
        rankedActivity = connection.activity
        delegate.rank(self, as: rankedActivity)
    }

    // MARK: From the channel

    override func received(_ bytes: inout MutableRawSpan, on channel: Channel) {
        super.received(&bytes, on: channel)
        prepareEvent()
        connection.received(&bytes, &services.context)
        finish()
    }

    override func channelDidDrain(_ channel: Channel) {
        super.channelDidDrain(channel)
        prepareEvent()
        connection.drained(&services.context)
        finish()
    }

    override func channelDidEnd(_ channel: Channel) {
        prepareEvent()
        connection.peerEnded(&services.context)
        finish()
    }

    override func channelDidClose(_ channel: Channel, reason: ChannelCloseReason) {
        prepareEvent()
        connection.closed(inOrder: reason == .requested, &services.context)
        finish()
        super.channelDidClose(channel, reason: reason)
    }

    // MARK: From the databases and workers

    override func receive(_ result: RESTCallResult) {
        prepareEvent()
        connection.receive(result, &services.context)
        finish()
    }

    override func receive(_ events: [StreamEvent]) {
        prepareEvent()
        connection.receive(events, &services.context)
        finish()
    }

    override func receive(_ update: StreamUpdate) {
        prepareEvent()
        connection.receive(update, &services.context)
        finish()
    }

    override func receive(_ window: StreamWindow) {
        prepareEvent()
        connection.receive(window, &services.context)
        finish()
    }

    override func close(_ reason: DisconnectReason) {
        prepareEvent()
        connection.close(reason, &services.context)
        finish()
    }

    override func measured(_ size: NodeSizeCheck) {
        prepareEvent()
        connection.measured(size, &services.context)
        finish()
    }

    override func inspected(_ report: RESTReport) {
        prepareEvent()
        connection.inspected(report, &services.context)
        finish()
    }

    override func bodyRead(_ body: BodyResult) {
        bodyJob = nil
        prepareEvent()
        connection.bodyRead(body, &services.context)
        finish()
    }

    override func verified(_ result: VerificationResult) {
        prepareEvent()
        connection.verified(result, &services.context)
        finish()
    }

    // MARK: From the loop

    override func nextTurn() {
        prepareEvent()
        connection.nextTurn(&services.context)
        finish()
    }

    override func deadlinePassed() {
        prepareEvent()
        connection.deadlinePassed(&services.context)
        finish()
    }

    override func expired() {
        prepareEvent()
        connection.expired(&services.context)
        finish()
    }

    override func recheck(_ revocations: RevocationState) {
        prepareEvent()
        connection.recheck(revocations, &services.context)
        finish()
    }

    override func tick() {
        prepareEvent()
        if channel.outboundByteCount > 0 {
            prepareWithAcknowledged()
            noteProgress(acknowledged: services.context.socket.acknowledgedByteCount)
        }
        if channel.awaitsProxyHeader { connection.noteProxyHeader() }
        connection.tick(&services.context)
        finish()
    }

    override func endIfIdle() {
        prepareEvent()
        connection.endIfIdle(&services.context)
        finish()
    }

    override func dismiss() { endIfIdle() }

    override func giveUpMemory() {
        prepareEvent()
        connection.giveUpMemory(&services.context)
        finish()
    }

    override var pauses: PauseReasons { connection.pauses }

    override func pause(_ reason: PauseReasons) {
        connection.pause(reason)
        follow(connection.pauses)
    }

    override func resume(_ reason: PauseReasons) {
        connection.resume(after: reason)
        follow(connection.pauses)
    }

    // MARK: Actions

    override func carryOut(_ action: consuming ConnectionAction) {
        switch action {
        case .readBody(let bytes, let isGzip, let request):
            bodyJob = services.readBody(bytes, isGzip: isGzip, of: request, for: id)
        case .cancelBody: if let bytes = bodyJob.take()?.cancel() { services.release(bytes) }
        case .http(let action): delegate.carryOut(action, of: self)
        default: super.carryOut(action)
        }
    }

    // MARK: Upgrades and moves

    /// The deflate window for which messages are compressed when the connection becomes a WebSocket's; nil
    /// where they are not.
    var window: DeflateWindow? { connection.window }

    /// Answers the handshake of a WebSocket.
    /// - Returns: Whether the channel is a WebSocket's from now on.
    func upgrade(_ request: UpgradeRequest, mayJoin: Bool) -> Bool {
        prepareEvent()
        let isUpgraded = connection.upgrade(request, mayJoin: mayJoin, &services.context)
        finish()
        return isUpgraded
    }

    /// The handshake of a WebSocket was refused: the log says so.
    func upgradeRefused(_ status: HTTPStatus) {
        prepareEvent()
        connection.upgradeRefused(status, &services.context)
        finish()
    }

    /// The request for an upgrade as it is moved to another loop.
    func move(_ request: UpgradeRequest, rest: [UInt8]) -> MovedRequest {
        connection.move(request, rest: rest)
    }

    /// The socket was taken away, to another loop.
    func leaveForOtherLoop() {
        prepareEvent()
        connection.leaveForOtherLoop(&services.context)
        finish()
        letGo()
        leave()
    }

    /// Goes on with a request that another loop has read.
    func receive(_ moved: MovedRequest, unsent: [UInt8]) {
        lastHeard = services.loop.now
        channel.write(unsent.rawSpan)
        prepareEvent()
        connection.received(moved, &services.context)
        finish()
    }

    // MARK: Polls

    func holdPoll(of session: SessionID) { connection.holdPoll(of: session) }

    func releasePoll() { connection.releasePoll() }

    func answer(_ answer: PollResponse, of session: SessionID) {
        channel.remembersAcknowledgedBytes = true
        prepareEvent()
        connection.answer(answer, of: session, &services.context)
        finish()
    }

    func respondClosed() {
        prepareEvent()
        connection.respondClosed(&services.context)
        finish()
    }

    func refusePoll(_ error: RESTError) {
        prepareEvent()
        connection.refusePoll(error, &services.context)
        finish()
    }

    func refusePoll(_ error: LongPollingRequest.Malformed) {
        prepareEvent()
        connection.refusePoll(error, &services.context)
        finish()
    }

    /// Looks what the client's system has acknowledged of the responses to polls.
    func noteAcknowledged() {
        guard connection.awaitsAcknowledgement else { return }
        prepareWithAcknowledged()
        connection.noteAcknowledged(&services.context)
        finish()
    }

    func loseDeliveries(of session: SessionID) {
        prepareEvent()
        connection.loseDeliveries(of: session, &services.context)
        finish()
    }
}

import PandoBytes
import PandoConnections
import PandoDatabase
import PandoEngine
import PandoHTTP
import PandoIdentity
import PandoREST
import PandoReactor
import PandoWebSocket

/// An HTTP connection on its channel.
final class HTTPSession: ChannelSession {
    private var machine: HTTPConnection
    /// As the loop ranks it among those that may be closed for others.
    private var rankedActivity = HTTPConnection.Activity.silent
    /// The body that the body thread has.
    private var bodyJob: BodyJob?

    override init(_ id: SessionID, on channel: Channel, _ services: SessionServices) {
        services.context.now = services.loop.now
        machine = HTTPConnection(id, isReserved: channel.isReserved, &services.context)
        super.init(id, on: channel, services)
        channel.readByteLimit = machine.readByteLimit
        services.metrics.http.add(1)
    }

    deinit { services.metrics.http.add(-1) }

    override var connectionByteCount: Int {
        machine.heldByteCount + unsentWeight(isShared: machine.sharesOutput)
    }

    /// Of the last request, by the word of the proxy where that is trusted.
    override var peerAddress: SocketAddress? {
        guard isTrustedProxy, let peer = super.peerAddress else { return super.peerAddress }
        return services.trustedProxies.client(forwardedFor: machine.forwardedFor, by: peer)
    }

    /// It was refused, or is closing.
    var hasEnded: Bool { machine.hasEnded }

    private func prepareEvent() {
        services.refreshDate()
        if isTrustedProxy { services.proxy = channel.peerAddress }
        if machine.needsAcknowledgedByteCount { prepareWithAcknowledged() } else { prepareSocket() }
    }

    private func finish() {
        carryOutActions()
        guard !hasLeft else { return }
        count(unfinished: machine.unfinishedByteCount, waiting: machine.waitingByteCount)
        follow(machine.pauses)
        channel.readByteLimit = machine.readByteLimit
        guard machine.activity != rankedActivity else { return }
        rankedActivity = machine.activity
        services.router?.rank(id, as: rankedActivity)
    }

    // MARK: From the channel

    override func received(_ bytes: inout MutableRawSpan, on channel: Channel) {
        super.received(&bytes, on: channel)
        prepareEvent()
        machine.received(&bytes, &services.context)
        finish()
    }

    override func channelDidDrain(_ channel: Channel) {
        super.channelDidDrain(channel)
        prepareEvent()
        machine.drained(&services.context)
        finish()
    }

    override func channelDidEnd(_ channel: Channel) {
        prepareEvent()
        machine.peerEnded(&services.context)
        finish()
    }

    override func channelDidClose(_ channel: Channel, reason: ChannelCloseReason) {
        prepareEvent()
        machine.closed(inOrder: reason == .requested, &services.context)
        finish()
        super.channelDidClose(channel, reason: reason)
    }

    // MARK: From the databases and workers

    override func receive(_ result: RESTCallResult) {
        prepareEvent()
        machine.receive(result, &services.context)
        finish()
    }

    override func receive(_ events: [StreamEvent]) {
        prepareEvent()
        machine.receive(events, &services.context)
        finish()
    }

    override func close(_ reason: DisconnectReason) {
        prepareEvent()
        machine.close(reason, &services.context)
        finish()
    }

    override func measured(_ size: NodeSizeCheck) {
        prepareEvent()
        machine.measured(size, &services.context)
        finish()
    }

    override func inspected(_ report: RESTReport) {
        prepareEvent()
        machine.inspected(report, &services.context)
        finish()
    }

    override func bodyRead(_ body: BodyResult) {
        bodyJob = nil
        prepareEvent()
        machine.bodyRead(body, &services.context)
        finish()
    }

    override func verified(_ verdict: VerificationResult) {
        prepareEvent()
        machine.verified(verdict, &services.context)
        finish()
    }

    // MARK: From the loop

    override func nextTurn() {
        prepareEvent()
        machine.nextTurn(&services.context)
        finish()
    }

    override func deadlinePassed() {
        prepareEvent()
        machine.deadlinePassed(&services.context)
        finish()
    }

    override func expired() {
        prepareEvent()
        machine.expired(&services.context)
        finish()
    }

    override func recheck(_ revocations: RevocationState) {
        prepareEvent()
        machine.recheck(revocations, &services.context)
        finish()
    }

    override func tick() {
        prepareEvent()
        if channel.outboundByteCount > 0 {
            prepareWithAcknowledged()
            noteProgress(acknowledged: services.context.socket.acknowledgedByteCount)
        }
        machine.tick(&services.context)
        finish()
    }

    override func endIfIdle() {
        prepareEvent()
        machine.endIfIdle(&services.context)
        finish()
    }

    override func dismiss() { endIfIdle() }

    override func giveUpMemory() {
        prepareEvent()
        machine.giveUpMemory(&services.context)
        finish()
    }

    override func pause(_ reason: PauseReasons) {
        machine.pause(reason)
        follow(machine.pauses)
    }

    override func resume(_ reason: PauseReasons) {
        machine.resume(after: reason)
        follow(machine.pauses)
    }

    // MARK: Actions

    override func carryOut(_ action: consuming ConnectionAction) {
        switch action {
        case .readBody(let bytes, let isGzip, let request):
            bodyJob = services.readBody(bytes, isGzip: isGzip, of: request, for: id)
        case .cancelBody: bodyJob.take()?.cancel()
        case .http(let action): services.router?.carryOut(action, of: self)
        default: super.carryOut(action)
        }
    }

    // MARK: Upgrades and moves

    override var window: DeflateWindow? { machine.window }

    /// Answers the handshake of a WebSocket.
    /// - Returns: Whether the channel is a WebSocket's from now on.
    func upgrade(_ request: UpgradeRequest, mayJoin: Bool) -> Bool {
        prepareEvent()
        let isUpgraded = machine.upgrade(request, mayJoin: mayJoin, &services.context)
        finish()
        return isUpgraded
    }

    /// The request for an upgrade as it is moved to another loop.
    func move(_ request: UpgradeRequest, rest: [UInt8]) -> MovedRequest { machine.move(request, rest: rest) }

    /// The socket was taken away, to another loop.
    func leaveForOtherLoop() {
        prepareEvent()
        machine.leaveForOtherLoop(&services.context)
        finish()
        letGo()
        leave()
    }

    /// Goes on with a request that another loop has read.
    func receive(_ moved: MovedRequest, unsent: [UInt8]) {
        lastHeard = services.loop.now
        channel.write(unsent.rawSpan)
        prepareEvent()
        machine.received(moved, &services.context)
        finish()
    }

    // MARK: Polls

    func holdPoll(of session: SessionID) { machine.holdPoll(of: session) }

    func releasePoll() { machine.releasePoll() }

    func answer(_ answer: PollAnswer, of session: SessionID) {
        channel.remembersAcknowledgedBytes = true
        prepareEvent()
        machine.answer(answer, of: session, &services.context)
        finish()
    }

    func answerClosed() {
        prepareEvent()
        machine.answerClosed(&services.context)
        finish()
    }

    func refusePoll(_ error: RESTError) {
        prepareEvent()
        machine.refusePoll(error, &services.context)
        finish()
    }

    func refusePoll(_ error: LongPollingRequest.Malformed) {
        prepareEvent()
        machine.refusePoll(error, &services.context)
        finish()
    }

    /// Looks what the client's machine has acknowledged of the responses to polls.
    func noteAcknowledged() {
        guard machine.awaitsAcknowledgement else { return }
        prepareWithAcknowledged()
        machine.noteAcknowledged(&services.context)
        finish()
    }

    func loseDeliveries(of session: SessionID) {
        prepareEvent()
        machine.loseDeliveries(of: session, &services.context)
        finish()
    }
}

import PandoBytes
import PandoConnections
import PandoDatabase
import PandoEngine
import PandoHTTP
import PandoIdentity
import PandoReactor

/// What a session by long polling asks for that concerns the connections of its requests.
protocol PollingSessionDelegate: AnyObject {
    /// - Parameter session: May have left the table since the event.
    func carryOut(_ action: consuming LongPollingAction, of session: PollingSession)
}

/// A session by long polling, on the loop on which it began (``SessionDirectory``).
final class PollingSession: LoopSession {
    private var session: LongPollingSession
    /// Lives as long as the process.
    private let delegate: any PollingSessionDelegate
    private let startAddress: SocketAddress?
    /// What counts as its client's address; nil where that is not known.
    let network: AddressNetwork?
    /// Counts it for its client's address (`--max-connections-per-address`).
    var addressGrant: AnyObject?

    /// - Parameters:
    ///   - start: The request that starts it.
    ///   - connection: What brought the request, and gets the first response.
    init(
        _ id: SessionID, _ start: LongPollingRequest.Start, on connection: HTTPSession,
        publicID: PublicSessionID, namespace: String?, _ services: SessionServices,
        delegate: any PollingSessionDelegate
    ) {
        self.delegate = delegate
        startAddress = connection.peerAddress
        network = startAddress.map { AddressNetwork($0) }
        var random = SystemRandomNumberGenerator()
        services.context.now = services.loop.now
        session = LongPollingSession(
            id, start, on: connection.id, publicID: publicID, namespace: namespace,
            password: LongPollingPassword.make(using: &random), &services.context)
        super.init(id, services)
        services.metrics.polling.add(1)
    }

    deinit { services.metrics.polling.add(-1) }

    var publicID: PublicSessionID { session.publicID }
    var namespace: String? { session.namespace }
    var mayBeJoined: Bool { session.mayBeJoined }

    func isPassword(_ password: [UInt8]) -> Bool { session.isPassword(password) }

    override var peerAddress: SocketAddress? { startAddress }

    override var hasManyRequests: Bool { session.hasManyRequests }

    override var awaitsAnswers: Bool { session.awaitsAnswers }

    override var connectionByteCount: Int { session.heldByteCount }

    /// Carries out what an event has led to.
    func finish() {
        carryOutActions()
        count(unfinished: session.unfinishedByteCount, waiting: session.waitingByteCount)
    }

    /// The client has shown an administrator's certificate. Before ``finish()``.
    func becomeAdministrator() {
        prepare()
        session.becomeAdministrator(&services.context)
    }

    // MARK: From the client

    /// A poll has come. What the client's system has acknowledged on ``unconfirmedConnections`` was noted.
    func receive(_ poll: LongPollingRequest.Poll, _ query: QueryString, on connection: HTTPSession) {
        lastHeard = services.loop.now
        prepare()
        session.receive(poll, query, on: connection.id, &services.context)
        finish()
    }

    func disconnect() {
        prepare()
        session.disconnect(&services.context)
        finish()
    }

    /// The connection of a poll broke before the response.
    func pollIsLost(on connection: HTTPSession) {
        prepare()
        session.pollIsLost(on: connection.id, &services.context)
        finish()
    }

    /// Something was sent behind the poll that waits on a connection.
    func hurryPoll(on connection: HTTPSession) {
        prepare()
        session.hurryPoll(on: connection.id, &services.context)
        finish()
    }

    func note(
        _ sent: SentResponses, on connection: HTTPSession, _ delivery: PollDelivery, isLast: Bool
    ) {
        prepare()
        session.note(sent, on: connection.id, delivery, isLast: isLast, &services.context)
        finish()
    }

    /// Connections with responses of which it is not known whether they were received.
    var unconfirmedConnections: [SessionID] { session.unconfirmedConnections }

    /// A response could not be written: its connection is gone.
    func lost(_ answer: PollResponse, on connection: SessionID) {
        session.lost(answer, on: connection)
    }

    // MARK: From the databases

    override func send(_ frames: RawSpan) {
        prepare()
        session.send(frames, &services.context)
        finish()
    }

    override var form: OutputForm { .script }

    /// Short frames: longer ones come as a script.
    override func send(_ frames: SharedBytes) { send(frames.rawSpan) }

    override func send(script: SharedBytes) {
        prepare()
        session.send(script: script, &services.context)
        finish()
    }

    override func send(_ message: LargeMessage) {
        prepare()
        session.send(message, &services.context)
        finish()
    }

    override func windowMarkReturned() {
        prepare()
        session.windowMarkReturned(&services.context)
        finish()
    }

    override func close(_ reason: DisconnectReason) {
        prepare()
        session.close(reason, &services.context)
        finish()
    }

    // MARK: From workers

    override func encoded(_ message: LargeMessage) {
        prepare()
        session.encoded(message, &services.context)
        finish()
    }

    override func parsed(_ message: ParsedMessage) {
        prepare()
        session.parsed(message, &services.context)
        finish()
    }

    override func verified(_ result: VerificationResult) {
        prepare()
        session.verified(result, &services.context)
        finish()
    }

    // MARK: From the loop

    /// At the end of the tick: answers the polls that are to be answered.
    func respondToPolls() {
        prepare()
        session.respondToPolls(&services.context)
        finish()
    }

    override func nextTurn() {
        prepare()
        session.nextTurn(&services.context)
        finish()
    }

    override func deadlinePassed() {
        services.router?.noteAcknowledged(for: id)
        prepare()
        session.deadlinePassed(&services.context)
        finish()
    }

    override func expired() {
        prepare()
        session.expired(&services.context)
        finish()
    }

    override func recheck(_ revocations: RevocationState) {
        prepare()
        session.recheck(revocations, &services.context)
        finish()
    }

    override func tick() {
        prepare()
        session.tick(&services.context)
        finish()
    }

    override func endIfIdle() {
        prepare()
        session.endIfIdle(&services.context)
        finish()
    }

    override func giveUpMemory() { cut() }

    override func cut() {
        prepare()
        session.cutNow(&services.context)
        finish()
    }

    override func pause(_ reason: PauseReasons) { session.pause(reason) }

    override func resume(_ reason: PauseReasons) {
        prepare()
        session.resume(after: reason, &services.context)
        finish()
    }

    // MARK: Actions

    override func carryOut(_ action: consuming ConnectionAction) {
        switch action {
        case .polling(let action): delegate.carryOut(action, of: self)
        case .handover(let step): services.router?.carryOut(step, of: id)
        default: super.carryOut(action)
        }
    }

    // MARK: The handover

    /// The client tries a WebSocket.
    func join(_ webSocket: SessionID) {
        prepare()
        session.join(webSocket, &services.context)
        finish()
    }

    /// The session for the WebSocket that takes it over.
    func moveSession() -> RealtimeSession {
        // The WebSocket is counted, as a connection.
        addressGrant = nil
        return session.moveSession()
    }

    func webSocketAcknowledged(_ webSocket: SessionID) {
        prepare()
        session.webSocketAcknowledged(webSocket, &services.context)
        finish()
    }

    func webSocketIsGone(_ webSocket: SessionID) {
        prepare()
        session.webSocketIsGone(webSocket, &services.context)
        finish()
    }

    /// The last responses have had their time, or are of no use any more.
    func leaveFormer() {
        prepare()
        session.leaveFormer(&services.context)
        finish()
    }
}

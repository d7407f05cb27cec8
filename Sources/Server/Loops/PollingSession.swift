import PandoBytes
import PandoConnections
import PandoDatabase
import PandoEngine
import PandoHTTP
import PandoIdentity
import PandoReactor

/// A session by long polling, on the loop on which it began (``SessionDirectory``).
final class PollingSession: LoopSession {
    private var machine: LongPollingSession
    private let startAddress: SocketAddress?
    /// As one connection of its client's address, where a proxy has said what that is.
    var addressGrant: AnyObject?

    /// - Parameters:
    ///   - start: The request that starts it.
    ///   - connection: What brought the request, and gets the first response.
    init(
        _ id: SessionID, _ start: LongPollingRequest.Start, on connection: HTTPSession,
        publicID: PublicSessionID, namespace: String?, _ services: SessionServices
    ) {
        startAddress = connection.peerAddress
        var random = SystemRandomNumberGenerator()
        services.context.now = services.loop.now
        machine = LongPollingSession(
            id, start, on: connection.id, publicID: publicID, namespace: namespace,
            password: LongPollingPassword.make(using: &random), &services.context)
        super.init(id, services)
        services.metrics.polling.add(1)
    }

    deinit { services.metrics.polling.add(-1) }

    var publicID: PublicSessionID { machine.publicID }
    var namespace: String? { machine.namespace }
    var mayBeJoined: Bool { machine.mayBeJoined }

    func isPassword(_ password: [UInt8]) -> Bool { machine.isPassword(password) }

    override var peerAddress: SocketAddress? { startAddress }

    override var hasManyRequests: Bool { machine.hasManyRequests }

    override var connectionByteCount: Int { machine.heldByteCount }

    /// Carries out what an event has led to.
    func finish() {
        carryOutActions()
        count(unfinished: machine.unfinishedByteCount, waiting: machine.waitingByteCount)
    }

    // MARK: From the client

    /// A poll has come. What the client's machine has acknowledged on ``carriers`` was noted.
    func receive(_ poll: LongPollingRequest.Poll, _ query: QueryString, on connection: HTTPSession) {
        lastHeard = services.loop.now
        prepare()
        machine.receive(poll, query, on: connection.id, &services.context)
        finish()
    }

    func disconnect() {
        prepare()
        machine.disconnect(&services.context)
        finish()
    }

    /// The connection of a poll broke before the response.
    func pollIsLost(on connection: HTTPSession) {
        prepare()
        machine.pollIsLost(on: connection.id, &services.context)
        finish()
    }

    func note(
        _ numbers: [Int], on connection: HTTPSession, _ delivery: PollDelivery, isLast: Bool
    ) {
        prepare()
        machine.note(numbers, on: connection.id, delivery, isLast: isLast, &services.context)
        finish()
    }

    /// Connections with responses of which it is not known whether they were received.
    var carriers: [SessionID] { machine.carriers }

    /// A response could not be written: its connection is gone.
    func lost(_ answer: PollAnswer, on connection: SessionID) {
        machine.lost(answer, on: connection)
    }

    // MARK: From the databases

    override func send(_ frames: RawSpan) {
        prepare()
        machine.send(frames, &services.context)
        finish()
    }

    override func send(_ frames: SharedBytes) { send(frames.rawSpan) }

    override func send(_ message: LargeMessage) {
        prepare()
        machine.send(message, &services.context)
        finish()
    }

    override func windowMarkReturned() {
        prepare()
        machine.windowMarkReturned(&services.context)
        finish()
    }

    override func close(_ reason: DisconnectReason) {
        prepare()
        machine.close(reason, &services.context)
        finish()
    }

    // MARK: From workers

    override func encoded(_ message: LargeMessage) {
        prepare()
        machine.encoded(message, &services.context)
        finish()
    }

    override func parsed(_ message: ParsedMessage) {
        prepare()
        machine.parsed(message, &services.context)
        finish()
    }

    override func verified(_ verdict: VerificationResult) {
        prepare()
        machine.verified(verdict, &services.context)
        finish()
    }

    // MARK: From the loop

    /// At the end of the tick: answers the polls that are to be answered.
    func answerPolls() {
        prepare()
        machine.answerPolls(&services.context)
        finish()
    }

    override func nextTurn() {
        prepare()
        machine.nextTurn(&services.context)
        finish()
    }

    override func deadlinePassed() {
        services.router?.noteAcknowledged(for: id)
        prepare()
        machine.deadlinePassed(&services.context)
        finish()
    }

    override func expired() {
        prepare()
        machine.expired(&services.context)
        finish()
    }

    override func recheck(_ revocations: RevocationState) {
        prepare()
        machine.recheck(revocations, &services.context)
        finish()
    }

    override func tick() {
        prepare()
        machine.tick(&services.context)
        finish()
    }

    override func endIfIdle() {
        prepare()
        machine.endIfIdle(&services.context)
        finish()
    }

    override func giveUpMemory() { cut() }

    override func cut() {
        prepare()
        machine.cutNow(&services.context)
        finish()
    }

    override func pause(_ reason: PauseReasons) { machine.pause(reason) }

    override func resume(_ reason: PauseReasons) {
        prepare()
        machine.resume(after: reason, &services.context)
        finish()
    }

    // MARK: Actions

    override func carryOut(_ action: consuming ConnectionAction) {
        switch action {
        case .polling(let action): services.router?.carryOut(action, of: self)
        case .handover(let step): services.router?.carryOut(step, of: id)
        default: super.carryOut(action)
        }
    }

    // MARK: The handover

    /// The client tries a WebSocket.
    func join(_ webSocket: SessionID) {
        prepare()
        machine.join(webSocket, &services.context)
        finish()
    }

    /// The session for the WebSocket that takes it over.
    func moveSession() -> RealtimeSession {
        // The WebSocket is counted.
        addressGrant = nil
        return machine.moveSession()
    }

    func webSocketAcknowledged(_ webSocket: SessionID) {
        prepare()
        machine.webSocketAcknowledged(webSocket, &services.context)
        finish()
    }

    func webSocketIsGone(_ webSocket: SessionID) {
        prepare()
        machine.webSocketIsGone(webSocket, &services.context)
        finish()
    }

    /// The last responses have had their time, or are of no use any more.
    func leaveFormer() {
        prepare()
        machine.leaveFormer(&services.context)
        finish()
    }
}

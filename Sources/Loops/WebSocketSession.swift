import PandoBytes
import PandoConnections
import PandoDatabase
import PandoEngine
import PandoIdentity
import PandoReactor
import PandoWebSocket

/// A WebSocket on its channel.
final class WebSocketSession: ChannelSession {
    private var connection: WebSocketConnection
    /// For which messages to the client are compressed; nil where they are not.
    private let ownWindow: DeflateWindow?
    private let ownForm: OutputForm
    /// The session by long polling that has moved here, while its last responses may be asked for again; nil
    /// for most.
    private(set) var former: PollingSession?

    /// - Parameters:
    ///   - polling: The session by long polling that the client wants to move here; nil for a session of its
    ///     own.
    ///   - window: The deflate window for which messages to the client are compressed; nil where they are
    ///     not.
    ///   - answersPings: Whether the client may be pinged (``UpgradeRequest/answersPings``).
    init(
        _ id: SessionID, on channel: Channel, joining polling: SessionID? = nil,
        compressingFor window: DeflateWindow?, answersPings: Bool, _ services: SessionServices
    ) {
        services.context.now = services.loop.now
        ownWindow = window
        ownForm = OutputForm(compressingFor: window)
        connection = WebSocketConnection(
            id, joining: polling, compressingFor: window, answersPings: answersPings, &services.context)
        super.init(id, on: channel, services)
        channel.readByteLimit = connection.readByteLimit
        services.metrics.webSockets.add(1)
    }

    deinit { services.metrics.webSockets.add(-1) }

    override var hasManyRequests: Bool { connection.hasManyRequests }

    override var awaitsAnswers: Bool { connection.awaitsAnswers }

    /// What was sent before the session moved here is this client's, too.
    override var connectionByteCount: Int {
        connection.heldByteCountInPlace() + unsentWeight(isShared: true) + (former?.heldByteCount ?? 0)
    }

    private func finish() {
        carryOutActions()
        guard !hasLeft else { return }
        let status = connection.status()
        follow(status)
    }

    // MARK: From the channel

    override func received(_ bytes: inout MutableRawSpan, on channel: Channel) {
        super.received(&bytes, on: channel)
        prepareSocket()
        connection.received(&bytes, &services.context)
        finish()
    }

    override func channelDidDrain(_ channel: Channel) {
        super.channelDidDrain(channel)
        prepareSocket()
        connection.drained(&services.context)
        finish()
    }

    override func channelDidEnd(_ channel: Channel) {
        prepareSocket()
        connection.peerEnded(&services.context)
        finish()
    }

    override func channelDidClose(_ channel: Channel, reason: ChannelCloseReason) {
        prepareSocket()
        connection.closed(&services.context)
        finish()
        super.channelDidClose(channel, reason: reason)
    }

    // MARK: From the databases

    override var form: OutputForm { ownForm }

    override func send(_ frames: RawSpan) {
        // The context is not touched for small frames: it would be copied.
        if let ownWindow, frames.byteCount >= CompressibleFrames.thresholdByteCount,
            let compressed = services.context.compressed(frames, for: ownWindow)
        {
            sendAsTheyAre(compressed.rawSpan)
        } else {
            sendAsTheyAre(frames)
        }
    }

    private func sendAsTheyAre(_ frames: RawSpan) {
        services.context.socket.unsentByteCount = channel.outboundByteCount
        switch connection.send(frames, &services.context) {
        case .write: channel.write(frames)
        case .writeAndCarryOut:
            channel.write(frames)
            finish()
        case .carryOut: finish()
        case .drop: break
        }
    }

    override func send(_ frames: SharedBytes) {
        services.context.socket.unsentByteCount = channel.outboundByteCount
        switch connection.send(frames, &services.context) {
        case .write: channel.write(frames)
        case .writeAndCarryOut:
            channel.write(frames)
            finish()
        case .carryOut: finish()
        case .drop: break
        }
    }

    override func send(_ message: LargeMessage) {
        prepareSocket()
        connection.send(message, &services.context)
        finish()
    }

    override func windowMarkReturned() {
        prepareSocket()
        connection.windowMarkReturned(&services.context)
        finish()
    }

    override func close(_ reason: DisconnectReason) {
        prepareSocket()
        connection.close(reason, &services.context)
        finish()
    }

    // MARK: From workers

    override func encoded(_ message: LargeMessage) {
        prepareSocket()
        connection.encoded(message, &services.context)
        finish()
    }

    override func parsed(_ message: ParsedMessage) {
        prepareSocket()
        connection.parsed(message, &services.context)
        finish()
    }

    override func verified(_ result: VerificationResult) {
        prepareSocket()
        connection.verified(result, &services.context)
        finish()
    }

    // MARK: From the loop

    override func nextTurn() {
        prepareSocket()
        connection.nextTurn(&services.context)
        finish()
    }

    /// The client has shown an administrator's certificate.
    func becomeAdministrator() {
        prepareSocket()
        connection.becomeAdministrator(&services.context)
        finish()
    }

    override func deadlinePassed() {
        prepareSocket()
        connection.deadlinePassed(&services.context)
        finish()
    }

    override func expired() {
        prepareSocket()
        connection.expired(&services.context)
        finish()
    }

    override func recheck(_ revocations: RevocationState) {
        prepareSocket()
        connection.recheck(revocations, &services.context)
        finish()
    }

    override func tick() {
        prepareSocket()
        if channel.outboundByteCount > 0 || connection.needsAcknowledgedByteCount {
            prepareWithAcknowledged()
            noteProgress(acknowledged: services.context.socket.acknowledgedByteCount)
        }
        connection.tick(&services.context)
        finish()
    }

    override func giveUpMemory() {
        former?.leaveFormer()
        prepareSocket()
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

    // MARK: The handover

    override func carryOut(_ action: consuming ConnectionAction) {
        if case .handover(let step) = action {
            services.router?.carryOut(step, of: id)
        } else {
            super.carryOut(action)
        }
    }

    /// The session by long polling is there: it is offered the move.
    func offerMove() {
        prepareSocket()
        connection.offerMove(&services.context)
        finish()
    }

    /// The session by long polling gives up the move.
    func refuseMove() {
        prepareSocket()
        connection.refuseMove(&services.context)
        finish()
    }

    /// The session moves here, with its id and its place in the table.
    func takeOver(from polling: PollingSession) {
        id = polling.id
        former = polling
        let session = polling.moveSession()
        hold(inDatabases: polling.databaseByteCount)
        polling.hold(inDatabases: 0)
        prepareSocket()
        connection.takeOver(session, &services.context)
        finish()
    }

    /// The last responses by long polling have arrived, or have had their time.
    func forgetFormer() {
        connection.forgetFormer()
        former = nil
    }

    /// The connection is gone, and with it the use of the last responses by long polling.
    func leaveFormer() {
        former.take()?.leaveFormer()
    }
}

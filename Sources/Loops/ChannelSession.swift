import PandoBytes
import PandoConnections
import PandoDatabase
import PandoEngine
import PandoReactor
import PandoTime

/// A session on a connection of its own: HTTP, or a WebSocket.
class ChannelSession: LoopSession, ChannelDelegate {
    final let channel: Channel
    /// What the client has taken lately; nil while nothing of its output ever waited.
    private var history: ProgressHistory?
    /// Bytes that the client has sent.
    private(set) var receivedByteCount = 0
    /// The peer is a proxy whose word about its clients counts.
    private(set) final var isTrustedProxy = false
    /// The client behind a trusted proxy, where that is known for good; nil for most.
    private var client: ClientAddress?
    /// The connection is another session's now, or on another loop.
    private(set) var hasLeft = false

    /// What is unsent to one client of what many get is there for the others, too.
    private static let sharedWeight = 16

    init(_ id: SessionID, on channel: Channel, _ services: SessionServices) {
        self.channel = channel
        super.init(id, services)
    }

    override var peerAddress: SocketAddress? { client?.address ?? channel.peerAddress }

    /// The client is at this address from now on, whatever the peer's is.
    final func remember(client address: SocketAddress) { client = ClientAddress(address) }

    /// Finds out whether the peer is a trusted proxy.
    final func judgePeer() {
        guard !services.trustedProxies.isEmpty, let peer = channel.peerAddress else { return }
        isTrustedProxy = services.trustedProxies.contains(peer)
    }

    func channelDidLearnPeer(_ channel: Channel) {
        judgePeer()
        services.router?.learnedClient(of: id)
    }

    final override var urgency: OutputBacklog.Urgency {
        !channel.hasKeptUp ? .none : channel.isPrompt ? .asking : .listening
    }

    final override var hasUnsentOutput: Bool { channel.outboundByteCount > 0 || isResponding }

    /// Whether a response is being printed.
    var isResponding: Bool { false }

    final override var writtenByteCount: Int { channel.writtenByteCount }

    final override var isReserved: Bool { channel.isReserved }

    /// The client has shown a certificate that administrators have (`--tls-client-ca`). A trusted proxy's own
    /// says nothing of its clients.
    final var hasAdministratorsCertificate: Bool {
        !isTrustedProxy && channel.tlsFacts?.isAdministrator == true
    }

    /// Before an event: sets the time and the state of the socket in the context.
    final func prepareSocket() {
        prepare()
        services.context.socket.unsentByteCount = channel.outboundByteCount
        services.context.socket.writtenByteCount = channel.writtenByteCount
        services.context.socket.isOpen = channel.isOpen
        services.context.socket.isTrustedProxy = isTrustedProxy
        services.context.socket.isSecure = channel.tlsFacts != nil
        services.context.socket.isAdministrator = hasAdministratorsCertificate
    }

    /// The same with what the client's system has acknowledged: a system call.
    final func prepareWithAcknowledged() {
        prepareSocket()
        services.context.socket.acknowledgedByteCount = channel.acknowledgedByteCount
    }

    override func carryOut(_ action: consuming ConnectionAction) {
        switch action {
        case .write(let bytes): channel.write(bytes.rawSpan)
        case .writeShared(let bytes): channel.write(bytes)
        case .closeAfterFlush: channel.closeAfterFlush()
        case .close: channel.close()
        case .reset:
            if !isCutForMemory { services.metrics.cuts.add(.tooSlow) }
            channel.reset()
        default: super.carryOut(action)
        }
    }

    /// Why the connection is paused.
    var pauses: PauseReasons { [] }

    final override func resumeAfterMemory(_ reasons: PauseReasons) {
        // It has its place among the channels before it is read.
        if !hasLeft, isReadingPaused, pauses.isSubset(of: reasons) { channel.noteBacklog() }
        resume(reasons)
    }

    final override func setReading(paused isPaused: Bool) {
        guard !hasLeft else { return }
        if isPaused { channel.pauseReading() } else { channel.resumeReading() }
    }

    /// After an event: counts what the connection holds, and reads the socket as the connection decides. A
    /// client with long input that is not processed is paused while the memory limit is exceeded.
    final func follow(_ status: ConnectionStatus) {
        count(unfinished: status.unfinishedByteCount, waiting: status.waitingByteCount)
        if services.isMemoryLimitExceeded, status.unfinishedByteCount >= MemoryBudget.incompleteInputLimit {
            pause(.incompleteInput)
        } else {
            follow(status.pauses)
        }
        channel.readByteLimit = status.readByteLimit
    }

    final override func cut() { channel.reset() }

    /// The connection is another session's from now on, which begins without a reason to pause it.
    final func letGo() {
        follow([])
        hasLeft = true
        count(unfinished: 0, waiting: 0)
    }

    // MARK: Memory

    /// Bytes of memory that unsent output takes, and TLS.
    /// - Parameter isShared: Whether others may hold it, too.
    final func unsentWeight(isShared: @autoclosure () -> Bool) -> Int {
        let output = channel.outboundByteCount
        // Without output there is what TLS holds.
        let owned = channel.ownedOutputByteCount
        guard output > owned else { return owned }
        return owned + (output - owned) / (isShared() ? Self.sharedWeight : 1)
    }

    /// Looks at what the client has taken, or sent. One system call while output is unsent.
    final override var progress: ClientProgress {
        // The client has taken all there is of a response, and waits for the rest.
        if isResponding, channel.outboundByteCount == 0 { return .steady }
        noteProgress()
        return history?.monitor.progress(at: services.loop.now) ?? .unknown
    }

    /// Notes what the client has taken of its output by now, or sent where nothing is unsent.
    final func noteProgress() {
        if channel.outboundByteCount > 0 {
            noteProgress(acknowledged: channel.acknowledgedByteCount)
        } else if !isReadingPaused {
            // A paused client cannot show progress.
            note(receivedByteCount, of: .input)
        }
    }

    /// One system call while output is unsent, else none.
    final override func sampleProgress() {
        if channel.outboundByteCount > 0 { noteProgress() }
    }

    final func noteProgress(acknowledged: Int) {
        note(acknowledged, of: .output)
    }

    private func note(_ byteCount: Int, of direction: ProgressMonitor.Direction) {
        let history = history ?? ProgressHistory()
        self.history = history
        history.monitor.note(byteCount, of: direction, at: services.loop.now)
    }

    // MARK: From the channel

    func received(_ bytes: inout MutableRawSpan, on channel: Channel) {
        lastHeard = services.loop.now
        receivedByteCount += bytes.byteCount
    }

    func channelDidEnd(_ channel: Channel) { channel.closeAfterFlush() }

    func channelDidDrain(_ channel: Channel) {
        // A slow client that takes what it is sent is known as such before memory is short.
        guard history?.monitor.isDue(at: services.loop.now) ?? true else { return }
        noteProgress(acknowledged: channel.acknowledgedByteCount)
    }

    func channelDidClose(_ channel: Channel, reason: ChannelCloseReason) { leave() }
}

/// An address that most sessions do not have: a word where there is none.
private final class ClientAddress {
    let address: SocketAddress

    init(_ address: SocketAddress) { self.address = address }
}

/// A monitor that most sessions do not have: a word where there is none.
private final class ProgressHistory {
    var monitor = ProgressMonitor()
}

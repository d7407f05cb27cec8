/// The server's end of a ``SimulatedLink``: what a `Channel` of `Reactor` does, without a socket; with TLS
/// also what its `SecureStage` does.
///
///               ┌── closeAfterFlush() ──┐
///     open ─────┤                       ▼          all sent
///       │       └─ (nothing unsent) ▶ flushing ──────────────▶ lingering
///       │                               │   the end goes out; input is dropped until the client's end
///       └── close(), reset ──▶ closed ◀─────────────────────────┘
final class SimulatedChannel {
    private enum Phase { case open, flushing, lingering, closed }

    let link: SimulatedLink
    private let lowWaterByteCount: Int
    private var phase = Phase.open
    /// Encrypts and decrypts; nil without TLS.
    private let secure: SecureEnd?
    /// Data that is not encrypted yet: that is done when the network has accepted all records before it.
    private var waiting: [UInt8] = []
    /// Bytes of data in records that the network has not accepted.
    private var batchByteCount = 0
    private var dataByteCount = 0
    private var acknowledged = 0
    /// What the last read has found behind its data.
    private var found: SecureEnd.Input?
    /// For ``PlantedFault/losesDataBeforeClose``.
    private let losesDataBeforeClose: Bool
    /// The client's end was read.
    private var hasEnded = false
    private var isAboveLowWater = false
    private var isReadingPaused = false
    /// How it was closed, and whether ``nextEvent(byteLimit:)`` has said so.
    private var closing: (inOrder: Bool, wasReported: Bool)?
    /// How often ``sweepLingering()`` was called while it was lingering.
    private var lingeringSweepCount = 0

    /// What has happened to the channel.
    enum Event {
        case received([UInt8])
        case drained
        case ended
        /// `inOrder`: by this side.
        case closed(inOrder: Bool)
    }

    init(_ link: SimulatedLink, lowWaterByteCount: Int, losesDataBeforeClose: Bool = false) {
        self.link = link
        self.lowWaterByteCount = lowWaterByteCount
        self.losesDataBeforeClose = losesDataBeforeClose
        secure = link.secure == nil ? nil : SecureEnd()
    }

    var isOpen: Bool { phase == .open }
    var isClosed: Bool { phase == .closed }
    var writtenByteCount: Int { secure == nil ? link.toClient.writtenCount : dataByteCount }

    var unsentByteCount: Int {
        guard !isClosed, secure != nil else { return isClosed ? 0 : link.toClient.unsentCount }
        return waiting.count + (link.toClient.unsentCount > 0 ? batchByteCount : 0)
    }

    var acknowledgedByteCount: Int {
        guard secure != nil else { return link.toClient.arrivedCount }
        // A record counts when all of it has arrived.
        let missing = link.toClient.inFlightCount > 0 ? link.toClient.inFlightCount + Self.recordByteLimit : 0
        acknowledged = max(acknowledged, dataByteCount - unsentByteCount - missing)
        return acknowledged
    }

    /// Most bytes of data in a record.
    private static let recordByteLimit = 16 << 10
    /// Most bytes of data that are encrypted at once.
    private static let batchByteLimit = 64 << 10

    // MARK: From the connection

    func write(_ bytes: [UInt8]) {
        guard isOpen else { return }
        if secure == nil {
            link.toClient.write(bytes)
        } else {
            waiting += bytes
            dataByteCount += bytes.count
        }
        if unsentByteCount > lowWaterByteCount { isAboveLowWater = true }
    }

    func setReading(paused isPaused: Bool) { isReadingPaused = isPaused }

    func closeAfterFlush() {
        guard isOpen else { return }
        // Before the handshake is done, nothing can be said.
        guard secure?.canSend ?? true else { return reset() }
        phase = .flushing
        flush()
    }

    /// Unsent output is dropped.
    func reset() {
        guard !isClosed else { return }
        link.reset()
        finish(inOrder: true)
    }

    // MARK: From the network

    /// Whether the loop has something to do for this channel: what epoll would report.
    var isReady: Bool {
        switch phase {
        case .closed: closing?.wasReported == false
        case .open, .flushing, .lingering:
            link.isReset || link.toClient.acceptableCount > 0 || canEncryptMore
                || (!isReadingPaused || !isOpen) && hasInput
        }
    }

    /// The network has accepted all records, and data waits to be encrypted. (A real socket is writable
    /// then, and epoll reports it.)
    private var canEncryptMore: Bool {
        guard let secure, !waiting.isEmpty else { return false }
        return link.toClient.unsentCount == 0 && secure.canSend
    }

    private var hasInput: Bool {
        !hasEnded && (link.toServer.readableCount > 0 || link.toServer.hasEndArrived)
    }

    /// Whether the last read has found more than its data: it belongs to the same event.
    var hasFoundEnd: Bool { found != nil }

    /// The next event; nil when there is none.
    /// - Parameter byteLimit: Most bytes that are read.
    func nextEvent(byteLimit: Int) -> Event? {
        if link.isReset, !isClosed { finish(inOrder: false) }
        if isClosed {
            guard let closing, !closing.wasReported else { return nil }
            self.closing?.wasReported = true
            return .closed(inOrder: closing.inOrder)
        }
        if let found = found.take(), isOpen {
            if found.failure == nil { hasEnded = true } else { refuse() }
            return .ended
        }
        flush()
        if isAboveLowWater, unsentByteCount <= lowWaterByteCount {
            isAboveLowWater = false
            if isOpen { return .drained }
        }
        guard hasInput, !isReadingPaused || !isOpen else { return nil }
        let bytes = link.toServer.read(atMost: byteLimit)
        if bytes.isEmpty {
            hasEnded = true
            if phase == .lingering { finish(inOrder: true) }
            return isOpen ? .ended : nextEvent(byteLimit: byteLimit)
        }
        guard isOpen else { return nextEvent(byteLimit: byteLimit) }
        guard let secure else { return .received(bytes) }
        var input = secure.receive(bytes)
        if losesDataBeforeClose, input.hasEnded { input.data = [] }
        sendRecords()
        if input.hasEnded || input.failure != nil { found = input }
        return input.data.isEmpty
            ? found.flatMap { _ in nextEvent(byteLimit: byteLimit) } : .received(input.data)
    }

    /// The client has broken TLS: sends the alert that says why, and ends. Other output is dropped.
    private func refuse() {
        waiting = []
        phase = .flushing
        flush()
    }

    private func sendRecords() {
        if let secure { link.toClient.write(secure.takeOutput()) }
    }

    /// Encrypts data as far as the network accepts it.
    private func sendData() {
        guard let secure else { return link.toClient.accept(link.toClient.acceptableCount) }
        sendRecords()
        while true {
            link.toClient.accept(link.toClient.acceptableCount)
            guard canEncryptMore else { return }
            batchByteCount = min(waiting.count, Self.batchByteLimit)
            secure.seal(waiting.prefix(batchByteCount))
            waiting.removeFirst(batchByteCount)
            sendRecords()
        }
    }

    /// Gives the kernel what it accepts.
    func flush() {
        guard !isClosed else { return }
        sendData()
        guard phase == .flushing, waiting.isEmpty, link.toClient.unsentCount == 0 else { return }
        if let secure, secure.canSend {
            secure.close()
            // Comes back here when the network has accepted it.
            return flush()
        }
        link.toClient.end()
        phase = .lingering
        if hasEnded { finish(inOrder: true) }
    }

    /// Gives up on a client that does not close its side.
    func sweepLingering() {
        guard phase == .lingering else { return }
        lingeringSweepCount += 1
        if lingeringSweepCount > 1 { reset() }
    }

    private func finish(inOrder: Bool) {
        phase = .closed
        closing = (inOrder, false)
    }
}

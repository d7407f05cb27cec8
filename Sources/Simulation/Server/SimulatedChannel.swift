/// The server's end of a ``SimulatedLink``: what a `Channel` of `Reactor` does, without a socket.
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

    init(_ link: SimulatedLink, lowWaterByteCount: Int) {
        self.link = link
        self.lowWaterByteCount = lowWaterByteCount
    }

    var isOpen: Bool { phase == .open }
    var isClosed: Bool { phase == .closed }
    var unsentByteCount: Int { isClosed ? 0 : link.toClient.unsentCount }
    var writtenByteCount: Int { link.toClient.writtenCount }
    var acknowledgedByteCount: Int { link.toClient.arrivedCount }

    // MARK: From the connection

    func write(_ bytes: [UInt8]) {
        guard isOpen else { return }
        link.toClient.write(bytes)
        if unsentByteCount > lowWaterByteCount { isAboveLowWater = true }
    }

    func setReading(paused isPaused: Bool) { isReadingPaused = isPaused }

    func closeAfterFlush() {
        guard isOpen else { return }
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
            link.isReset || link.toClient.acceptableCount > 0
                || (!isReadingPaused || !isOpen) && hasInput
        }
    }

    private var hasInput: Bool {
        !hasEnded && (link.toServer.readableCount > 0 || link.toServer.hasEndArrived)
    }

    /// The next event; nil when there is none.
    /// - Parameter byteLimit: Most bytes that are read.
    func nextEvent(byteLimit: Int) -> Event? {
        if link.isReset, !isClosed { finish(inOrder: false) }
        if isClosed {
            guard let closing, !closing.wasReported else { return nil }
            self.closing?.wasReported = true
            return .closed(inOrder: closing.inOrder)
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
        return isOpen ? .received(bytes) : nextEvent(byteLimit: byteLimit)
    }

    /// Gives the kernel what it accepts.
    func flush() {
        guard !isClosed else { return }
        link.toClient.accept(link.toClient.acceptableCount)
        guard phase == .flushing, unsentByteCount == 0 else { return }
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

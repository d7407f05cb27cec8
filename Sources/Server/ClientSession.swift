import PandoBytes
import PandoEngine
import PandoReactor

/// One connection as the database thread knows it: what it is sent, in order. Confined to its loop.
///
/// While a large answer is being encoded or sent, later outputs wait behind it. What waits is bounded, as what a
/// client leaves unread is.
class ClientSession: ChannelDelegate {
    let id: SessionID
    let channel: Channel
    let owner: IOLoop
    /// When the client last sent anything.
    var lastHeard: MonotonicTime
    /// Outputs behind a large one; nil when none is under way.
    private var delayed: [Delayed]?
    private var delayedByteCount = 0
    /// What is left of the large one, last piece first.
    private var unsent: [SharedBytes] = []

    private enum Delayed {
        case bytes([UInt8])
        case shared(SharedBytes)
        case deferred(DeferredMessage)
        case close(OutputBatch.CloseReason)

        var byteCount: Int {
            switch self {
            case .bytes(let bytes): bytes.count
            case .shared(let bytes): bytes.count
            case .deferred, .close: 0
            }
        }
    }

    init(_ id: SessionID, on channel: Channel, of owner: IOLoop) {
        self.id = id
        self.channel = channel
        self.owner = owner
        lastHeard = owner.loop.now
    }

    // MARK: For subclasses

    /// Whether outputs still reach the client.
    var isOpen: Bool { channel.isOpen }

    /// Ends the connection, with the goodbye that its protocol has.
    func end(_ reason: OutputBatch.CloseReason) {
        channel.closeAfterFlush()
    }

    /// Tells that an answer is larger than can be sent, and ends the connection.
    func refuseOversized() {
        channel.reset()
    }

    /// Asks a silent client whether it lives, or gives it up.
    func checkIdle(at now: MonotonicTime) {}

    func received(_ bytes: inout MutableRawSpan, on channel: Channel) {}

    func channelDidEnd(_ channel: Channel) {
        channel.closeAfterFlush()
    }

    func channelDidClose(_ channel: Channel, reason: PandoReactor.CloseReason) {
        delayed = nil
        unsent = []
        owner.remove(self)
    }

    // MARK: Outputs

    func send(_ bytes: RawSpan) {
        guard isOpen else { return }
        guard delayed != nil else { return channel.write(bytes) }
        var copy: [UInt8] = []
        copy.append(bytes)
        delay(.bytes(copy), byteCount: copy.count)
    }

    func send(_ bytes: SharedBytes) {
        guard isOpen else { return }
        if delayed != nil { delay(.shared(bytes), byteCount: bytes.count) } else { channel.write(bytes) }
    }

    /// Has a large message encoded; what follows waits.
    func send(_ message: DeferredMessage) {
        guard isOpen else { return }
        guard delayed == nil else { return delay(.deferred(message), byteCount: 0) }
        delayed = []
        owner.encode(message, for: id)
    }

    /// Keeps an output back. A client that lets too much gather is treated as one that does not read.
    private func delay(_ output: Delayed, byteCount: Int) {
        delayedByteCount += byteCount
        if delayedByteCount > channel.outboundByteLimit { return channel.reset() }
        delayed?.append(output)
    }

    /// The large message is encoded: sends it piece by piece, then what waited behind it.
    func finishEncoding(_ pieces: [SharedBytes]?) {
        guard let pieces else {
            refuseOversized()
            return
        }
        unsent = pieces.reversed()
        sendNextPiece()
    }

    func channelDidDrain(_ channel: Channel) {
        sendNextPiece()
    }

    private func sendNextPiece() {
        guard delayed != nil, isOpen else { return }
        if let piece = unsent.popLast() { channel.write(piece) }
        // The client tells by reading that it is ready for more.
        if !unsent.isEmpty { return }
        let rest = delayed ?? []
        delayed = nil
        delayedByteCount = 0
        for (index, output) in rest.enumerated() {
            switch output {
            case .bytes(let bytes): send(bytes.rawSpan)
            case .shared(let bytes): send(bytes)
            case .close(let reason): close(reason)
            case .deferred(let message):
                send(message)
                for output in rest[(index + 1)...] { delay(output, byteCount: output.byteCount) }
                return
            }
        }
    }

    func close(_ reason: OutputBatch.CloseReason) {
        if delayed != nil, reason == .finished { return delay(.close(reason), byteCount: 0) }
        end(reason)
    }

    // MARK: Backpressure

    /// - Returns: false when reading is paused already.
    func pauseReading() -> Bool {
        guard channel.isReading else { return false }
        channel.pauseReading()
        return true
    }

    func resumeReading() {
        channel.resumeReading()
    }
}

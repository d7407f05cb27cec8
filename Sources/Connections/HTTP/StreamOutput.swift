import PandoBytes
import PandoDatabase
import PandoEngine
import PandoIdentity
import PandoREST
import PandoTime
import PandoTree

/// What an event stream sends, and to whom.
struct StreamOutput {
    /// Data that prints in no more is measured on the loop; larger data by a worker.
    static let measuredByteCount = 256 << 10
    /// Events that may wait before what is pushed to the client is coalesced.
    private static let laggingCount = 500

    /// By which the databases know the connection.
    private let session: SessionID
    private var stream: EventStream
    /// Who listens; nil for a client without a token, or whose token was revoked.
    private var listener: Identity?
    /// The databases coalesce what they push to this client, until it has taken what is unsent.
    private var isLagging = false
    /// ``ConnectionAction/expire(at:)`` is in force.
    private var hasExpiry = false
    /// It waits for its turn.
    private var isYielding = false

    /// Writes the head of the stream. When the identity of the request is over, the stream ends (rest §8.3).
    init(
        _ session: SessionID, _ request: RESTRequest, for listener: Identity?, dateLine: [UInt8],
        _ context: inout ConnectionContext
    ) {
        self.session = session
        self.listener = listener
        stream = EventStream(
            JSONForm(streaming: request.form), waitingByteLimit: context.settings.outboundByteLimit,
            now: context.now)
        var head = RESTResponse.stream(dateLine: dateLine)
        if let bytes = head.next() { context.write(bytes) }
        if let end = listener?.validUntil {
            hasExpiry = true
            context.append(.expire(at: end))
        }
        // Keys may have gone since the request came.
        context.append(.recheck)
    }

    /// The time of ``ConnectionAction/expire(at:)`` has come.
    mutating func expired() { hasExpiry = false }

    /// The connection is gone.
    mutating func end(_ context: inout ConnectionContext) {
        if hasExpiry { context.append(.expire(at: nil)) }
        hasExpiry = false
    }

    /// Bytes of memory that the events take which were not sent; of what other streams hold, too, a part.
    var heldByteCount: Int { stream.heldByteCount }

    /// An event is on its way to the socket.
    var isPrinting: Bool { stream.isPrinting }

    /// Nothing is sent until it is known whether the first event is too much.
    var isMeasuring: Bool { stream.isMeasuring }

    /// The first event came, and everything that did was sent.
    var isCaughtUp: Bool { stream.isCaughtUp }

    /// Whether nothing was sent for so long that a keep-alive is due. The first event is a `put` (rest §8.2),
    /// so none is sent before it, nor while it is being measured.
    func isSilent(_ context: inout ConnectionContext) -> Bool {
        stream.hasBegun && stream.waitingCount == 0
            && context.now - stream.lastSent > EventStream.keepAliveInterval
    }

    /// Adds events.
    /// - Returns: false when more waits than may: the client has to be disconnected.
    mutating func append(_ events: [StreamEvent], _ context: inout ConnectionContext) -> Bool {
        if !stream.hasBegun, case .put(_, let node)? = events.first,
            node.isHeavier(than: Self.measuredByteCount)
        {
            stream.awaitMeasure()
            context.append(
                .measure(node, nil, byteLimit: RESTLimits.streamByteCount, wantsETag: false))
        }
        return stream.append(events)
    }

    /// Adds the events of a write of many locations.
    /// - Returns: false when more waits than may: the client has to be disconnected.
    mutating func append(_ update: StreamUpdate) -> Bool { stream.append(update) }

    /// Adds a large query window, which is one event. Nothing behind it is sent until a worker has made the
    /// event.
    /// - Returns: false when more waits than may: the client has to be disconnected.
    mutating func append(_ window: StreamWindow, _ context: inout ConnectionContext) -> Bool {
        if !stream.hasBegun { stream.awaitMeasure() }
        let hasSpace = stream.append(window)
        if let isTooHeavy = window.isTooHeavy {
            stream.measured(isTooHeavy: isTooHeavy)
        } else {
            context.append(.makeWindow(window))
        }
        return hasSpace
    }

    /// The first event was measured, or an event was made.
    mutating func measured(isTooHeavy: Bool) { stream.measured(isTooHeavy: isTooHeavy) }

    /// Others have had their turn.
    mutating func turnCame() { isYielding = false }

    /// Writes as many events as the client takes, and the loop may print.
    /// - Parameter isTurn: It is the connection's turn: one piece is written, however much the loop has
    ///   printed.
    /// - Returns: false where everything was sent, and nothing more will come.
    mutating func send(
        isTurn: Bool, _ rate: inout OutputRate, _ context: inout ConnectionContext
    ) -> Bool {
        var mayPrint = isTurn
        while context.socket.unsentByteCount < ResponseOutput.unsentByteLimit {
            if context.printing.isUsedUp, !mayPrint, stream.isPrinting || stream.waitingCount > 0 {
                if !isYielding { context.append(.nextTurn) }
                isYielding = true
                return true
            }
            mayPrint = false
            guard let piece = stream.next() else {
                noteCaughtUp(&context)
                return !stream.isFinished
            }
            guard !piece.isEmpty else {
                // To find that out has cost as much as a piece.
                context.printing.spend(RESTLimits.pieceByteCount)
                continue
            }
            stream.lastSent = context.now
            rate.begin(context.socket)
            context.printing.spend(piece.count)
            context.write(piece)
        }
        return true
    }

    /// Keys or revocations have changed.
    /// - Returns: Whether the stream must end.
    mutating func recheck(_ revocations: RevocationState) -> Bool {
        guard let identity = listener, !revocations.allows(identity) else { return false }
        listener = nil
        return true
    }

    /// Posts to the databases that the client has fallen behind.
    mutating func noteLag(_ context: inout ConnectionContext) {
        guard !isLagging,
            context.socket.unsentByteCount + stream.waitingByteCount > ConnectionLimits.laggingByteCount
                || stream.unsentEventCount > Self.laggingCount
        else { return }
        isLagging = true
        context.post(.lagging(session))
    }

    /// Posts to the databases that the client has taken nearly everything.
    private mutating func noteCaughtUp(_ context: inout ConnectionContext) {
        guard isLagging, stream.waitingCount == 0, context.isDrained else { return }
        isLagging = false
        context.post(.caughtUp(session))
    }
}

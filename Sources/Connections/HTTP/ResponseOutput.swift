import PandoHTTP
import PandoREST

/// A response on its way to the socket: a piece at a time, as the client reads; how fast it does, and what
/// the log says of it.
struct ResponseOutput {
    enum Progress {
        /// The client must take some of it first.
        case waits
        /// Other connections have their turn first.
        case yields
        /// All of it was written.
        case ended(closes: Bool)
    }

    /// Pieces that one connection prints before others have their turn.
    private static let turnPieceCount = 4
    /// Bytes of a response, or of events, that are written before the socket must take some.
    static let unsentByteLimit = 256 << 10

    /// How fast the client takes what it is sent.
    var rate = OutputRate()
    /// The request in progress, where requests are logged.
    private(set) var logged: LoggedRequest?
    private var response: RESTResponse?
    /// It counts among those that the loop's connections compress.
    private var isCompressing = false
    private var isYielding = false
    /// What was printed of it and is spent (``PrintingBudget``).
    private var spentByteCount = 0
    /// Its framing is not known: it counts in ``ConnectionContext/bufferingCount``.
    private var isBuffering = false
    /// Bytes of memory that it holds of what is not written, beside the tree's. (Stored: to ask ``response``
    /// would copy it.)
    private(set) var heldByteCount = 0

    /// A response is being sent. (To compare it with nil would copy it.)
    var isActive: Bool { if case .some = response { true } else { false } }

    /// A request has come whose response is to be logged.
    mutating func log(_ request: LoggedRequest) { logged = request }

    /// The response to the request begins; what follows is written by others.
    mutating func announce(_ status: HTTPStatus, _ context: inout ConnectionContext) {
        guard let request = logged.take() else { return }
        request.status = status.code
        request.ended = context.now
        context.append(.http(.logAccess(request)))
    }

    /// Begins a response.
    mutating func begin(_ response: consuming RESTResponse, _ context: inout ConnectionContext) -> Progress {
        announce(response.status, &context)
        rate.begin(context.socket)
        context.printing.spend(response.printedByteCount)
        spentByteCount = response.printedByteCount
        // Nearly all responses are one piece, and nothing of them is kept.
        if let bytes = response.removeWhole() {
            context.write(bytes)
            if context.socket.unsentByteCount < Self.unsentByteLimit {
                return .ended(closes: response.closesConnection)
            }
        }
        if response.isCompressing {
            isCompressing = true
            context.compressingCount += 1
        }
        updateCounts(heldByteCount: response.heldByteCount, isBuffering: response.isFramingUnknown, &context)
        self.response = response
        return proceed(&context)
    }

    /// Writes as much of it as may be; the rest follows as the client reads, or when others have had their
    /// turn.
    /// - Parameter isTurn: It is the connection's turn: one piece is written, however much the loop has
    ///   printed.
    mutating func proceed(isTurn: Bool = false, _ context: inout ConnectionContext) -> Progress {
        var pieceCount = 0
        while context.socket.unsentByteCount < Self.unsentByteLimit {
            guard context.socket.isOpen else {
                // What is written now is not sent any more.
                drop(&context)
                return .ended(closes: true)
            }
            let mayPrint = !context.printing.isUsedUp || isTurn && pieceCount == 0
            guard mayPrint, pieceCount < Self.turnPieceCount else {
                defer { isYielding = true }
                return isYielding ? .waits : .yields
            }
            pieceCount += 1
            guard let bytes = response?.next() else {
                let closes = response?.closesConnection ?? true
                drop(&context)
                return .ended(closes: closes)
            }
            if !bytes.isEmpty { context.write(bytes) }
            updateCounts(
                heldByteCount: response?.heldByteCount ?? 0, isBuffering: response?.isFramingUnknown ?? false,
                &context)
            let printedByteCount = response?.printedByteCount ?? 0
            context.printing.spend(printedByteCount - spentByteCount)
            spentByteCount = printedByteCount
        }
        return .waits
    }

    /// Others have had their turn.
    mutating func turnCame() { isYielding = false }

    private mutating func updateCounts(
        heldByteCount: Int, isBuffering: Bool, _ context: inout ConnectionContext
    ) {
        self.heldByteCount = heldByteCount
        guard isBuffering != self.isBuffering else { return }
        context.bufferingCount += isBuffering ? 1 : -1
        self.isBuffering = isBuffering
    }

    /// Drops what was not written.
    mutating func drop(_ context: inout ConnectionContext) {
        if isCompressing { context.compressingCount -= 1 }
        isCompressing = false
        updateCounts(heldByteCount: 0, isBuffering: false, &context)
        response = nil
    }
}

import PandoBytes
import PandoHTTP
import PandoTime

/// What an HTTP connection has received and not used yet: a head that is not complete, and what the client
/// sent behind the request in progress.
struct RequestInput {
    /// Bytes of the socket's next read where a head is expected.
    static let headReadByteCount = 64 << 10

    private var headReader: RequestHeadReader
    private let headLimits: HeadLimits
    /// When the head that is not complete began; nil where none has begun.
    private(set) var headBegan: MonotonicTime?
    private var ahead = InputAhead()
    /// Requests that the client has sent ahead are read when others have had their turn.
    private(set) var isYielding = false
    /// What was read in this turn.
    private(set) var turn = Turn()

    init(_ headLimits: HeadLimits) {
        self.headLimits = headLimits
        headReader = RequestHeadReader(limits: headLimits)
    }

    /// Bytes that wait.
    var waitingByteCount: Int { ahead.byteCount + headReader.byteCount }

    /// Whether something was sent behind the request in progress, or behind the last one of a turn.
    var hasAhead: Bool { ahead.byteCount > 0 }

    /// Drops everything.
    mutating func drop() {
        ahead = InputAhead()
        headReader = RequestHeadReader(limits: headLimits)
        headBegan = nil
    }

    // MARK: Heads

    /// Whether the head that is not complete is that of a HEAD request.
    var isReadingHEAD: Bool { headReader.isHead }

    /// Reads bytes from `offset` on, and moves `offset` behind them.
    /// - Returns: nil when more bytes are needed.
    /// - Throws: What is wrong with the head; nothing can be read behind it.
    mutating func readHead(
        _ bytes: RawSpan, from offset: inout Int, at now: MonotonicTime
    ) throws(HTTPError) -> RequestHead? {
        guard let head = try headReader.read(bytes, from: &offset) else {
            if headBegan == nil, !headReader.isIdle { headBegan = now }
            return nil
        }
        headReader = RequestHeadReader(limits: headLimits)
        headBegan = nil
        return head
    }

    /// What belongs to the next head has begun to come.
    mutating func noteHead(since time: MonotonicTime) { headBegan = headBegan ?? time }

    // MARK: Turns

    /// What was read since others had their turn: one read of a socket may hold ten thousand requests. Those
    /// whose responses come at once, from another connection of the loop, belong to the same turn.
    struct Turn {
        /// Requests that are answered at once, and bytes of their heads, that are read in one turn.
        static let requestCount = 32
        static let headByteCount = 16 << 10

        private var requestCount = 0
        private var headByteCount = 0

        /// Whether others have their turn before one more is read.
        var isOver: Bool { requestCount >= Self.requestCount || headByteCount >= Self.headByteCount }

        /// A request was read.
        mutating func count(headBytes byteCount: Int) {
            requestCount += 1
            headByteCount += byteCount
        }
    }

    /// Others have had their turn.
    mutating func beginTurn() { turn = Turn() }

    /// A request was read.
    mutating func countRequest(headBytes byteCount: Int) { turn.count(headBytes: byteCount) }

    /// The turn is over: the rest is read in the next one.
    mutating func yield() { isYielding = true }

    // MARK: What was sent ahead

    /// What was sent ahead is being read, and what is not read of it stays.
    var isReadingAhead: Bool { ahead.isReading }

    /// Keeps what came behind the request in progress.
    mutating func keep(_ bytes: RawSpan) { ahead.append(bytes) }

    /// Takes out what was sent ahead, to be read from the offset on; nil where there is nothing.
    mutating func beginAhead() -> (bytes: [UInt8], offset: Int)? {
        isYielding = false
        return ahead.begin()
    }

    /// - Parameter offset: What is behind it was not read, and is kept.
    /// - Returns: Whether nothing is left.
    mutating func endAhead(_ bytes: consuming [UInt8], from offset: Int) -> Bool {
        ahead.end(bytes, from: offset)
        return ahead.byteCount == 0
    }
}

import PandoBytes
import PandoHTTP
import PandoREST
import PandoTime

/// What an HTTP connection has received and not used yet: a head or a body that is not complete, and what the
/// client sent behind the request in progress.
struct RequestInput {
    /// Bytes of the socket's next read where a head is expected.
    static let headReadByteCount = 64 << 10

    private var headReader: RequestHeadReader
    private let headLimits: HeadLimits
    /// When the head that is not complete began; nil where none has begun.
    private(set) var headBegan: MonotonicTime?
    private var content: RequestContent?
    private var bodyRate: MinimumRateMonitor
    /// What the client sent behind the request in progress.
    var ahead = InputAhead()

    init(_ headLimits: HeadLimits, at now: MonotonicTime) {
        self.headLimits = headLimits
        headReader = RequestHeadReader(limits: headLimits)
        bodyRate = MinimumRateMonitor(at: now)
    }

    /// Bytes that wait, without those of a body.
    var waitingByteCount: Int { ahead.byteCount + headReader.byteCount }

    /// Drops everything but the body.
    mutating func drop() {
        ahead = InputAhead()
        headReader = RequestHeadReader(limits: headLimits)
        headBegan = nil
    }

    // MARK: The head

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

    // MARK: The body

    /// Bytes of the body that are here.
    var bodyByteCount: Int { content?.bytes.count ?? 0 }

    /// Prepares for the body of a request.
    /// - Parameter byteLimit: Most bytes, as they travel.
    mutating func beginBody(of head: RequestHead, byteLimit: Int) throws(RequestContent.Refusal) {
        content = try RequestContent(of: head, byteLimit: byteLimit)
    }

    /// The minimum rate counts from now on.
    mutating func restartBodyRate(at now: MonotonicTime) {
        bodyRate = MinimumRateMonitor(bodyByteCount, at: now)
    }

    /// Reads bytes from `offset` on, and moves `offset` behind them.
    /// - Returns: Whether the body is complete.
    mutating func readBody(_ bytes: RawSpan, from offset: inout Int) throws(RequestContent.Refusal) -> Bool {
        try content?.append(bytes, from: &offset) ?? true
    }

    /// Whether the client sends its body more slowly than ``ConnectionLimits/slowestBytesPerSecond``.
    mutating func isBodyTooSlow(at now: MonotonicTime, window: Duration) -> Bool {
        bodyRate.isTooSlow(
            bodyByteCount, at: now, window: window,
            bytesPerSecond: ConnectionLimits.slowestBytesPerSecond)
    }

    /// Removes the body, or what of it is here.
    mutating func takeBody() -> (bytes: [UInt8], isGzip: Bool) {
        guard content != nil else { return ([], false) }
        let isGzip = content?.isGzip ?? false
        let bytes = content?.takeBytes() ?? []
        content = nil
        return (bytes, isGzip)
    }
}

import PandoBytes
import PandoHTTP
import PandoTime

/// The body of a REST request, as it comes in and until it was parsed.
struct RequestBody {
    private var content: RequestContent?
    private var rate: MinimumRateMonitor
    /// Bytes that are here, or that a thread has.
    private(set) var unfinishedByteCount = 0

    init(at now: MonotonicTime) {
        rate = MinimumRateMonitor(at: now)
    }

    /// Bytes that are here.
    private var byteCount: Int { content?.bytes.count ?? 0 }

    /// It is large, and was not announced so.
    var isLarge: Bool { byteCount > ConnectionLimits.smallByteCount }

    /// Prepares for the body of a request.
    /// - Parameter byteLimit: Most bytes, as they travel.
    mutating func begin(of head: RequestHead, byteLimit: Int) throws(RequestContent.Refusal) {
        content = try RequestContent(of: head, byteLimit: byteLimit)
    }

    /// Reads bytes from `offset` on, and moves `offset` behind them.
    /// - Returns: Whether the body is complete.
    mutating func read(_ bytes: RawSpan, from offset: inout Int) throws(RequestContent.Refusal) -> Bool {
        let isComplete = try content?.append(bytes, from: &offset) ?? true
        unfinishedByteCount = byteCount
        return isComplete
    }

    /// Removes the body, or what of it is here.
    mutating func take() -> (bytes: ByteBlocks, isGzip: Bool) {
        unfinishedByteCount = 0
        guard content != nil else { return (ByteBlocks(), false) }
        let isGzip = content?.isGzip ?? false
        let bytes = content?.takeBytes() ?? ByteBlocks()
        content = nil
        return (bytes, isGzip)
    }

    // MARK: With a thread

    /// A thread has so many bytes of it.
    mutating func gave(_ byteCount: Int) { unfinishedByteCount = byteCount }

    /// The thread has finished, or its result is not needed any more.
    mutating func ended() { unfinishedByteCount = 0 }

    // MARK: Its rate

    /// The minimum rate counts from now on.
    mutating func restartRate(at now: MonotonicTime) {
        rate = MinimumRateMonitor(byteCount, at: now)
    }

    /// Whether the client sends it more slowly than ``ConnectionLimits/slowestBytesPerSecond``.
    mutating func isTooSlow(at now: MonotonicTime, window: Duration) -> Bool {
        rate.isTooSlow(
            byteCount, at: now, window: window, bytesPerSecond: ConnectionLimits.slowestBytesPerSecond)
    }
}

import PandoBytes
import PandoCompression
import PandoConnections
import PandoDatabase
import PandoEngine
import PandoREST
import PandoReactor
import Synchronization

/// A body to be read away from the loop: a large one, or one that is compressed.
final class BodyJob: Sendable {
    let session: SessionID
    let request: RESTRequest
    /// Bytes as they travelled.
    let byteCount: Int
    fileprivate let isGzip: Bool
    fileprivate let byteLimit: Int
    fileprivate let results: Mailbox<BodyResult>
    /// nil once its client is gone.
    private let bytes: Mutex<ByteBlocks?>

    /// - Parameter byteLimit: Most bytes, inflated.
    init(
        _ bytes: ByteBlocks, isGzip: Bool, byteLimit: Int, of request: RESTRequest, for session: SessionID,
        results: Mailbox<BodyResult>
    ) {
        self.session = session
        self.request = request
        self.isGzip = isGzip
        self.byteLimit = byteLimit
        self.results = results
        byteCount = bytes.count
        self.bytes = Mutex(bytes)
    }

    /// Its client is gone: its memory is free at once, not when its turn comes. Once it is being read, its
    /// result is dropped.
    /// - Returns: Its bytes, unless it is being read: the caller frees them.
    func cancel() -> ByteBlocks? { bytes.withLock { exchange(&$0, with: nil) } }

    fileprivate var isCancelled: Bool { bytes.withLock { $0 == nil } }

    /// Empty once its client is gone.
    fileprivate func take() -> ByteBlocks {
        bytes.withLock { bytes in
            if bytes == nil { return ByteBlocks() }
            return exchange(&bytes, with: ByteBlocks()) ?? ByteBlocks()
        }
    }

    /// Puts back what was taken.
    fileprivate func put(_ taken: ByteBlocks) {
        bytes.withLock { if $0 != nil { $0 = taken } }
    }
}

/// Inflates and reads large bodies while the loops go on.
///
///     loops ──▶ pando-bodies ──────────────────────────▶ result    bodies that have up to 1 MiB, inflated
///                    └─ larger ones ──▶ pando-uploads ──▶ result    while ``ParsingBudget`` is not exhausted
///
/// Each thread serves connections in turn (``BodyQueue``). So small bodies do not wait behind large ones, and
/// what all large ones take together is bounded.
final class BodyThread: Sendable {
    private let small: BodyLane
    private let large: BodyLane

    /// - Throws: ``SocketError`` where the process has no free descriptor or thread.
    init(_ budget: ParsingBudget) throws(SocketError) {
        large = try BodyLane("pando-uploads", budget, overflow: nil)
        small = try BodyLane("pando-bodies", budget, overflow: large)
    }

    func post(_ job: BodyJob) { small.post(job) }

    /// Drops what was asked for, and ends the threads.
    func stop() {
        small.stop()
        large.stop()
    }
}

/// One thread of ``BodyThread``.
private final class BodyLane: Sendable {
    /// Bytes of one connection's bodies in one round: those of a small body, about.
    private static let quantum = 256 << 10
    /// Bytes of a body, inflated, that take a few milliseconds.
    private static let smallByteCount = 1 << 20
    private static let stackByteCount = 8 << 20
    /// Where more threads want to run than there are processors, loops and databases come first.
    private static let niceness = 10

    private let thread: WorkerThread<BodyJob>

    /// - Parameter overflow: Where large bodies go; nil for the thread that reads them.
    init(_ name: String, _ budget: ParsingBudget, overflow: BodyLane?) throws(SocketError) {
        thread = try WorkerThread(name, stackByteCount: Self.stackByteCount, niceness: Self.niceness)
        if overflow == nil { budget.wake(thread.wakeup) }
        try thread.start { queue in
            var batch: [BodyJob] = []
            var jobs = BodyQueue<BodyJob>(quantum: Self.quantum)
            var mayRead: Bool { !jobs.isEmpty && (overflow != nil || !budget.isExhausted) }
            while queue.receive(into: &batch, timeout: mayRead ? .zero : nil), !queue.isStopping {
                for job in batch {
                    if let overflow, job.byteCount > Self.smallByteCount {
                        overflow.post(job)
                    } else {
                        jobs.append(job, byteCount: job.byteCount, of: job.session)
                    }
                }
                batch.removeAll(keepingCapacity: true)
                guard mayRead, let job = jobs.removeFirst() else { continue }
                let byteLimit = overflow == nil ? job.byteLimit : Self.smallByteCount
                if !Self.read(job, budget, upTo: byteLimit) { overflow?.post(job) }
            }
        }
    }

    func post(_ job: BodyJob) { thread.post(job) }
    func stop() { thread.stop() }

    /// Reads a body, and posts the result.
    /// - Parameter byteLimit: Bytes, inflated, up to which it is read here.
    /// - Returns: false where it has more, and is as it was.
    private static func read(_ job: BodyJob, _ budget: ParsingBudget, upTo byteLimit: Int) -> Bool {
        var outcome = BodyResult(session: job.session, content: .bytes([]), byteCount: 0)
        do throws(RESTError) {
            let bytes: [UInt8]
            if job.isGzip {
                let blocks = job.take()
                guard let inflated = try inflate(blocks, byteLimit: job.byteLimit, upTo: byteLimit) else {
                    job.put(blocks)
                    return false
                }
                bytes = inflated
            } else {
                bytes = job.take().joined()
            }
            outcome.byteCount = bytes.count
            outcome.grant = budget.grant(forTextOf: bytes.count)
            outcome.content = try BodyResult.Content(
                reading: bytes, of: job.request, byteLimit: job.byteLimit)
        } catch {
            outcome.content = .refused(error)
        }
        // The result of a cancelled job is freed by this thread, not by the loop.
        if !job.isCancelled { job.results.post(outcome) }
        return true
    }

    // MARK: Inflating

    /// JSON of real data shrinks to a tenth or a twentieth, of much repetition to a fiftieth; deflate itself
    /// goes to a thousandth. So more than this is no data but a bomb.
    private static let gzipRatioLimit = 100
    /// What any body may inflate to: what repeats itself most is small, and so is the harm.
    private static let gzipAllowance = 4 << 20

    /// - Parameters:
    ///   - byteLimit: The most bytes that it may have.
    ///   - stop: Bytes at which this gives up.
    /// - Returns: Nil where it has more than `stop`, and perhaps no more than it may have.
    private static func inflate(
        _ packed: ByteBlocks, byteLimit: Int, upTo stop: Int
    ) throws(RESTError) -> [UInt8]? {
        // Nothing at all is no data, compressed or not.
        guard !packed.isEmpty else { return [] }
        let (scaled, overflows) = packed.count.multipliedReportingOverflow(by: gzipRatioLimit)
        let allowed = min(byteLimit, max(gzipAllowance, overflows ? .max : scaled))
        let limit = min(allowed, stop)
        var bytes: [UInt8] = []
        do throws(GzipBody.Problem) {
            var gzip: GzipBody
            do throws(CompressionError) { gzip = try GzipBody(byteLimit: limit) } catch {
                throw .invalid(error)
            }
            try packed.forEachBlock { (block) throws(GzipBody.Problem) in
                try gzip.inflate(block, into: &bytes)
            }
            try gzip.finish()
        } catch {
            switch error {
            case .tooLarge where limit < allowed: return nil
            case .tooLarge: throw .payloadTooLarge
            case .invalid(.noMemory): throw .unavailable
            case .invalid: throw .invalidGzip
            }
        }
        return bytes
    }
}

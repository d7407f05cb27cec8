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
    private let bytes: Mutex<[UInt8]>

    /// - Parameter byteLimit: Most bytes, inflated.
    init(
        _ bytes: [UInt8], isGzip: Bool, byteLimit: Int, of request: RESTRequest, for session: SessionID,
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

    /// Its client is gone: its memory is free at once, not when its turn comes. Also once it is being
    /// read: then nothing happens.
    func cancel() {
        _ = take()
    }

    fileprivate func take() -> [UInt8] {
        bytes.withLock { exchange(&$0, with: []) }
    }
}

/// Inflates and reads large bodies, one at a time, while the loops go on.
///
/// In turns by connection (``BodyQueue``), so that small ones do not wait behind large ones, nor a large one for
/// ever.
final class BodyThread: Sendable {
    /// Bytes of one connection's bodies in one round: those of a small body, about.
    private static let quantum = 256 << 10

    private enum Order: Sendable {
        case read(BodyJob)
        case stop
    }

    private let orders: Mailbox<Order>
    private let thread: NamedThread

    init() throws(SocketError) {
        let wakeup = try WakeupEvent()
        let orders = Mailbox<Order>(signalling: wakeup)
        self.orders = orders
        thread = try NamedThread.start("pando-bodies", stackByteCount: 8 << 20) {
            lowerThreadPriority()
            Self.run(wakeup, orders)
        }
    }

    func post(_ job: BodyJob) {
        orders.post(.read(job))
    }

    /// Drops what was asked for, and ends the thread.
    func stop() {
        orders.post(.stop)
        thread.join()
    }

    private static func run(_ wakeup: WakeupEvent, _ orders: Mailbox<Order>) {
        var batch: [Order] = []
        var jobs = BodyQueue<BodyJob>(quantum: quantum)
        while true {
            if jobs.isEmpty { wakeup.wait() }
            orders.drain(into: &batch)
            for order in batch {
                switch order {
                case .read(let job): jobs.append(job, byteCount: job.byteCount, of: job.session)
                case .stop: return
                }
            }
            batch.removeAll()
            if let job = jobs.removeFirst() { read(job) }
        }
    }

    private static func read(_ job: BodyJob) {
        var outcome = BodyResult(session: job.session, content: .bytes([]), byteCount: 0)
        do throws(RESTError) {
            let bytes = try job.isGzip ? inflate(job.take(), byteLimit: job.byteLimit) : job.take()
            outcome.byteCount = bytes.count
            if case .data = job.request.location {
                outcome.content = .data(try job.request.readBody(bytes.rawSpan, byteLimit: job.byteLimit))
            } else {
                outcome.content = .bytes(bytes)
            }
        } catch {
            outcome.content = .refused(error)
        }
        job.results.post(outcome)
    }

    // MARK: Inflating

    /// JSON of real data shrinks to a tenth or a twentieth, of much repetition to a fiftieth; deflate itself
    /// goes to a thousandth. So more than this is no data but a bomb.
    private static let gzipRatioLimit = 100
    /// What any body may inflate to: what repeats itself most is small, and so is the harm.
    private static let gzipAllowance = 4 << 20

    private static func inflate(_ packed: [UInt8], byteLimit: Int) throws(RESTError) -> [UInt8] {
        // Nothing at all is no data, compressed or not.
        guard !packed.isEmpty else { return [] }
        let (scaled, overflows) = packed.count.multipliedReportingOverflow(by: gzipRatioLimit)
        let limit = min(byteLimit, max(gzipAllowance, overflows ? .max : scaled))
        var bytes: [UInt8] = []
        do throws(GzipBody.Problem) {
            var gzip: GzipBody
            do throws(CompressionError) { gzip = try GzipBody(byteLimit: limit) } catch {
                throw .invalid(error)
            }
            try gzip.inflate(packed.rawSpan, into: &bytes)
            try gzip.finish()
        } catch {
            switch error {
            case .tooLarge: throw .payloadTooLarge
            case .invalid(.noMemory): throw .unavailable
            case .invalid: throw .invalidGzip
            }
        }
        return bytes
    }
}

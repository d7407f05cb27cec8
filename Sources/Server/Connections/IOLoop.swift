import Logging
import PandoBytes
import PandoDatabase
import PandoEngine
import PandoHTTP
import PandoIdentity
import PandoREST
import PandoReactor
import PandoStorage
import PandoTree
import PandoWire

/// One I/O thread: its event loop, its connections, and the doors to the other threads.
///
/// `@unchecked Sendable`: everything mutable is touched on the loop's thread only, or before it runs.
final class IOLoop: @unchecked Sendable {
    let loop: EventLoop
    let configuration: Configuration
    let authenticator: Authenticator
    let logger: Logger
    let index: UInt8
    private let database: DatabaseExecutor
    private let workers: SnapshotWorkers
    private let congestion: BackpressureGate
    private let outputCongestion: BackpressureGate
    /// Every loop's mailbox, our own included.
    let allLoops: [Mailbox<OutputBatch>]
    private let spareOutputs: BufferPool<OutputBatch>
    let limiter: ConnectionLimiter
    /// HTTP connections that may be closed for others: see `IOLoop+Eviction.swift`.
    var evictable = EvictionOrder()
    /// Of connections in the administrators' reserve, by slot: until then the request must have come.
    var reservedDeadlines: [UInt32: TimerToken] = [:]

    /// Sessions by slot; free slots are nil. See `IOLoop+Sessions.swift`.
    var sessions: ContiguousArray<ClientSession?> = []
    var freeSlots: [UInt32] = []
    var generation: UInt32 = 0
    /// Sessions by long polling: see `IOLoop+LongPolling.swift`.
    let directory: SessionDirectory
    /// Those of which no poll waits, the longest first.
    var disconnected = EvictionOrder()
    /// Those with polls that may be answered at the end of this tick.
    var pollsToAnswer: [LongPollingSession] = []
    /// Those that are over since this tick.
    var endedPolling: [LongPollingSession] = []
    /// Messages for the database that the current tick has brought.
    private var outgoing: [DatabaseMessage] = []
    /// One of them may take long.
    private var hasHeavyOutgoing = false
    /// What the database host has left here without ringing; empty between calls.
    private var delivered: [OutputBatch] = []
    /// Sessions that are not read because the database or the disk is behind.
    var paused: [ClientSession] = []
    private var isCongested = false
    private var onEmpty: (() -> Void)?
    let memory: MemoryBudget
    /// Bytes that sessions hold of what is not complete, and of outputs that wait behind large ones.
    var unfinishedByteCount = 0
    var waitingByteCount = 0
    /// Of these, what ``memory`` knows.
    var publishedByteCount = 0
    /// Sessions are paused because the process holds too much.
    var isPressing = false
    /// When sessions were last paused or disconnected for it.
    var pressingSince = MonotonicTime(nanoseconds: 0)
    /// Since when the process holds more than it may; nil while it does not.
    var exceededSince: MonotonicTime?
    var memoryCutCount = 0
    var lastMemoryReport: MonotonicTime?
    /// Sessions by long polling that were ended since the last report because too many had no poll.
    var pollingCutCount = 0
    var lastPollingReport: MonotonicTime?
    private let clock = WallClock()
    private var dateText: [UInt8] = []
    private var dateTime = MonotonicTime(nanoseconds: 0)

    let encoded: Mailbox<EncodedMessage>
    private let surveys: Mailbox<NodeSizeCheck>
    private let parsed: Mailbox<ParsedMessage>
    private let bodies: Mailbox<BodyOutcome>
    private let bodyThread: BodyThread
    /// Compresses answers that are there as a whole.
    let compressor = ResponseCompressor()
    private let turns: Mailbox<SessionID>
    let verdicts: Mailbox<VerifiedToken>
    var knownTokens = VerificationCache()
    /// Answers that are compressed while they are sent.
    var compressingCount = 0
    var foreignRequests = ForeignRequestLog()

    /// More at once are sent as they are: zlib keeps a quarter of a MiB for each, so 16 MiB on one loop.
    private static let compressingLimit = 64

    init(
        _ loop: EventLoop, index: UInt8, configuration: Configuration, database: DatabaseExecutor,
        outputs: [Mailbox<OutputBatch>], spareOutputs: BufferPool<OutputBatch>, workers: SnapshotWorkers,
        bodyThread: BodyThread, memory: MemoryBudget, congestion: BackpressureGate,
        outputCongestion: BackpressureGate,
        limiter: ConnectionLimiter, directory: SessionDirectory, authenticator: Authenticator, logger: Logger
    ) {
        self.loop = loop
        self.index = index
        self.configuration = configuration
        self.database = database
        self.workers = workers
        self.bodyThread = bodyThread
        self.memory = memory
        self.congestion = congestion
        self.outputCongestion = outputCongestion
        self.limiter = limiter
        self.directory = directory
        allLoops = outputs
        self.spareOutputs = spareOutputs
        self.authenticator = authenticator
        self.logger = logger
        encoded = Mailbox(signalling: loop.wakeup)
        surveys = Mailbox(signalling: loop.wakeup)
        parsed = Mailbox(signalling: loop.wakeup)
        bodies = Mailbox(signalling: loop.wakeup)
        turns = Mailbox(signalling: loop.wakeup)
        verdicts = Mailbox(signalling: loop.wakeup)
        loop.attach(outputs[Int(index)]) { [self] batches in
            deliver(&batches)
        }
        loop.attach(encoded) { [self] messages in
            for message in messages { session(message.session)?.finishEncoding(message.message) }
        }
        loop.attach(surveys) { [self] surveys in
            for survey in surveys { session(survey.session)?.finish(survey) }
        }
        loop.attach(parsed) { [self] messages in
            for message in messages { session(message.session)?.finish(message) }
        }
        loop.attach(bodies) { [self] bodies in
            for body in bodies { session(body.session)?.finish(body) }
        }
        loop.attach(turns) { [self] turns in
            for id in turns { session(id)?.nextTick() }
        }
        loop.attach(directory.moves[Int(index)]) { [self] connections in
            for connection in connections { adopt(connection) }
        }
        loop.attach(verdicts) { [self] verdicts in
            for verified in verdicts { session(verified.session)?.finish(settle(verified)) }
        }
        loop.onTickEnd = { [unowned self] in
            flushOutgoing()
            answerPolls()
            publishHeldBytes()
        }
        scheduleSweep()
    }

    // MARK: The time

    /// The line of a head that tells the time (RFC 9110 §6.6.1), made anew each second.
    var dateLine: [UInt8] {
        if dateText.isEmpty || loop.now - dateTime >= .seconds(1) {
            dateTime = loop.now
            var line: [UInt8] = []
            line.append("Date: ")
            line.append(httpDate: clock.now() / 1000)
            line.append("\r\n")
            dateText = line
        }
        return dateText
    }

    /// Seconds since 1970.
    var seconds: Int64 { clock.now() / 1000 }

    // MARK: To the database thread

    /// Queues a message. What one tick brings, over all connections, is a burst for the database thread,
    /// which is woken once for all of it, or so little that this loop does it itself (``DatabaseExecutor``).
    func post(_ message: consuming DatabaseMessage, byteCount: Int, for session: ClientSession?) {
        if !message.isLight { hasHeavyOutgoing = true }
        outgoing.append(message)
        if byteCount > 0 {
            switch congestion.add(byteCount) {
            case .goOn: break
            case .pause: isCongested = true
            case .resumeAll:
                for loop in allLoops { loop.post(OutputBatch(items: [.resumeReading])) }
            }
        }
        if outgoing.count >= Self.burstCount { handOver() }
        // A client that has handed on little is read all the same: it is others whose requests wait.
        if isCongested, let session, session.holdsManyRequests || byteCount >= Self.smallByteCount,
            !session.isPausedForCongestion
        {
            session.pause(.congestion)
            paused.append(session)
        }
    }

    var hasOutgoing: Bool { !outgoing.isEmpty }

    /// Messages from which on the database thread begins while the loop goes on.
    private static let burstCount = 256

    private func handOver() {
        hasHeavyOutgoing = false
        database.post(movingFrom: &outgoing)
    }

    private func flushOutgoing() {
        guard !outgoing.isEmpty else { return }
        if hasHeavyOutgoing { return handOver() }
        database.process(&outgoing, onQueue: Int(index))
        allLoops[Int(index)].drain(into: &delivered)
        var batches: [OutputBatch] = []
        swap(&batches, &delivered)
        deliver(&batches)
        batches.removeAll(keepingCapacity: batches.capacity <= Self.burstCount)
        swap(&batches, &delivered)
        // What the outputs have led to must not wait until something else wakes the loop.
        if !outgoing.isEmpty { loop.wakeup.signal() }
    }

    /// Has a large message made by a worker; it comes back through ``encoded``.
    func encode(_ message: LargeMessage, for session: SessionID) {
        workers.post(.encode(EncodingJob(session: session, message: message, answer: encoded)))
    }

    /// Has a worker read a large message; its answer goes to ``ClientSession/finish(_:)``.
    func parse(_ message: [UInt8], for session: SessionID) {
        workers.post(
            .parse(
                ParsingJob(
                    session: session, message: message, nodeLimit: configuration.writeNodeLimit,
                    answer: parsed)))
    }

    /// Has a worker look at large data; its answer goes to ``ClientSession/finish(_:)``.
    /// - Parameter query: What of the node is wanted; nil for all of it.
    func survey(_ node: Node, _ query: Query?, byteLimit: Int?, wantsETag: Bool, for session: SessionID) {
        workers.post(
            .survey(
                NodeSizeCheckJob(
                    session: session, node: node, query: query, byteLimit: byteLimit, wantsETag: wantsETag,
                    answer: surveys)))
    }

    /// The session is gone; what workers were to do for it is not done any more.
    func abandonJobs(of session: SessionID) {
        workers.abandonJobs(of: session)
    }

    /// Has the helper thread inflate and read a body; ``ClientSession/finish(_:)`` hears of it.
    func readBody(_ bytes: [UInt8], isGzip: Bool, of request: RESTRequest, for session: SessionID) -> BodyJob
    {
        let job = BodyJob(
            bytes, isGzip: isGzip, byteLimit: configuration.writeByteLimit, of: request, for: session,
            answer: bodies)
        bodyThread.post(job)
        return job
    }

    /// Whether there is memory for one more compressed answer.
    var mayCompress: Bool { compressingCount < Self.compressingLimit }

    /// Calls ``ClientSession/nextTick()`` once others have had their turn.
    func nextTick(for session: SessionID) {
        turns.post(session)
    }

    // MARK: From the database thread

    /// Deals outputs out, and gives back what held them.
    private func deliver(_ batches: inout [OutputBatch]) {
        for index in batches.indices {
            var batch = OutputBatch()
            swap(&batch, &batches[index])
            deliver(batch)
            if outputCongestion.remove(batch.byteCount) { database.post(.outputsDelivered) }
            OutputBatch.recycle(consume batch, into: spareOutputs)
        }
    }

    private func deliver(_ batch: OutputBatch) {
        let arena = batch.arena.rawSpan
        for item in batch.items {
            switch item {
            case .frames(let id, let range): session(id)?.send(arena.extracting(range))
            case .shared(let bytes, let recipients):
                // One look at the table for all of them. Sessions leave it only at the end of a tick.
                let sessions = sessions
                for id in recipients { session(id, among: sessions)?.send(bytes) }
            case .large(let id, let message): session(id)?.send(message)
            case .rest(let id, let outcome): session(id)?.receive(outcome)
            case .events(let id, let events): session(id)?.receive(events)
            case .windowMark(let id): session(id)?.returnWindowMark()
            case .close(let id, let reason): session(id)?.close(reason)
            case .resumeReading: resumeReading()
            }
        }
    }

    private func resumeReading() {
        isCongested = false
        var sessions: [ClientSession] = []
        swap(&sessions, &paused)
        for session in sessions { session.resume(.congestion) }
    }

    // MARK: The end

    /// Calls `body` once the last session is gone; at once when there is none.
    func whenEmpty(_ body: @escaping () -> Void) {
        onEmpty = body
        for session in sessions { session?.endIfIdle() }
        tellIfEmpty()
    }

    func tellIfEmpty() {
        guard let onEmpty, freeSlots.count == sessions.count else { return }
        self.onEmpty = nil
        onEmpty()
    }

    // MARK: Who may stay

    /// Keys or revocations have changed.
    func apply(_ revocations: RevocationState) {
        knownTokens.removeAll()
        for session in sessions { session?.recheck(revocations) }
    }

    // MARK: Silence

    /// The longest between two sweeps, whatever the timeouts: streams say in time that they live (rest
    /// §8.1).
    private static let longestSweepInterval: Duration = .seconds(5)

    /// Looks a few times per timeout at who has gone silent.
    private func scheduleSweep() {
        let interval = min(
            configuration.idleTimeout / 5, configuration.requestTimeout / 2, configuration.presenceStep,
            Self.longestSweepInterval)
        loop.schedule(after: interval) { [self] in sweep(from: 0) }
    }

    /// A part of the sessions in one tick, the next in a later one: who came together falls silent together,
    /// and to ping thousands at once would keep everybody else waiting.
    private func sweep(from start: Int) {
        let tickCount = max(1, min(Self.sweepTickCount, Int(configuration.presenceStep / Self.sweepPause)))
        let end = min(sessions.count, start + max(Self.sweptCount, sessions.count / tickCount))
        for session in sessions[start..<end] { session?.checkIdle(at: loop.now) }
        guard end < sessions.count else { return scheduleSweep() }
        loop.schedule(after: Self.sweepPause) { [self] in sweep(from: end) }
    }

    /// Sessions that are looked at in one tick: less than a millisecond, if all of them must be sent a ping
    /// (11 µs each).
    private static let sweptCount = 64
    /// Ticks that a sweep takes at most, so that it ends in about three seconds however many there are.
    private static let sweepTickCount = 400
    /// Between two of them: a tick of the loop's timers.
    private static let sweepPause: Duration = .milliseconds(8)
}

import PandoBytes
import PandoConnections
import PandoDatabase
import PandoEngine
import PandoHTTP
import PandoREST
import PandoReactor
import PandoSettings
import PandoStaticFiles
import PandoStorage
import PandoTime
import PandoTree
import PandoWebSocket

/// What the sessions of one loop use: its clock and timers, the context of their state machines, workers,
/// counts. Confined to the loop.
final class SessionServices {
    let loop: EventLoop
    /// What the state machines of all sessions are given with an event, and what it leads to.
    var context: ConnectionContext
    let metrics = SessionMetrics()
    /// An empty buffer for actions.
    var spareActions = ContiguousArray<ConnectionAction>()
    let routedActions = RoutedActions()
    /// Bytes that sessions hold of what is not complete, and of outputs that wait.
    var unfinishedByteCount = 0
    var waitingByteCount = 0
    /// Bytes that the databases hold for sessions.
    var databaseByteCount = 0
    /// Sessions that are paused because the databases or the disk are behind.
    var paused: [SessionID] = []
    /// The databases or the disk are behind.
    var isUnderBackpressure = false
    /// The process holds more for its clients than it may (``LoopMemory``).
    var isMemoryLimitExceeded = false
    /// The loop's ``SessionHost``, which knows the other sessions. Lives as long as the process, so the
    /// reference cycle is harmless.
    var router: (any SessionRouter)?
    /// The proxies whose word about their clients counts.
    let trustedProxies: TrustedProxies
    /// The trusted proxy on whose connection the present event is.
    var proxy: SocketAddress?

    private let resources: LoopResources
    /// Has the server answer what is asked of itself, and of no database. Set before the loop runs.
    var answerServerQuestion: ((ServerQuestion, @escaping @Sendable (RESTReport) -> Void) -> Void)?
    private let clock = WallClock()
    private var dateTime = MonotonicTime(nanoseconds: 0)

    /// Results of workers, on their way to sessions.
    let encoded: Mailbox<EncodedMessage>
    let measured: Mailbox<NodeSizeCheck>
    let parsed: Mailbox<ParsedMessage>
    let inspected: Mailbox<InspectionResult>
    let bodies: Mailbox<BodyResult>
    /// Sessions that go on when others have had their turn.
    let turns: Mailbox<SessionID>

    /// - Parameter index: The loop's number.
    init(_ resources: LoopResources, loop index: UInt8) {
        self.resources = resources
        let configuration = resources.configuration
        loop = resources.eventLoops[Int(index)]
        trustedProxies = configuration.trustedProxies
        context = ConnectionContext(
            ConnectionSettings(
                configuration, loop: index, of: resources.eventLoops.count, loop.configuration,
                site: resources.site),
            now: loop.now)
        context.printing = PrintingBudget(byteCount: Self.printingByteLimit)
        if configuration.compressesMessages {
            context.compression = SharedCompression(
                deferringBeyond: ConnectionLimits.smallByteCount, inflationByteCount: Self.inflationByteCount,
                budget: Self.compressionBudget)
        }
        encoded = Mailbox(signalling: loop.wakeup)
        measured = Mailbox(signalling: loop.wakeup)
        parsed = Mailbox(signalling: loop.wakeup)
        inspected = Mailbox(signalling: loop.wakeup)
        bodies = Mailbox(signalling: loop.wakeup)
        turns = Mailbox(signalling: loop.wakeup)
    }

    /// The options of a running server have changed. A head that is being read keeps the limit that it began
    /// with.
    func takeOver(from configuration: Configuration) {
        context.settings.logsAccess = configuration.logsAccess
        context.settings.readByteLimit = configuration.readByteLimit
        context.settings.headLimits = configuration.headLimits
        context.settings.limits.rates = configuration.writeRates
    }

    /// Sets the wall clock's time for the state machines: the line of a head (RFC 9110 §6.6.1) and the
    /// seconds, anew each second.
    func refreshDate() {
        guard context.dateLine.isEmpty || loop.now - dateTime >= .seconds(1) else { return }
        dateTime = loop.now
        let seconds = clock.now() / 1000
        var line: [UInt8] = []
        line.append(dateLine: seconds)
        context.dateLine = line
        context.wallSeconds = seconds
    }

    /// The client behind the trusted proxy on whose connection the present event is.
    /// - Parameter forwardedFor: ``RequestHead/forwardedFor``.
    /// - Returns: nil where there is no such proxy, or it does not say who its client is.
    func client(forwardedFor: [UInt8]) -> SocketAddress? {
        proxy.flatMap { trustedProxies.namedClient(forwardedFor: forwardedFor, by: $0) }
    }

    // MARK: Limits of a tick

    /// What a loop compresses in one tick: about 3 ms of zlib's time, which all other connections wait. A
    /// client may ask for the same value of 31 KiB any number of times in one packet. Frames for several
    /// receivers count once.
    static let compressionBudget = CompressedByteBudget(byteCount: 256 << 10)

    /// What a loop inflates in one tick before workers inflate and parse further messages, but for the
    /// smallest: at most 3 ms of its time, for JSON that takes longest. One packet may hold hundreds of
    /// messages of 64 KiB each.
    static let inflationByteCount = 128 << 10

    /// What a loop prints for REST in one tick before further responses take turns: about a millisecond of
    /// its time (``PrintingBudget``).
    static let printingByteLimit = 64 << 10

    /// Messages from which on the database thread begins while the loop goes on.
    static let burstCount = 256

    /// Counts the bytes that an event of a session has posted to the databases.
    /// - Returns: Whether the session must be paused. A client that has posted little is read
    ///   all the same: it is others whose requests wait.
    func countPosted(hasManyRequests: @autoclosure () -> Bool) -> Bool {
        let byteCount = context.takePostedByteCount()
        guard byteCount > 0 else { return false }
        switch resources.requestBackpressure.add(byteCount) {
        case .proceed: break
        case .pause: isUnderBackpressure = true
        case .resumeAll:
            for loop in resources.outputs { loop.post(OutputBatch(items: [.resumeReading])) }
        }
        return isUnderBackpressure && (byteCount >= ConnectionLimits.smallByteCount || hasManyRequests())
    }

    // MARK: Workers

    /// Has a worker encode a large message; the session's `encoded` gets it.
    /// - Parameter form: In which the session takes it.
    func encode(_ message: LargeMessage, for session: SessionID, as form: OutputForm) {
        resources.workers.post(
            .encode(EncodingJob(session: session, message: message, form: form, results: encoded)))
    }

    /// Has a worker parse a large message; the session's `parsed` gets the result.
    /// - Parameter isCompressed: It is to be inflated first.
    func parse(_ message: [UInt8], isCompressed: Bool = false, for session: SessionID) {
        resources.workers.post(
            .parse(
                ParsingJob(
                    session: session, message: message,
                    inflatedByteLimit: isCompressed ? resources.configuration.messageByteLimit : nil,
                    nodeLimit: resources.configuration.writeNodeLimit,
                    results: parsed)))
    }

    /// Has a worker measure large data; the session's `measured` gets the result.
    /// - Parameter query: What of the node is wanted; nil for all of it.
    func measure(
        _ node: Node, _ query: IndexedQuery?, byteLimit: Int?, wantsETag: Bool, for session: SessionID
    ) {
        resources.workers.post(
            .sizeCheck(
                NodeSizeCheckJob(
                    session: session, node: node, query: query, byteLimit: byteLimit, wantsETag: wantsETag,
                    results: measured)))
    }

    /// Has a worker make the event of a large window for a stream; the session's `measured` gets the result.
    func make(_ window: StreamWindow, for session: SessionID) {
        resources.workers.post(
            .streamWindow(StreamWindowJob(session: session, window: window, results: measured)))
    }

    /// Has another thread free the body of a PATCH.
    func release(_ update: consuming RESTUpdate) { resources.workers.release(update) }

    /// Frees the bytes of a body; where that takes long, another thread does.
    func release(_ bytes: consuming ByteBlocks) {
        if bytes.takesLongToFree { resources.workers.release(bytes) }
    }

    /// The session needs no result of workers any more.
    func abandonJobs(of session: SessionID) {
        resources.workers.abandonJobs(of: session)
        resources.history?.cancel(session)
    }

    /// Has another thread do what the databases have deferred; the session's `inspected` gets the result.
    func inspect(_ job: InspectionJob, for session: SessionID) {
        let inspected = inspected
        switch job {
        case .history(let question):
            // The databases ask nothing of a journal that there is not.
            guard let history = resources.history else { return assertionFailure("there is no journal") }
            history.ask(question, for: session) { answer in
                inspected.post(InspectionResult(session: session, report: RESTReport(answer, to: question)))
            }
        case .server(let question):
            answerServerQuestion?(question) { report in
                inspected.post(InspectionResult(session: session, report: report))
            }
        case .evaluation(let job): report(.evaluation(job), to: session)
        case .children(let listing, let root): report(.children(listing, root), to: session)
        }
    }

    /// Has a worker make a report; the session's `inspected` gets it.
    private func report(_ work: ReportJob.Work, to session: SessionID) {
        let inspected = inspected
        resources.workers.post(
            .report(
                ReportJob(session: session, work: work) { report in
                    inspected.post(InspectionResult(session: session, report: report))
                }))
    }

    /// Has the body thread inflate and parse a body; the session's `bodyRead` gets the result.
    func readBody(
        _ bytes: ByteBlocks, isGzip: Bool, of request: RESTRequest, for session: SessionID
    ) -> BodyJob {
        let job = BodyJob(
            bytes, isGzip: isGzip, byteLimit: resources.configuration.writeByteLimit, of: request,
            for: session,
            results: bodies)
        resources.bodyThread.post(job)
        return job
    }
}

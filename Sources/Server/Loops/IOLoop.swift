import Logging
import PandoBytes
import PandoConnections
import PandoDatabase
import PandoEngine
import PandoIdentity
import PandoReactor
import PandoStaticFiles
import PandoStorage
import PandoTLS
import PandoTime

/// One I/O thread: its event loop, its sessions, and its queues to the other threads.
///
/// `@unchecked Sendable`: everything mutable is touched on the loop's thread only, or before it runs.
final class IOLoop: @unchecked Sendable {
    let loop: EventLoop
    let configuration: Configuration
    let authenticator: Authenticator
    let logger: Logger
    let index: UInt8
    let database: DatabaseExecutor
    let outputCongestion: Backpressure
    /// Every loop's mailbox, our own included.
    let allLoops: [Mailbox<OutputBatch>]
    let spareOutputs: BufferPool<OutputBatch>
    let limiter: ConnectionLimiter
    /// nil without TLS.
    let certificates: CertificateStore?
    /// What the sessions use.
    let services: SessionServices
    /// HTTP connections that may be closed for others: see `IOLoop+Eviction.swift`.
    var evictable = EvictionOrder()
    /// Of connections in the administrators' reserve, by slot: until then the request must have come.
    var reservedDeadlines: [UInt32: TimerToken] = [:]

    /// Sessions by slot; free slots are nil. See `IOLoop+Sessions.swift`.
    var sessions: ContiguousArray<LoopSession?> = []
    var freeSlots: [UInt32] = []
    var generation: UInt32 = 0
    /// Sessions by long polling: see `IOLoop+LongPolling.swift`.
    let directory: SessionDirectory
    /// Those of which no poll waits, the longest first.
    var disconnected = EvictionOrder()
    /// Those with polls that may be answered at the end of this tick.
    var pollsToAnswer: [PollingSession] = []
    /// Those that are over since this tick: they leave the table at its end, since outputs may be being dealt out.
    var endedPolling: [PollingSession] = []
    /// What the databases have left here without a signal; empty between calls.
    var delivered: [OutputBatch] = []
    /// While the process ends: see `IOLoop+Farewell.swift`.
    var onFarewellOver: (() -> Void)?
    let memory: MemoryBudget
    /// See `IOLoop+Memory.swift`.
    var pressure = PressureState()
    /// Sessions by long polling that were ended since the last report because too many had no poll.
    var pollingCutCount = 0
    var lastPollingReport: MonotonicTime?
    /// nil for no limit.
    let addresses: AddressLimiter?
    /// Connections that were refused since the last report because their address had too many.
    var refusedAddressCount = 0
    var lastAddressReport: MonotonicTime?
    /// See ``DeliveryMeasurements``.
    let measurements: DeliveryMeasurements
    let verified: Mailbox<VerifiedToken>
    var knownTokens = VerificationCache()
    var unverified = VerificationQueue()
    var foreignRequests = ForeignRequestLog()
    /// When ``reportPlainClient(of:)`` last logged.
    var lastPlainClientReport: MonotonicTime?

    init(
        _ loop: EventLoop, index: UInt8, configuration: Configuration, database: DatabaseExecutor,
        outputs: [Mailbox<OutputBatch>], spareOutputs: BufferPool<OutputBatch>, workers: SnapshotWorkers,
        bodyThread: BodyThread, history: HistoryThread?, memory: MemoryBudget, congestion: Backpressure,
        outputCongestion: Backpressure,
        limiter: ConnectionLimiter, addresses: AddressLimiter?, users: UserLimiter?,
        certificates: CertificateStore?,
        directory: SessionDirectory,
        authenticator: Authenticator, site: StaticSiteHolder, logger: Logger
    ) {
        self.loop = loop
        self.index = index
        self.configuration = configuration
        self.database = database
        self.memory = memory
        self.outputCongestion = outputCongestion
        self.limiter = limiter
        self.addresses = addresses
        self.certificates = certificates
        self.directory = directory
        allLoops = outputs
        self.spareOutputs = spareOutputs
        self.authenticator = authenticator
        self.logger = logger
        services = SessionServices(
            loop, index: index, configuration: configuration, outputs: outputs, workers: workers,
            bodyThread: bodyThread, history: history, congestion: congestion, site: site)
        measurements = DeliveryMeasurements(services.metrics)
        verified = Mailbox(signalling: loop.wakeup)
        services.router = self
        services.context.users = users
        if addresses != nil {
            services.context.admitClient = { [unowned self] values in
                admit(services.proxy.map { services.trustedProxies.client(forwardedFor: values, by: $0) })
                    .forMachines
            }
        }
        attachMailboxes()
        loop.onTickEnd = { [unowned self] in
            flushMessages()
            answerPolls()
            publishHeldBytes()
        }
        loop.onTickMeasured = { [measurements] time in measurements.end(at: time) }
        scheduleSweep()
    }

    private func attachMailboxes() {
        loop.attach(allLoops[Int(index)]) { [self] batches in
            deliver(&batches)
        }
        loop.attach(services.encoded) { [self] messages in
            for message in messages { session(message.session)?.encoded(message.message) }
        }
        loop.attach(services.measured) { [self] sizes in
            for size in sizes { session(size.session)?.measured(size) }
        }
        loop.attach(services.parsed) { [self] messages in
            for message in messages { session(message.session)?.parsed(message) }
        }
        loop.attach(services.inspected) { [self] results in
            for result in results { session(result.session)?.inspected(result.report) }
        }
        loop.attach(services.bodies) { [self] bodies in
            for body in bodies { session(body.session)?.bodyRead(body) }
        }
        loop.attach(services.turns) { [self] turns in
            for id in turns { session(id)?.nextTurn() }
        }
        loop.attach(directory.moves[Int(index)]) { [self] connections in
            for connection in connections { adopt(connection) }
        }
        loop.attach(verified) { [self] tokens in finish(tokens) }
    }

    /// Keys or revocations have changed.
    func apply(_ revocations: RevocationState) {
        knownTokens.removeAll()
        for session in sessions { session?.recheck(revocations) }
    }

    /// Between two reports of the same kind in the log.
    static let reportInterval: Duration = .seconds(10)
}

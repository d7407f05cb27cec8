import PandoConnections
import PandoDatabase
import PandoIdentity
import PandoJournal
import PandoLog
import PandoReactor
import PandoSettings
import PandoStaticFiles
import PandoStorage
import PandoTLS

/// What all I/O loops share. Made once, before the first of them.
package struct LoopResources: Sendable {
    package let configuration: Configuration
    package let authenticator: Authenticator
    /// nil without TLS.
    package let certificates: CertificateStore?
    package let site: StaticSiteHolder
    package let log: ServerLog

    // MARK: Other threads

    package let eventLoops: [EventLoop]
    package let database: DatabaseExecutor
    package let workers: SnapshotWorkers
    let bodyThread: BodyThread
    /// nil where there is no journal.
    let history: HistoryThread?
    /// What the databases have for each loop, by the loop's number.
    package let outputs: [Mailbox<OutputBatch>]
    package let spareOutputs: BufferPool<OutputBatch>

    // MARK: Limits of the process

    package let memory: MemoryBudget
    /// Bytes of requests that the databases have not handled yet.
    package let requestBackpressure: Backpressure
    /// Bytes of outputs that the loops have not dealt out yet, and the weight of their deliveries.
    package let outputBackpressure: Backpressure
    package let limiter: ConnectionLimiter
    /// As at the start: SIGHUP may replace them.
    package let clientLimiters: ClientLimiters
    let directory: SessionDirectory

    /// Bytes of outputs for each loop, their ``OutputBatch/deliveryWeight`` included, that the databases may
    /// be ahead of the loops: what a loop deals out in some ten milliseconds. One count for all loops.
    private static let outputByteLimit = 4 << 20
    /// Loops for which ``outputByteLimit`` counts: further ones add nothing.
    private static let outputLoopLimit = 4
    /// Large requests that are parsed and not finished may take such a part of ``MemoryBudget``.
    private static let parsedShare = 4

    /// Makes the event loops, and starts the threads of workers.
    /// - Throws: What the system refuses: descriptors, threads.
    package init(
        _ configuration: Configuration, _ authenticator: Authenticator, _ certificates: CertificateStore?,
        site: StaticSiteHolder, log: ServerLog, descriptors: DescriptorBudget
    ) throws {
        self.configuration = configuration
        self.authenticator = authenticator
        self.certificates = certificates
        self.site = site
        self.log = log
        eventLoops = try (0..<configuration.effectiveLoopCount).map { _ in
            var options = EventLoop.Configuration()
            options.outboundByteLimit = configuration.outboundByteLimit
            options.handshakeTimeout = configuration.requestTimeout
            return try EventLoop(options)
        }
        outputs = eventLoops.map { Mailbox<OutputBatch>(signalling: $0.wakeup) }
        spareOutputs = OutputBatch.pool(loopCount: outputs.count)
        directory = SessionDirectory(moves: eventLoops.map { Mailbox(signalling: $0.wakeup) })
        requestBackpressure = Backpressure(byteLimit: configuration.inFlightByteLimit)
        outputBackpressure = Backpressure(
            byteLimit: Self.outputByteLimit * min(outputs.count, Self.outputLoopLimit))
        memory = MemoryBudget(
            byteLimit: configuration.effectiveMemoryByteLimit, loopCount: eventLoops.count)
        limiter = ConnectionLimiter(
            ceiling: configuration.connectionCeiling(descriptors.connectionCeiling),
            loopCount: eventLoops.count)
        clientLimiters = ClientLimiters(configuration)
        database = try DatabaseExecutor()
        let parsing = ParsingBudget(byteLimit: memory.byteLimit / Self.parsedShare)
        workers = try SnapshotWorkers(encodedByteLimit: memory.byteLimit, parsing: parsing)
        bodyThread = try BodyThread(parsing)
        if let path = configuration.dataDirectory {
            history = try HistoryThread { () throws(DiskFailure) in
                try SystemDisk(directory: path, create: false)
            }
        } else {
            history = nil
        }
    }

    /// Has the thread that reads the past open the data directory, once that is there.
    package func openHistory() { history?.openDisk() }

    /// Ends the threads of workers.
    package func stopWorkers() {
        workers.stop()
        bodyThread.stop()
        history?.stop()
    }
}

import Logging
import PandoDatabase
import PandoEngine
import PandoIdentity
import PandoJournal
import PandoReactor
import PandoRules
import PandoStaticFiles
import PandoStorage
import PandoTLS
import Synchronization

/// Starts and stops the server: data directory, threads, listeners.
///
///     main thread       signals, and what they lead to
///     pando-io-N        sockets, frames, encoding of small things      (IOLoop)
///     pando-database    decide, commit, the durability gate            (DatabaseHost, behind a DatabaseExecutor)
///     pando-journal     write, sync                                    (JournalThread)
///     pando-checkpt     checkpoints, from snapshots                    (CheckpointThread)
///     pando-light       printing and hashing of large nodes, queries   (SnapshotWorkers)
///     pando-heavy       the same of very large ones, when others rest
///     pando-index       building of indexes
///     pando-trim        giving freed memory back to the system         (HeapTrimmer)
///     pando-bodies      inflating and reading of large bodies          (BodyThread)
///     pando-history     what the log holds of the past                 (HistoryThread)
///     pando-admin       metrics, health, administration                (AdminServer)
///     pando-backup      scheduled backups                              (BackupThread)
///     pando-archive     copying the log to another disk                (ArchiveThread)
///     tokens are verified on the threads of Swift's concurrency        (Verification)
///
/// `@unchecked Sendable`: after `init`, everything mutable is touched on the main thread only.
package final class Server: @unchecked Sendable {
    private let configuration: Configuration
    private let logger: Logger
    /// The main thread's loop.
    private let main: EventLoop
    private let ioEventLoops: [EventLoop]
    private let ioLoops: [IOLoop]
    private let database: DatabaseExecutor
    private let journal: JournalThread?
    private let workers: SnapshotWorkers
    private let bodyThread: BodyThread
    private let history: HistoryThread?
    private let trimmer: HeapTrimmer
    private let acceptors: [Acceptor]
    private let redirectPort: RedirectPort?
    /// nil without TLS.
    private let certificates: CertificateStore?
    private let descriptors: DescriptorBudget
    private let authenticator: Authenticator
    private let site: StaticSiteHolder
    private let admin: AdminServer
    private let backups: BackupServices
    private let status: ServerStatus
    private var signals: Signals?
    private var threads: [NamedThread] = []
    private var isStopping = false
    /// Of the files of `--rules`, as they were last read.
    private var rulesets: [String: Ruleset] = [:]
    /// Databases that had no rules when the server started.
    private let unruledNames: [String]

    /// How long clients may take to read what was sent to them when the server goes away.
    private static let farewellTimeout: Duration = .seconds(3)

    /// Recovers the data directory and takes the port. Nothing is accepted before ``run()``.
    /// - Parameter authenticator: Made from `configuration.identity`.
    /// - Precondition: `configuration.problems` is empty, and ``Signals/block()`` was called before any
    ///   thread began.
    /// - Throws: ``StartError``.
    package convenience init(
        starting configuration: Configuration, authenticator: Authenticator, logger: Logger
    ) throws(StartError) {
        do {
            try self.init(configuration, authenticator, logger)
        } catch let error as StartError {
            throw error
        } catch let error as StorageError {
            throw .storage(error)
        } catch {
            throw .machine("\(error)")
        }
    }

    private init(_ configuration: Configuration, _ authenticator: Authenticator, _ logger: Logger) throws {
        self.configuration = configuration
        self.authenticator = authenticator
        let logTail = LogTail()
        let logger = logTail.following(logger)
        self.logger = logger
        // Before anything else is opened.
        do throws(TooFewDescriptors) {
            descriptors = try .ofProcess(loopCount: configuration.effectiveLoopCount)
        } catch {
            throw StartError.descriptors(error.description)
        }
        site = StaticSiteHolder(try Self.loadSite(configuration, logger))
        certificates = try Self.openCertificates(configuration.certificates, logger)

        main = try EventLoop()
        database = try DatabaseExecutor()
        ioEventLoops = try (0..<configuration.effectiveLoopCount).map { _ in
            var options = EventLoop.Configuration()
            options.outboundByteLimit = configuration.outboundByteLimit
            options.handshakeTimeout = configuration.requestTimeout
            return try EventLoop(options)
        }
        let outputs = ioEventLoops.map { Mailbox<OutputBatch>(signalling: $0.wakeup) }
        let spareOutputs = OutputBatch.pool(loopCount: outputs.count)
        let directory = SessionDirectory(moves: ioEventLoops.map { Mailbox(signalling: $0.wakeup) })
        let congestion = Backpressure(byteLimit: configuration.inFlightByteLimit)
        let outputCongestion = Backpressure(byteLimit: Self.outputByteLimit)
        let memory = MemoryBudget(byteLimit: configuration.effectiveMemoryByteLimit)
        workers = try SnapshotWorkers(encodedByteLimit: memory.byteLimit)
        let limiter = ConnectionLimiter(
            ceiling: configuration.connectionCeiling(descriptors.connectionCeiling),
            loopCount: ioEventLoops.count)
        let addresses =
            configuration.addressConnectionLimit > 0
            ? AddressLimiter(limit: configuration.addressConnectionLimit) : nil
        let users = configuration.makeUserLimiter()
        bodyThread = try BodyThread()
        if let path = configuration.dataDirectory {
            history = try HistoryThread { () throws(DiskFailure) in
                try SystemDisk(directory: path, create: false)
            }
        } else {
            history = nil
        }
        trimmer = try HeapTrimmer(logger)
        let (databaseMetrics, storageMetrics) = (DatabaseMetrics(), StorageMetrics())
        let backupMetrics = BackupMetrics()
        status = ServerStatus()
        var ioLoops: [IOLoop] = []
        for (index, loop) in ioEventLoops.enumerated() {
            ioLoops.append(
                IOLoop(
                    loop, index: UInt8(index), configuration: configuration, database: database,
                    outputs: outputs, spareOutputs: spareOutputs, workers: workers, bodyThread: bodyThread,
                    history: history,
                    memory: memory, congestion: congestion, outputCongestion: outputCongestion,
                    limiter: limiter, addresses: addresses, users: users, certificates: certificates,
                    directory: directory,
                    authenticator: authenticator, site: site, logger: logger))
        }
        self.ioLoops = ioLoops
        let byEventLoop = Dictionary(uniqueKeysWithValues: ioLoops.map { (ObjectIdentifier($0.loop), $0) })
        // Before recovery, which it reports.
        admin = try Self.makeAdmin(
            configuration, authenticator, certificates,
            AdminSources(
                main: main, ioLoops: ioLoops, databaseExecutor: database, database: databaseMetrics,
                storage: storageMetrics, backups: backupMetrics, limiter: limiter, memory: memory,
                status: status, logTail: logTail))
        for loop in ioLoops { loop.services.admin = admin }
        // The port first: when it is taken, the data directory is left as it was.
        var acceptorConfiguration = Acceptor.Configuration()
        acceptorConfiguration.options.unsentLowWaterByteCount = Self.unsentByteLimit
        let sockets = try Listeners.open(configuration, options: acceptorConfiguration.options)
        do throws(SocketError) {
            var acceptors: [Acceptor] = []
            for socket in sockets {
                acceptors.append(
                    try Acceptor(
                        socket, on: ioEventLoops[0], targets: ioEventLoops,
                        configuration: acceptorConfiguration,
                        adopt: { socket, loop in byEventLoop[ObjectIdentifier(loop)]?.adopt(socket) },
                        onExhausted: { error in logger.error("accepting pauses: \(error)") },
                        limiter: limiter,
                        evict: { count, isReserved, loop in
                            byEventLoop[ObjectIdentifier(loop)]?.evict(count, ofReserved: isReserved)
                        },
                        onLimit: { report in logger.warning("\(report)") }))
            }
            self.acceptors = acceptors
            if let port = configuration.redirectPort,
                let secure = acceptors.map(\.address).first(where: { !$0.isUnix })
            {
                redirectPort = try RedirectPort(
                    at: secure.with(port: port), on: ioEventLoops[0], securePort: secure.port)
            } else {
                redirectPort = nil
            }
        } catch {
            throw StartError.address("\(error)")
        }

        if let path = configuration.rulesPath {
            let files = RulesFiles(at: path)
            guard files.problems.isEmpty else { throw StartError.rules(files.problems) }
            rulesets = files.rulesets
        }
        let directories = try BackupServices.Directories(configuration.backups)
        try admin.start()
        if let url = admin.url { logger.notice("admin listening on \(url)") }
        var state = RecoveredState(access: configuration.isDevelopment ? .open : .locked, fileRules: rulesets)
        state.metrics = storageMetrics
        let mark = LogMark()
        var origin: JournalOrigin?
        var beginning: CheckpointHeader?
        if let path = configuration.dataDirectory {
            let files = MachineMetrics.files(in: path)
            storageMetrics.recoverableBytes.set(files.newestCheckpointByteCount + files.logByteCount)
            let opened = try DataDirectory.open(
                path, into: &state, endsSessions: true, options: configuration.storage.journalOptions,
                logger: logger)
            origin = JournalOrigin(opened)
            beginning = opened.recovery.checkpoint.flatMap { $0.beginsLog ? $0 : nil }
            journal = try JournalThread(
                opened, checkpointDisk: try SystemDisk(directory: path, create: false),
                segmentDisk: try SystemDisk(directory: path, create: false), options: configuration.storage,
                metrics: storageMetrics, mark: mark, logger: logger
            ) { [database] event in
                if case .durable(let ticket) = event {
                    database.release(upTo: ticket)
                } else {
                    database.post(.storage(event))
                }
            }
        } else {
            journal = nil
        }
        unruledNames = state.databases.values.filter(\.hasNoRules).map(\.name).sorted()
        for warning in state.warnings { logger.error("\(warning)") }
        let host = DatabaseHost(
            configuration.databaseOptions, recovered: state, journal: journal?.queue,
            requestBackpressure: congestion,
            outputs: OutputQueues(outputs, pool: spareOutputs, backpressure: outputCongestion),
            metrics: databaseMetrics, logger: logger,
            preparation: PreparationWorkers(
                start: { [workers] job in workers.post(.prepare(job)) },
                cancel: { [workers] session in workers.abandonJobs(of: session) },
                release: { [workers] value in workers.release(value) }),
            post: { [database] message in database.post(message) })
        database.open(host)
        backups = try BackupServices(
            configuration, in: directories, origin: origin, mark: mark, beginning: beginning,
            metrics: backupMetrics, logger: logger, database: database)
    }

    /// - Returns: nil without TLS.
    private static func openCertificates(_ locations: CertificateLocations, _ logger: Logger)
        throws(StartError) -> CertificateStore?
    {
        guard locations.isUsed else { return nil }
        do throws(CertificateStore.Problems) {
            let certificates = try CertificateStore(locations)
            for message in certificates.warnings(at: wallTime() / 1000) { logger.log(message) }
            return certificates
        } catch {
            throw .certificates(error.texts)
        }
    }

    /// Where clients find the server: `http://127.0.0.1:9000`, or `https:` with TLS; `unix:PATH` for a Unix socket. Not
    /// empty.
    package var urls: [String] {
        acceptors.map { acceptor in
            if acceptor.address.isUnix { return acceptor.path.map { "unix:\($0)" } ?? "unix" }
            return "\(certificates == nil ? "http" : "https")://\(acceptor.address)"
        }
    }

    /// Serves until SIGTERM or SIGINT, then ends sessions, makes everything durable and returns.
    /// - Parameter onListening: Called once connections are accepted.
    package func run(onListening: () -> Void) throws(SocketError) {
        signals = try Signals(on: main) { [unowned self] signal in handle(signal) }
        threads.append(try start("pando-database") { [database] in database.serve() })
        for (index, loop) in ioEventLoops.enumerated() {
            threads.append(try start("pando-io-\(index)") { loop.run() })
        }
        logger.info("\(descriptors)")
        if configuration.connectionLimit > 0 {
            logger.info(
                "at most \(configuration.connectionLimit) clients are connected at once (--max-connections)")
        }
        logAccessMode()
        authenticator.onRevocationChange { [ioLoops, logger] revocations in
            for loop in ioLoops { loop.loop.submit { loop.apply(revocations) } }
            logger.notice(
                "keys, secrets or revocations have changed: sessions whose key was removed or whose token was revoked are signed out, and their onDisconnect writes dropped"
            )
        }
        watchKeys()
        if let redirectPort { logger.info("http://\(redirectPort.address) redirects to \(urls[0])") }
        if let certificates { watch(certificates) }
        Task.detached { [authenticator] in await authenticator.prefetch() }
        status.phase = .ready
        onListening()
        notify(.ready)
        main.run()
        for thread in threads { thread.join() }
        backups.stopBackups()
        journal?.stop()
        backups.stopArchive()
        workers.stop()
        bodyThread.stop()
        history?.stop()
        trimmer.stop()
        admin.stop()
    }

    /// Bytes of outputs that databases may be ahead of the loops: what a loop deals out in a few
    /// milliseconds, since every output waits behind it.
    private static let outputByteLimit = 4 << 20
    /// Bytes that the kernel takes of a connection and has not sent yet.
    private static let unsentByteLimit: UInt32 = 128 << 10
    /// Stack for what recurses: JSON nests up to 1024 deep.
    private static let stackByteCount = 8 << 20

    private func start(_ name: String, _ body: @escaping @Sendable () -> Void) throws(SocketError)
        -> NamedThread
    {
        try NamedThread.start(name, stackByteCount: Self.stackByteCount, body)
    }

    /// Locked by default: one clear line says where that is so, or that `--dev` has opened it.
    private func logAccessMode() {
        if configuration.isDevelopment {
            logger.warning(
                "--dev: everybody on this machine may read and write what no loaded rules restrict, and be administrator"
            )
        } else if !unruledNames.isEmpty {
            logger.notice(
                "no rules are loaded for \(unruledNames.joined(separator: ", ")): only administrators get in there"
            )
        }
        if certificates == nil, configuration.trustedProxies.isEmpty,
            let open = acceptors.first(where: { !$0.address.isLoopback })
        {
            logger.warning(
                "\(open.address) is reached from other machines without encryption: give --tls-cert and --tls-key, or name the proxy in front of it in --trusted-proxy"
            )
        }
        if configuration.identity.isEmpty, !configuration.isDevelopment {
            logger.notice("no secret, key or issuer is configured: nobody can sign in")
        }
    }

    private func loadRulesAgain() {
        guard let path = configuration.rulesPath else {
            return logger.notice("SIGHUP: without --rules there are no rules to read again")
        }
        let files = RulesFiles(at: path, replacing: rulesets)
        for problem in files.problems { logger.error("SIGHUP: \(problem)") }
        let changed = files.rulesets.keys.filter { files.rulesets[$0]?.source != rulesets[$0]?.source }
            .sorted()
        rulesets = files.rulesets
        database.post(.rules(rulesets))
        logger.notice(
            "SIGHUP: rules read again; \(changed.isEmpty ? "none" : changed.joined(separator: ", ")) changed\(files.problems.isEmpty ? "" : ", and what has problems stays as it was")"
        )
    }

    private func loadSiteAgain() {
        do throws(StartError) {
            site.site = try Self.loadSite(configuration, logger)
        } catch {
            logger.error("SIGHUP: \(error); the files stay as they were")
        }
    }

    /// The time between two checks of the key files while no token is verified.
    private static let keyInterval: Duration = .seconds(5)

    /// Removing a key must end its sessions also while no new client signs in.
    private func watchKeys() {
        main.schedule(after: Self.keyInterval) { [self] in
            Task.detached { [authenticator] in await authenticator.reloadIfChanged() }
            watchKeys()
        }
    }

    private func watch(_ certificates: CertificateStore) {
        main.schedule(after: CertificateStore.checkInterval) { [self] in
            for message in certificates.reloadIfChanged(at: wallTime() / 1000) { logger.log(message) }
            watch(certificates)
        }
    }

    /// Tells the service manager, if there is one. A manager that cannot be reached is no reason to stop.
    private func notify(_ state: ServiceManager.State) {
        do throws(SocketError) {
            try configuration.serviceManager.notify(state)
        } catch {
            logger.warning("\(error)")
        }
    }

    // MARK: Stopping

    private func handle(_ signal: Signal) {
        switch signal {
        case .hangUp:
            notify(.reloading)
            // The rest of what is read again is read on this thread, before it handles the message that all is done.
            Task.detached { [self] in
                await authenticator.reload()
                main.submit { [self] in notify(isStopping ? .stopping : .ready) }
            }
            for message in certificates?.reload(at: wallTime() / 1000) ?? [] { logger.log(message) }
            loadRulesAgain()
            loadSiteAgain()
        case .terminate, .interrupt:
            guard !isStopping else {
                logger.warning("stopping at once")
                journal?.cancelCheckpoint()
                stopLoops()
                return
            }
            isStopping = true
            status.phase = .draining
            notify(.stopping)
            logger.notice("stopping: ending sessions")
            stop()
        }
    }

    /// No new connections; sessions end, with their onDisconnect writes; all of it becomes durable; clients
    /// are told.
    private func stop() {
        ioEventLoops[0].submit { [self] in
            for acceptor in acceptors { acceptor.close() }
            redirectPort?.close()
        }
        guard configuration.drainTime > .zero else { return endSessions() }
        let (main, time) = (main, configuration.drainTime)
        let dismissal = CountdownLatch(loopCount: ioLoops.count) { [self] in
            main.submit { self.endSessions() }
        }
        for loop in ioLoops { loop.loop.submit { loop.dismiss(over: time) { dismissal.oneIsEmpty() } } }
    }

    /// Sessions end that are still there, and come while the server stops.
    private func endSessions() {
        let (main, ioLoops) = (main, ioLoops)
        let farewell = CountdownLatch(loopCount: ioLoops.count) { [self] in main.submit { self.stopLoops() } }
        database.post(
            .drain {
                for loop in ioLoops { loop.loop.submit { loop.farewell { farewell.oneIsEmpty() } } }
                main.submit {
                    _ = main.schedule(after: Self.farewellTimeout) {
                        let seconds = Self.farewellTimeout.components.seconds
                        self.logger.notice("stopping: clients have not read everything in \(seconds) s")
                        self.stopLoops()
                    }
                }
            })
    }

    private func stopLoops() {
        for loop in ioEventLoops { loop.stop() }
        database.stop()
        main.stop()
    }
}

/// Counts the loops down that have said goodbye to all their clients.
private final class CountdownLatch: Sendable {
    private let remaining: Atomic<Int>
    private let whenDone: @Sendable () -> Void

    init(loopCount: Int, whenDone: @escaping @Sendable () -> Void) {
        remaining = Atomic(loopCount)
        self.whenDone = whenDone
    }

    func oneIsEmpty() {
        if remaining.subtract(1, ordering: .sequentiallyConsistent).newValue == 0 { whenDone() }
    }
}

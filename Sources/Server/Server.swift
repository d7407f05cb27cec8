import Logging
import PandoAdministration
import PandoDatabase
import PandoEngine
import PandoIdentity
import PandoJournal
import PandoLog
import PandoLoops
import PandoReactor
import PandoRules
import PandoSettings
import PandoStaticFiles
import PandoStorage
import PandoTLS
import Synchronization

/// Starts and stops the server: data directory, threads, ports.
///
///     main thread       signals, and what they lead to
///     pando-io-N        sockets, frames, encoding of small things      (IOLoop)
///     pando-database    decide, commit, the durability gate            (DatabaseHost, behind a DatabaseExecutor)
///     pando-journal     write, sync                                    (JournalThread)
///     pando-checkpt     checkpoints, from snapshots                    (CheckpointThread)
///     pando-segment     preparing the next segment                     (SegmentThread)
///     pando-light       printing and hashing of large nodes, queries   (SnapshotWorkers)
///     pando-medium      the same of larger ones, at lower priority
///     pando-heavy       the same of very large ones
///     pando-index       building of indexes
///     pando-trim        giving freed memory back to the system         (HeapTrimmer)
///     pando-measure     counting of nodes and bytes, for the metrics   (TreeMeter)
///     pando-bodies      inflating and reading of bodies up to 1 MiB    (BodyThread)
///     pando-uploads     the same of larger ones
///     pando-history     what the journal holds of the past             (HistoryThread)
///     pando-certs       reading of changed certificates                (CertificateWatcher)
///     pando-admin       metrics, health, administration                (AdminServer)
///     pando-log         writing of the log                             (LogWriter)
///     pando-backup      scheduled backups                              (BackupThread)
///     pando-archive     copying the journal to another disk            (ArchiveThread)
///     pando-claim       at the start: opens a directory of backups     (BackupServices)
///     pando-stop        at the end: makes everything durable
///     pando-deadline    at the end: gives up a last checkpoint that takes too long
///     tokens are verified on the threads of Swift's concurrency        (TokenVerifier)
///
/// Threads of an import or a restore are not among them: `public/docs/architecture.md` lists all.
///
/// `@unchecked Sendable`: after `init`, everything mutable is touched on the main thread only; `threads` and
/// `backups` at the end by the thread that ends the storage, when the main thread leaves them alone.
package final class Server: @unchecked Sendable {
    /// As at the start, but for what SIGHUP changes.
    private var configuration: Configuration
    private var clientLimiters: ClientLimiters
    private let readOptions: @Sendable () -> ReloadedOptions?
    private let logger: Logger
    /// The main thread's loop.
    private let main: EventLoop
    private let resources: LoopResources
    private let ioLoops: [IOLoop]
    private let ports: ServerPorts
    private let journal: JournalThread?
    private let trimmer: HeapTrimmer
    private let meter: TreeMeter
    private let descriptors: DescriptorBudget
    private let reload: ServerReload
    private let admin: AdminServer
    private let backups: BackupServices
    private let status = ServerStatus()
    private var signals: Signals?
    private var threads: [NamedThread] = []
    private var isStopping = false
    /// Runs ``endStorage()``, while the main thread still handles signals.
    private var storageEnd: NamedThread?
    /// Limits the wait for clients at the end.
    private var unsentOutputTimer: TimerToken?
    /// Databases that had no rules when the server started.
    private let unruledNames: [String]

    /// How long the server waits for clients to take what is unsent when it goes away.
    private static let unsentOutputTimeout: Duration = .seconds(3)

    /// Recovers the data directory and takes the port. Nothing is accepted before ``run()``.
    /// - Parameters:
    ///   - authenticator: Made from `configuration.identity`.
    ///   - log: Its writer was started: while the server runs, no thread waits for standard error.
    ///   - readOptions: Reads the options again, on SIGHUP; nil where none can have changed.
    /// - Precondition: `configuration.problems` is empty, and ``Signals/block()`` was called before any
    ///   thread began.
    /// - Throws: ``StartError``.
    package convenience init(
        starting configuration: Configuration, authenticator: Authenticator, log: ServerLog,
        readOptions: @escaping @Sendable () -> ReloadedOptions? = { nil }
    ) throws(StartError) {
        do {
            try self.init(configuration, authenticator, log, readOptions)
        } catch let error as StartError {
            throw error
        } catch let error as StorageError {
            throw .storage(error)
        } catch let error as DiskFailure {
            throw .storage(StorageError(error))
        } catch {
            throw .machine("\(error)")
        }
    }

    private init(
        _ configuration: Configuration, _ authenticator: Authenticator, _ log: ServerLog,
        _ readOptions: @escaping @Sendable () -> ReloadedOptions?
    ) throws {
        self.configuration = configuration
        self.readOptions = readOptions
        let logTail = LogTail()
        let log = ServerLog(
            messages: logTail.following(log.messages), requests: logTail.following(log.requests),
            writer: log.writer, level: log.level)
        let logger = log.messages
        self.logger = logger
        // Before anything else is opened.
        do throws(TooFewDescriptors) {
            descriptors = try .ofProcess(
                loopCount: configuration.effectiveLoopCount,
                otherPortCount: configuration.otherPortDescriptorCount)
        } catch {
            throw StartError.descriptors(error.description)
        }
        main = try EventLoop()
        let resources = try LoopResources(
            configuration, authenticator, try Self.openCertificates(configuration.certificates, logger),
            site: StaticSiteHolder(try Self.loadSite(configuration, logger)), log: log,
            descriptors: descriptors)
        self.resources = resources
        clientLimiters = resources.clientLimiters
        trimmer = try HeapTrimmer(logger) { [memory = resources.memory] in memory.byteCount }
        ioLoops = resources.eventLoops.indices.map { IOLoop(resources, index: UInt8($0)) }
        let (databaseMetrics, storageMetrics) = (DatabaseMetrics(), StorageMetrics())
        let backupMetrics = BackupMetrics()
        // Before recovery, which it reports.
        let admin = try Self.makeAdmin(
            resources,
            AdminSources(
                main: main, ioLoops: ioLoops, database: databaseMetrics, storage: storageMetrics,
                backups: backupMetrics, status: status, logTail: logTail))
        self.admin = admin
        for loop in ioLoops {
            loop.answerServerQuestions { admin.reports.answer($0, $1) }
        }
        // The port before the data directory: when it is taken, that is left as it was.
        ports = try ServerPorts(configuration, resources, ioLoops)
        reload = try ServerReload(resources, main: main)
        let directories = try BackupServices.Directories(
            configuration.backups, dataDirectory: configuration.dataDirectory)
        try admin.start()
        if let url = admin.url { logger.notice("admin listening on \(url)") }
        let mark = JournalMark()
        let storage = try ServerStorage(
            configuration,
            recoveringInto: RecoveredState(
                access: configuration.isDevelopment ? .open : .locked, fileRules: reload.rulesets),
            mark: mark, resources.database, storageMetrics, logger)
        journal = storage.journal
        resources.openHistory()
        unruledNames = storage.state.databases.values.filter(\.hasNoRules).map(\.name).sorted()
        if let used = storage.state.unendedSessions.map(\.session.generation).max() {
            for loop in ioLoops { loop.skipGenerations(upTo: used) }
        }
        resources.database.open(Self.makeHost(storage, resources, databaseMetrics))
        meter = try TreeMeter(resources.database, databaseMetrics, storageMetrics)
        backups = try BackupServices(
            configuration, in: directories, origin: storage.origin, mark: mark,
            beginning: storage.beginning, metrics: backupMetrics, logger: logger,
            database: resources.database)
    }

    private static func makeHost(
        _ storage: borrowing ServerStorage, _ resources: LoopResources, _ metrics: DatabaseMetrics
    ) -> DatabaseHost {
        let (workers, database) = (resources.workers, resources.database)
        return DatabaseHost(
            resources.configuration.databaseOptions, recovered: storage.state,
            journal: storage.journal?.queue, requestBackpressure: resources.requestBackpressure,
            outputs: OutputQueues(
                resources.outputs, pool: resources.spareOutputs, backpressure: resources.outputBackpressure),
            services: DatabaseServices(
                metrics: metrics, logger: resources.log.messages,
                preparation: PreparationWorkers(
                    start: { job in workers.post(.prepare(job)) },
                    cancel: { session in workers.abandonJobs(of: session) },
                    release: { value in workers.release(value) }),
                post: { message in database.post(message) }))
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

    /// Where clients find the server: `http://127.0.0.1:9000`, or `https:` with TLS; `unix:PATH` for a Unix
    /// socket. Not empty.
    package var urls: [String] { ports.urls }

    /// Serves until SIGTERM or SIGINT, then ends sessions, makes everything durable and returns.
    /// - Parameter onListening: Called once connections are accepted.
    /// - Throws: ``SocketError`` if the system starts no thread, or has no descriptor for signals.
    package func run(onListening: () -> Void) throws(SocketError) {
        signals = try Signals(on: main) { [unowned self] signal in handle(signal) }
        threads.append(
            try start("pando-database") { [resources] in
                shortenTimeSlice()
                resources.database.serve()
            })
        for (index, loop) in resources.eventLoops.enumerated() {
            threads.append(
                try start("pando-io-\(index)") {
                    shortenTimeSlice()
                    loop.run()
                })
        }
        logger.info("\(descriptors)")
        if configuration.connectionLimit > 0 {
            logger.info(
                "at most \(configuration.connectionLimit) clients are connected at once (--max-connections)")
        }
        logAccessMode()
        let authenticator = resources.authenticator
        authenticator.onRevocationChange { [ioLoops, logger] _ in
            for loop in ioLoops { loop.loop.submit { loop.applyRevocations() } }
            logger.notice(
                "keys, secrets or revocations have changed: sessions whose key was removed or whose token was revoked are signed out, and their onDisconnect writes dropped"
            )
        }
        try reload.watchFiles()
        backups.watch(on: main)
        for redirection in ports.redirectPort?.redirections ?? [] {
            logger.info("http://\(redirection.acceptor.address) redirects to https://\(redirection.target)")
        }
        Task.detached { await authenticator.prefetch() }
        status.phase = .ready
        onListening()
        for url in urls { logger.info("listening on \(url)") }
        notify(.ready)
        main.run()
        if let storageEnd { storageEnd.join() } else { endStorage() }
        resources.stopWorkers()
        reload.stop()
        trimmer.stop()
        meter.stop()
        admin.stop()
    }

    /// How long the last checkpoint may take. Together with the end of the sessions and of the archive it is
    /// below what the service managers of deploy/ wait before they kill the process: 60 s and more. Without
    /// the checkpoint nothing is lost, and the next start reads more of the journal.
    static let lastCheckpointTimeout: Duration = .seconds(40)

    /// Whether a thread waits for a disk of backups or of the archive that does not answer, and was left to
    /// itself. After ``run(onListening:)``.
    package var hasLeftThreads: Bool { backups.hasLeftThreads }

    /// Ends the journal thread, gives up a last checkpoint that takes too long, and brings the archive up to
    /// date. First the journal: then everything is durable, whatever the other disks do.
    private func stopJournal() {
        guard let journal else { return backups.stop() }
        journal.stop(checkpointTimeout: Self.lastCheckpointTimeout, logger) { backups.stop() }
    }

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
                "--dev: every program and user of this machine may read and write all data that no loaded rules restrict, with administrator rights"
            )
        } else if !unruledNames.isEmpty {
            logger.notice(
                "no rules are loaded for \(unruledNames.joined(separator: ", ")): only administrators may use these databases"
            )
        }
        if resources.certificates == nil, configuration.trustedProxies.isEmpty,
            let open = ports.acceptors.first(where: { !$0.address.isLoopback })
        {
            logger.warning(
                "\(open.address) is reached from other machines without encryption: give --tls-cert and --tls-key, or name the proxy in front of it in --trusted-proxy"
            )
        }
        for warning in configuration.fileWarnings { logger.warning("\(warning)") }
        if configuration.identity.isEmpty, !configuration.isDevelopment {
            logger.notice("no secret, key or issuer is configured: no user can sign in")
        }
    }

    /// Notifies the service manager, if there is one. A manager that cannot be reached is no reason to stop.
    private func notify(_ state: ServiceManager.State) {
        do throws(SocketError) {
            try configuration.serviceManager.notify(state)
        } catch {
            logger.warning("\(error)")
        }
    }

    // MARK: SIGHUP

    /// Reads the options again, and takes over those that a running server can.
    private func reloadOptions() {
        guard let options = readOptions() else { return }
        guard let new = options.configuration else {
            for problem in options.problems {
                logger.error("SIGHUP: \(problem); the options stay as they were")
            }
            return
        }
        if !options.needingRestart.isEmpty {
            logger.warning(
                "SIGHUP: these options have changed and take effect at the next start: \(options.needingRestart.joined(separator: ", "))"
            )
        }
        guard !options.changed.isEmpty else { return }
        clientLimiters = clientLimiters.updated(from: configuration, to: new)
        configuration.takeOver(from: new)
        resources.limiter.setCeiling(configuration.connectionCeiling(descriptors.connectionCeiling))
        backups.keep(configuration.backups.retention)
        for loop in ioLoops {
            loop.loop.submit { [configuration, clientLimiters] in
                loop.takeOver(from: configuration, clientLimiters)
            }
        }
        // This message is logged if either level allows it.
        let level = resources.log.level
        level.current = min(level.current, configuration.logLevel)
        logger.notice("SIGHUP: options read again; \(options.changed.joined(separator: ", ")) changed")
        level.current = configuration.logLevel
    }

    // MARK: Stopping
    //
    //     first signal
    //       ▼
    //     closePorts()            no new connections; over `--drain-time`, clients are disconnected
    //       ▼
    //     endSessions()           the databases end all sessions, with their onDisconnect writes
    //       ▼
    //     limitWaitForClients()   clients take what is unsent, and get a close frame: at most 3 s
    //       ▼
    //     stopLoops()             the threads of clients and databases end   ◀── second signal
    //       ▼
    //     endStorage()            backups and journal: everything is durable, a last checkpoint, the archive
    //       ▼
    //     run() ends the other threads, and returns

    private func handle(_ signal: Signal) {
        switch signal {
        case .hangUp:
            notify(.reloading)
            reloadOptions()
            reload.reloadAll { [self] in notify(isStopping ? .stopping : .ready) }
        case .terminate, .interrupt:
            guard !isStopping else {
                logger.warning("second signal: stopping without waiting for clients or a checkpoint")
                journal?.cancelCheckpoint()
                stopLoops()
                return
            }
            isStopping = true
            status.phase = .draining
            notify(.stopping)
            logger.notice("stopping: ending sessions")
            BlockedTurn.watch(resources.database, on: main, logger)
            closePorts()
        }
    }

    /// Closes the ports, dismisses clients over `--drain-time`, and then goes on with ``endSessions()``.
    private func closePorts() {
        resources.eventLoops[0].submit { [self] in ports.close() }
        guard configuration.drainTime > .zero else { return endSessions() }
        let (main, time) = (main, configuration.drainTime)
        let dismissal = CountdownLatch(count: ioLoops.count) { [self] in
            main.submit { self.endSessions() }
        }
        for loop in ioLoops { loop.loop.submit { loop.dismiss(over: time) { dismissal.countDown() } } }
    }

    /// Ends the sessions that are left, and those that are opened while the server stops. When all clients
    /// have taken what is unsent, ``stopLoops()`` follows.
    private func endSessions() {
        let (main, ioLoops) = (main, ioLoops)
        let sent = CountdownLatch(count: ioLoops.count) { [self] in main.submit { self.stopLoops() } }
        resources.database.post(
            .drain {
                for loop in ioLoops { loop.loop.submit { loop.awaitClients { sent.countDown() } } }
                main.submit { self.limitWaitForClients() }
            })
    }

    /// Goes on with ``stopLoops()`` when clients have had the time to take what is unsent.
    private func limitWaitForClients() {
        // All may have taken everything already.
        guard storageEnd == nil else { return }
        unsentOutputTimer = main.schedule(after: Self.unsentOutputTimeout) { [self] in
            logger.notice(
                "stopping: some clients have not read all output within \(Self.unsentOutputTimeout.components.seconds) s; it is dropped"
            )
            stopLoops()
        }
    }

    /// Stops the I/O loops and the databases, and goes on with ``endStorage()`` on a thread of its own.
    private func stopLoops() {
        if let unsentOutputTimer { main.cancel(unsentOutputTimer) }
        for loop in resources.eventLoops { loop.stop() }
        resources.database.stop()
        guard storageEnd == nil else { return }
        do throws(SocketError) {
            storageEnd = try start("pando-stop") { [self] in
                endStorage()
                main.stop()
            }
        } catch {
            // Without a thread for it, it is done here, and a second signal is not noticed any more.
            main.stop()
        }
    }

    /// Waits for the threads of clients and databases, then makes everything durable. On the thread that ends
    /// the process.
    private func endStorage() {
        for thread in threads { thread.join() }
        backups.cancelBackup()
        stopJournal()
    }
}

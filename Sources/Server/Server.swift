import Logging
import PandoEngine
import PandoJournal
import PandoReactor
import PandoRules
import Synchronization

/// The whole of it: data directory, threads and doors, put together and taken apart in the right order.
///
///     main thread       signals, and what they lead to
///     pando-io-N        sockets, frames, encoding of small things      (IOLoop)
///     pando-database    decide, commit, the durable barrier            (DatabaseHost)
///     pando-journal     write, sync                                    (JournalThread)
///     pando-encode      printing of large nodes                        (EncodingThread)
///
/// `@unchecked Sendable`: after `init`, everything mutable is touched on the main thread only.
package final class Server: @unchecked Sendable {
    private let configuration: Configuration
    private let logger: Logger
    /// The main thread's loop.
    private let main: EventLoop
    private let ioEventLoops: [EventLoop]
    private let databaseEventLoop: EventLoop
    private let ioLoops: [IOLoop]
    private let database: Mailbox<DatabaseMessage>
    private let journal: JournalThread?
    private let encoder: EncodingThread
    private let acceptor: Acceptor
    private var signals: Signals?
    private var threads: [NamedThread] = []
    private var isStopping = false

    /// How long clients may take to hear that the server goes away.
    private static let farewellTimeout: Duration = .seconds(3)

    /// Recovers the data directory and takes the port. Nothing is accepted before ``run()``.
    /// - Precondition: `configuration.problems` is empty, and ``Signals/block()`` was called before any thread began.
    /// - Throws: ``StartError``.
    package convenience init(starting configuration: Configuration, logger: Logger) throws(StartError) {
        do {
            try self.init(configuration, logger)
        } catch let error as StartError {
            throw error
        } catch let error as SocketError {
            throw error.attempt.hasPrefix("listen") || error.attempt.hasPrefix("resolve")
                ? .address("\(error)") : .machine("\(error)")
        } catch {
            throw .machine("\(error)")
        }
    }

    private init(_ configuration: Configuration, _ logger: Logger) throws {
        self.configuration = configuration
        self.logger = logger
        guard let address = try SocketAddress.resolve(host: configuration.host, port: configuration.port).first
        else { throw StartError.address("\(configuration.host): no such address") }
        guard !configuration.isDevelopment || address.isLoopback else {
            throw StartError.address("--dev: \(configuration.host) is not a loopback address")
        }

        main = try EventLoop()
        databaseEventLoop = try EventLoop()
        ioEventLoops = try (0..<configuration.effectiveLoopCount).map { _ in
            var options = EventLoop.Configuration()
            options.outboundByteLimit = configuration.outboundByteLimit
            return try EventLoop(options)
        }
        database = Mailbox(ringing: databaseEventLoop.bell)
        let outputs = ioEventLoops.map { Mailbox<OutputBatch>(ringing: $0.bell) }
        let congestion = Congestion(byteLimit: configuration.inFlightByteLimit)
        let outputCongestion = Congestion(byteLimit: configuration.inFlightByteLimit)
        encoder = try EncodingThread()
        var ioLoops: [IOLoop] = []
        for (index, loop) in ioEventLoops.enumerated() {
            ioLoops.append(
                IOLoop(
                    loop, index: UInt8(index), configuration: configuration, database: database,
                    outputs: outputs, encoder: encoder, congestion: congestion,
                    outputCongestion: outputCongestion))
        }
        self.ioLoops = ioLoops
        let byEventLoop = Dictionary(uniqueKeysWithValues: ioLoops.map { (ObjectIdentifier($0.loop), $0) })
        // The port first: when it is taken, the data directory is left as it was.
        acceptor = try Acceptor(
            at: address, on: ioEventLoops[0], targets: ioEventLoops,
            adopt: { socket, loop in byEventLoop[ObjectIdentifier(loop)]?.adopt(socket) },
            onExhausted: { error in logger.error("accepting pauses: \(error)") })

        var state = RecoveredState(access: configuration.isDevelopment ? .open : .locked)
        if let path = configuration.dataDirectory {
            let opened = try DataDirectory.open(path, into: &state, endsSessions: true, logger: logger)
            journal = try JournalThread(
                opened, durability: configuration.durability, durable: database, logger: logger)
        } else {
            journal = nil
        }
        let host = DatabaseHost(
            configuration, recovered: state, journal: journal, congestion: congestion,
            outputCongestion: outputCongestion, loops: outputs)
        databaseEventLoop.attach(database) { host.receive(&$0) }
    }

    /// Where clients find the server: `http://127.0.0.1:9000`.
    package var url: String { "http://\(acceptor.address)" }

    /// Serves until SIGTERM or SIGINT, then ends sessions, makes everything durable and returns.
    /// - Parameter onListening: Called once connections are accepted.
    package func run(onListening: () -> Void) throws(SocketError) {
        signals = try Signals(on: main) { [unowned self] signal in handle(signal) }
        threads.append(try start(databaseEventLoop, "pando-database"))
        for (index, loop) in ioEventLoops.enumerated() {
            threads.append(try start(loop, "pando-io-\(index)"))
        }
        if configuration.isDevelopment {
            logger.warning("--dev: everybody on this machine may read and write everything")
        } else {
            logger.notice("no rules are loaded: everything is denied")
        }
        onListening()
        main.run()
        for thread in threads { thread.join() }
        journal?.stop()
        encoder.stop()
    }

    /// Stack for what recurses: JSON nests up to 1024 deep.
    private static let stackByteCount = 8 << 20

    private func start(_ loop: EventLoop, _ name: String) throws(SocketError) -> NamedThread {
        try NamedThread.start(name, stackByteCount: Self.stackByteCount) { loop.run() }
    }

    // MARK: Stopping

    private func handle(_ signal: Signal) {
        switch signal {
        case .hangUp:
            logger.notice("SIGHUP: there are no rules or certificates to load again")
        case .terminate, .interrupt:
            guard !isStopping else {
                logger.warning("stopping at once")
                stopLoops()
                return
            }
            isStopping = true
            logger.notice("stopping: ending sessions")
            stop()
        }
    }

    /// No new connections; sessions end, with their onDisconnect writes; all of it becomes durable; clients are told.
    private func stop() {
        ioEventLoops[0].submit { [self] in acceptor.close() }
        let (main, ioLoops) = (main, ioLoops)
        let farewell = Farewell(loopCount: ioLoops.count) { [self] in main.submit { self.stopLoops() } }
        database.post(
            .drain {
                for loop in ioLoops { loop.loop.submit { loop.whenEmpty { farewell.oneIsEmpty() } } }
                main.submit { _ = main.schedule(after: Self.farewellTimeout) { self.stopLoops() } }
            })
    }

    private func stopLoops() {
        for loop in ioEventLoops { loop.stop() }
        databaseEventLoop.stop()
        main.stop()
    }
}

/// Counts the loops down that have said goodbye to all their clients.
private final class Farewell: Sendable {
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

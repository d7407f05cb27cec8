import Logging
import PandoConnections
import PandoDatabase
import PandoEngine
import PandoJournal
import PandoRandom
import PandoReactor
import PandoStorage
import PandoTree

/// A server without threads, sockets or time of its own: its owner says when the I/O loop, the database
/// thread, the journal thread, the checkpoint thread and the segment thread get a turn, and on which disk.
/// What runs in a turn is what runs in `pando serve`.
///
///     loop.tick() ──▶ DatabaseExecutor ──▶ requests ──stepJournal()──▶ disk
///          ▲           stepDatabase()         ├──stepCheckpoint()──▶ disk
///          └────────── outputs ◀──┘           └──stepSegment()──▶ disk
///
/// Loop and database thread run only where a thread would have been woken. An error that ends `pando serve`
/// ends this: see ``failure``.
///
/// `@unchecked Sendable`: one thread.
final class SimulatedServer<Storage: Disk>: @unchecked Sendable {
    /// What differs from the options of `pando serve`.
    struct Options {
        var storage = StorageOptions()
        var journal = JournalOptions()
        var database = DatabaseOptions()
        /// Bytes of outputs that may wait before requests do.
        var outputByteLimit = 4 << 20
        /// Bytes of requests that may wait before clients are paused.
        var requestByteLimit = 64 << 20
    }

    let loop: SimulatedLoop
    private let executor: DatabaseExecutor
    private let host: DatabaseHost
    private let journalQueue: JournalQueue
    private let writer: JournalWriter<Storage>
    private let checkpoints: CheckpointJobWriter<Storage>
    private let checkpointRequests: Mailbox<CheckpointJob>
    private var checkpointJobs: [CheckpointJob] = []
    private let disk: Storage
    /// The bytes of segments to be prepared.
    private let segmentRequests: Mailbox<Int>
    private var segmentJobs: [Int] = []
    private let abandonedSegment = CancellationFlag()
    /// What `waitForSpace` calls, which is made before the server is.
    private let turn: JournalTurn
    private var isStopped = false
    /// The last turn of the database thread has left something.
    private var hasMoreTurns = false
    /// All sessions have ended and everything is as durable as was asked for.
    private(set) var isDrained = false

    /// Indexes of all databases that are ready.
    var readyIndexCount: Int { host.readyIndexCount }

    /// Why the process would have ended: a disk that failed. Nothing leaves any more.
    var failure: (any Error)? { turn.failure }

    /// Recovers what is on the disk, as `pando serve` does before it listens.
    /// - Throws: ``StorageError`` or ``JournalError``, where `pando serve` would not start.
    init(
        on disk: Storage, _ options: Options, environment script: ScriptedEnvironment, fault: FaultInjector?,
        _ random: SeededGenerator
    ) throws {
        let environment = Environment.scripted(script)
        let logger = Logger(label: "simulated") { _ in SwiftLogNoOpLogHandler() }
        var state = RecoveredState(access: .open)
        let journal = try DataDirectory.open(
            disk, into: &state, endsSessions: true, options: options.journal, environment: environment,
            logger: logger)
        // A server goes on without them. Here it is a start that fails: the checker knows what that leaves.
        guard state.unendedSessions.isEmpty else { throw JournalError.diskFull(byteCount: 0) }
        let unreadable = journal.recovery.unreadableCheckpoints
        self.disk = disk
        let executor = try DatabaseExecutor()
        self.executor = executor
        let loopWakeup = try WakeupEvent()
        let outputs = Mailbox<OutputBatch>(signalling: loopWakeup)
        // Threads whose turns do not depend on a signal.
        let wakeup = try WakeupEvent()
        checkpointRequests = Mailbox(signalling: wakeup)
        segmentRequests = Mailbox(signalling: wakeup)
        let turn = JournalTurn()
        self.turn = turn
        let requests = Mailbox<JournalRequest>(signalling: wakeup)
        let space = try JournalSpace()
        // Weak: the turn holds the writer, which holds the queue.
        journalQueue = JournalQueue(requests, space: space, origin: JournalOrigin(journal)) { [weak turn] in
            guard let turn else { return }
            turn.run()
            // The wait ends, so that the simulation can see that the process has failed.
            if turn.failure != nil { space.update(granted: .max, isFull: true) }
        }
        let (checkpointRequests, segmentRequests) = (checkpointRequests, segmentRequests)
        let writer = JournalWriter(
            journal, options: options.storage, queue: journalQueue, environment: environment, logger: logger,
            JournalCallbacks(
                report: { event in
                    // As `Server` does.
                    if case .durable(let ticket) = event {
                        executor.release(upTo: ticket)
                    } else {
                        executor.post(.storage(event))
                    }
                }, writeCheckpoint: { checkpointRequests.post($0) },
                preparer: SegmentPreparer(
                    prepare: { [abandonedSegment] byteCount in
                        abandonedSegment.isSet = false
                        segmentRequests.post(byteCount)
                    }, cancel: { [abandonedSegment] in abandonedSegment.isSet = true })))
        self.writer = writer
        turn.body = { () throws(JournalError) in
            var batch: [JournalRequest] = []
            requests.drain(into: &batch)
            _ = try writer.process(&batch)
        }
        checkpoints = CheckpointJobWriter(
            disk: disk, keptCount: options.storage.keptCheckpointCount, unreadable: unreadable,
            logger: logger, cancelled: CancellationFlag())
        let seams = SimulatedLoop.Seams(
            database: executor, outputs: outputs, outputPool: OutputBatch.pool(loopCount: 1),
            outputBackpressure: Backpressure(byteLimit: options.outputByteLimit),
            requestBackpressure: Backpressure(byteLimit: options.requestByteLimit), wakeup: loopWakeup)
        host = DatabaseHost(
            options.database, recovered: state, journal: journalQueue,
            requestBackpressure: seams.requestBackpressure,
            outputs: OutputQueues([outputs], pool: seams.outputPool, backpressure: seams.outputBackpressure),
            services: DatabaseServices(
                environment: environment, logger: logger,
                preparation: PreparationWorkers(start: { _ in
                    preconditionFailure("a simulation has no workers for databases")
                }),
                // Weak: the executor holds the host.
                post: { [weak executor] message in executor?.post(message) }))
        var settings = ConnectionSettings()
        settings.messageByteLimit = Self.messageByteLimit
        loop = SimulatedLoop(
            settings, seams, script,
            nodeLimit: Limits.nodeCount(writeByteLimit: settings.writeByteLimit), fault: fault, random)
        loop.takeHeld = { [unowned host] in host.takeHeld() }
        loop.isDatabaseBusy = { [unowned host] in host.hasWork }
        loop.hasDied = { [unowned turn] in turn.failure != nil }
        executor.open(host)
        try writer.begin()
    }

    private static var messageByteLimit: Int { 16 << 20 }

    /// SIGTERM: ends all sessions; ``isDrained`` becomes true.
    func drain() {
        // Called back in a turn of the database thread, so on this thread.
        executor.post(.drain { [weak self] in self?.isDrained = true })
    }

    // MARK: Turns

    /// Whether the database thread would run.
    var isDatabaseAwake: Bool {
        if executor.wakeup.wait(timeout: .zero) { hasMoreTurns = true }
        return hasMoreTurns
    }

    /// The database thread processes what has come, for a few milliseconds of work.
    func stepDatabase() {
        guard failure == nil, isDatabaseAwake else { return }
        hasMoreTurns = executor.takeTurn() == .hasMore
    }

    /// Nanoseconds of work for which requests that came together are done in the order of arrival; what takes
    /// longer is done in turn.
    static var burstWork: UInt64 { DatabaseHost.burstTurn }
    /// Nanoseconds of work of one session, and of one database, before the next one's turn.
    static var quantum: UInt64 { DatabaseHost.quantum }

    /// The journal thread processes its requests, and what is due.
    func stepJournal() {
        guard failure == nil, !isStopped else { return }
        turn.run()
    }

    /// Whether a checkpoint waits to be written.
    var hasCheckpointJob: Bool {
        var new: [CheckpointJob] = []
        checkpointRequests.drain(into: &new)
        checkpointJobs += new
        return !checkpointJobs.isEmpty
    }

    /// The checkpoint thread writes one checkpoint. The disk may give the others their turns meanwhile.
    func stepCheckpoint() {
        guard failure == nil, hasCheckpointJob else { return }
        let job = checkpointJobs.removeFirst()
        do throws(DiskFailure) {
            let isWritten = try checkpoints.write(job)
            journalQueue.requests.post(.checkpointFinished(isWritten: isWritten))
        } catch {
            turn.fail(error)
        }
    }

    /// Whether a segment waits to be prepared.
    var hasSegmentJob: Bool {
        var new: [Int] = []
        segmentRequests.drain(into: &new)
        segmentJobs += new
        return !segmentJobs.isEmpty
    }

    /// Segments that were prepared before they were begun.
    var usedPreparedCount: Int { writer.usedPreparedCount }

    /// The segment thread prepares one segment. The disk may give the others their turns meanwhile.
    /// - Parameter isAbandoned: Is asked between its steps; true gives up.
    func stepSegment(isAbandoned: () -> Bool) {
        guard failure == nil, hasSegmentJob else { return }
        let byteCount = segmentJobs.removeFirst()
        do throws(DiskFailure) {
            let isThere = try PreparedSegment.make(byteCount: byteCount, on: disk) {
                isAbandoned() || abandonedSegment.isSet
            }
            journalQueue.requests.post(.segmentPrepared(byteCount: isThere ? byteCount : nil))
        } catch {
            turn.fail(error)
        }
    }

    /// Once drained: makes everything durable and releases the directory.
    func stop() {
        journalQueue.requests.post(.stop)
        stepJournal()
        while hasCheckpointJob, failure == nil { stepCheckpoint() }
        isStopped = true
    }
}

/// A turn of the journal thread, and how it failed.
///
/// `@unchecked Sendable`: one thread.
private final class JournalTurn: @unchecked Sendable {
    var body: (() throws(JournalError) -> Void)?
    private(set) var failure: (any Error)?

    func run() {
        guard failure == nil, let body else { return }
        do throws(JournalError) { try body() } catch { failure = error }
    }

    func fail(_ error: DiskFailure) {
        failure = failure ?? error
    }
}

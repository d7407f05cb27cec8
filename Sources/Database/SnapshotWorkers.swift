import PandoEngine
import PandoReactor
import PandoTime

/// Parses large messages, and prints, queries and hashes large nodes, from snapshots, while the databases and
/// the loops go on.
///
///     loops, databases ──▶ light thread ─────────────────────▶ result      jobs of milliseconds
///                    │       └─▶ medium thread ──────────────▶ result      jobs of some tens of milliseconds
///                    │             └─▶ heavy thread ─────────▶ result      others
///                    └───▶ index thread ─────────────────────▶ result      indexes, for which no client waits
///
/// Each thread serves first the clients that have had least of it lately, in slices where a job can be cut
/// (``SnapshotJobs``): many jobs of one client delay that client. Jobs of a session that has ended are
/// dropped. Jobs that encode wait while too much was encoded and not sent (``EncodingBudget``), and messages
/// while too much was parsed and is not finished (``ParsingBudget``), except on the light thread.
package final class SnapshotWorkers: Sendable {
    private let light: SnapshotThread
    private let medium: SnapshotThread
    private let heavy: SnapshotThread
    private let indexing: SnapshotThread
    /// The addresses of sessions that are known.
    package let clients = SessionClients()

    /// - Parameters:
    ///   - encodedByteLimit: Bytes of large messages, encoded and not sent, from which on no more are
    ///     encoded.
    ///   - parsing: Gets the bytes of parsed messages whose requests are not finished.
    /// - Throws: ``SocketError`` where the process has no free descriptor or thread.
    package init(encodedByteLimit: Int, parsing: ParsingBudget) throws(SocketError) {
        heavy = try SnapshotThread("pando-heavy", niceness: SnapshotThread.heavyNiceness)
        medium = try SnapshotThread("pando-medium", niceness: SnapshotThread.mediumNiceness)
        light = try SnapshotThread("pando-light", niceness: SnapshotThread.lightNiceness)
        indexing = try SnapshotThread("pando-index", niceness: SnapshotThread.heavyNiceness)
        let budget = EncodingBudget(
            byteLimit: encodedByteLimit, signalling: medium.wakeup, heavy.wakeup)
        parsing.wake(medium.wakeup)
        parsing.wake(heavy.wakeup)
        let hashByteLimit = min(SnapshotThread.hashByteLimit, encodedByteLimit / SnapshotThread.hashShare)
        func resources(
            waits: Bool, hashing byteLimit: Int, overflow: SnapshotJobs.Overflow? = nil
        ) -> SnapshotJobs.Resources {
            SnapshotJobs.Resources(
                encodingBudget: budget, parsingBudget: parsing, waits: waits, hashByteLimit: byteLimit,
                clients: clients, overflow: overflow)
        }
        // The heavy thread hashes the largest nodes.
        let share = hashByteLimit / 8
        try heavy.start(resources(waits: true, hashing: hashByteLimit - 2 * share), passingOnTo: nil)
        try medium.start(
            resources(waits: true, hashing: share, overflow: SnapshotThread.overflowOfMedium(to: heavy)),
            passingOnTo: heavy)
        try light.start(
            resources(waits: false, hashing: share, overflow: SnapshotThread.overflowOfLight(to: medium)),
            passingOnTo: medium)
        try indexing.start(resources(waits: true, hashing: 0), passingOnTo: nil)
    }

    /// Any thread: adds a job.
    package func post(_ job: SnapshotJob) {
        if case .prepare(let job) = job, case .index = job.work { return indexing.post(.prepare(job)) }
        light.post(job)
    }

    /// Any thread: has the heavy thread release a value, which is freed if that was its last reference.
    package func release(_ value: consuming any Sendable) { heavy.release(consume value) }

    /// Any thread: the session has ended. Its jobs are dropped, except those of writes and indexes; a hash is
    /// also dropped between two slices, unless other sessions wait for it.
    package func abandonJobs(of session: SessionID) {
        light.abandonJobs(of: session)
    }

    /// Drops all jobs, and ends the threads.
    package func stop() {
        light.stop()
        medium.stop()
        heavy.stop()
        indexing.stop()
    }
}

/// One thread of ``SnapshotWorkers``.
private final class SnapshotThread: Sendable {
    private enum Request: Sendable {
        case job(SnapshotJob)
        case abandon(SessionID)
        case release(any Sendable)
    }

    /// Jobs of about two milliseconds stay on the light thread.
    static func overflowOfLight(to medium: SnapshotThread) -> SnapshotJobs.Overflow {
        SnapshotJobs.Overflow(byteLimit: 1 << 20, childLimit: 20_000) { medium.post($0) }
    }

    /// Jobs of some tens of milliseconds stay on the medium thread.
    static func overflowOfMedium(to heavy: SnapshotThread) -> SnapshotJobs.Overflow {
        SnapshotJobs.Overflow(byteLimit: 8 << 20, childLimit: 60_000) { heavy.post($0) }
    }

    private static let stackByteCount = 8 << 20
    /// Where more threads want to run than there are processors, loops and databases come first, and light
    /// jobs before heavy ones.
    static let lightNiceness = 5
    static let mediumNiceness = 7
    static let heavyNiceness = 10
    /// The most bytes of hashed pages that all threads keep: enough for some millions of children. It is not
    /// more than `--memory-limit` / ``hashShare``. Freed ``keptTime`` after something was hashed last.
    static let hashByteLimit = 256 << 20
    static let hashShare = 4
    private static let keptTime = Duration.milliseconds(500)

    private let thread: WorkerThread<Request>

    init(_ name: String, niceness: Int) throws(SocketError) {
        thread = try WorkerThread(name, stackByteCount: Self.stackByteCount, niceness: niceness)
    }

    /// Wakes the thread, for a budget.
    var wakeup: WakeupEvent { thread.wakeup }

    /// - Parameter next: The thread that gets the jobs of `resources.overflow`; nil where there is none.
    func start(
        _ resources: SnapshotJobs.Resources, passingOnTo next: SnapshotThread?
    ) throws(SocketError) {
        try thread.start { queue in
            var jobs = SnapshotJobs(resources)
            Self.serve(queue, &jobs, next)
        }
    }

    func post(_ job: SnapshotJob) { thread.post(.job(job)) }
    func abandonJobs(of session: SessionID) { thread.post(.abandon(session)) }
    func release(_ value: consuming any Sendable) { thread.post(.release(consume value)) }
    func stop() { thread.stop() }

    /// Until the thread is asked to stop: then what waits is dropped.
    private static func serve(
        _ queue: WorkerQueue<Request>, _ jobs: inout SnapshotJobs, _ next: SnapshotThread?
    ) {
        var batch: [Request] = []
        var releaser = MemoryReleaser()
        while !queue.isStopping {
            var timeout: Duration? = .zero
            if jobs.isIdle { timeout = jobs.hashedAt.map { max(.zero, $0 + keptTime - .now) } }
            guard queue.receive(into: &batch, timeout: timeout), !queue.isStopping else { return }
            // Also where other work comes all the time: they keep a whole snapshot.
            if let hashedAt = jobs.hashedAt, MonotonicTime.now - hashedAt >= keptTime { jobs.forgetHashes() }
            batch.reverse()
            while let request = batch.popLast() {
                switch consume request {
                case .job(let job): jobs.add(job)
                case .abandon(let session):
                    jobs.abandon(session)
                    next?.abandonJobs(of: session)
                case .release(let value): releaser.release(value)
                }
            }
            if !jobs.isIdle { jobs.performNext { .now } }
        }
    }
}

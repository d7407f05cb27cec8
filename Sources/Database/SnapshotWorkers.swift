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
    private let light: SnapshotLane
    private let medium: SnapshotLane
    private let heavy: SnapshotLane
    private let indexing: SnapshotLane
    /// The addresses of sessions that are known.
    package let clients = SessionClients()

    /// - Parameters:
    ///   - encodedByteLimit: Bytes of large messages, encoded and not sent, from which on no more are
    ///     encoded.
    ///   - parsing: What is parsed counts there.
    /// - Throws: ``SocketError`` where the process has no free descriptor or thread.
    package init(encodedByteLimit: Int, parsing: ParsingBudget) throws(SocketError) {
        heavy = try SnapshotLane("pando-heavy", niceness: SnapshotLane.heavyNiceness)
        medium = try SnapshotLane("pando-medium", niceness: SnapshotLane.mediumNiceness)
        light = try SnapshotLane("pando-light", niceness: SnapshotLane.lightNiceness)
        indexing = try SnapshotLane("pando-index", niceness: SnapshotLane.heavyNiceness)
        let budget = EncodingBudget(
            byteLimit: encodedByteLimit, signalling: medium.wakeup, heavy.wakeup)
        parsing.wake(medium.wakeup)
        parsing.wake(heavy.wakeup)
        let hashByteLimit = min(SnapshotLane.hashByteLimit, encodedByteLimit / SnapshotLane.hashShare)
        func resources(waits: Bool) -> SnapshotJobs.Resources {
            SnapshotJobs.Resources(
                budget: budget, parsed: parsing, waits: waits, hashByteLimit: hashByteLimit, clients: clients)
        }
        try heavy.start(resources(waits: true), overflow: nil)
        try medium.start(
            resources(waits: true), overflow: SnapshotLane.Overflow(heavy, SnapshotLane.mediumLimit))
        try light.start(
            resources(waits: false), overflow: SnapshotLane.Overflow(medium, SnapshotLane.lightLimit))
        try indexing.start(resources(waits: true), overflow: nil)
    }

    /// Any thread: adds a job.
    package func post(_ job: SnapshotJob) {
        if case .prepare(let job) = job, case .index = job.work { return indexing.post(.prepare(job)) }
        light.post(job)
    }

    /// Any thread: has the heavy thread release a value, which is freed if that was its last reference.
    package func release(_ value: consuming any Sendable) { heavy.release(consume value) }

    /// Any thread: the session has ended, and its jobs are dropped. The one being done is finished.
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
private final class SnapshotLane: Sendable {
    private enum Request: Sendable {
        case job(SnapshotJob)
        case abandon(SessionID)
        case release(any Sendable)
    }

    /// Printed bytes, and children that a query visits.
    struct Limit {
        var byteCount: Int
        var childCount: Int
    }

    /// Where jobs go that are above a limit.
    struct Overflow: Sendable {
        let lane: SnapshotLane
        let limit: Limit

        init(_ lane: SnapshotLane, _ limit: Limit) {
            self.lane = lane
            self.limit = limit
        }
    }

    /// About two milliseconds.
    static let lightLimit = Limit(byteCount: 1 << 20, childCount: 20_000)
    /// Some tens of milliseconds.
    static let mediumLimit = Limit(byteCount: 8 << 20, childCount: 60_000)
    private static let stackByteCount = 8 << 20
    /// Where more threads want to run than there are processors, loops and databases come first, and light
    /// jobs before heavy ones.
    static let lightNiceness = 5
    static let mediumNiceness = 7
    static let heavyNiceness = 10
    /// Bytes of hashes that a thread keeps while it is busy: of some millions of children. In a small process
    /// a share of the memory for clients.
    static let hashByteLimit = 256 << 20
    static let hashShare = 4
    /// How long hashes are kept when nothing is to be done.
    private static let keptWhileIdle = Duration.seconds(2)

    private let thread: WorkerThread<Request>

    init(_ name: String, niceness: Int) throws(SocketError) {
        thread = try WorkerThread(name, stackByteCount: Self.stackByteCount, niceness: niceness)
    }

    /// Wakes the thread, for a budget.
    var wakeup: WakeupEvent { thread.wakeup }

    /// - Parameter overflow: nil for the thread that does all jobs.
    func start(_ resources: SnapshotJobs.Resources, overflow: Overflow?) throws(SocketError) {
        try thread.start { queue in
            var jobs = SnapshotJobs(resources)
            Self.serve(queue, &jobs, overflow: overflow)
        }
    }

    func post(_ job: SnapshotJob) { thread.post(.job(job)) }
    func abandonJobs(of session: SessionID) { thread.post(.abandon(session)) }
    func release(_ value: consuming any Sendable) { thread.post(.release(consume value)) }
    func stop() { thread.stop() }

    /// Until the thread is asked to stop: then what waits is dropped.
    private static func serve(
        _ queue: WorkerQueue<Request>, _ jobs: inout SnapshotJobs, overflow: Overflow?
    ) {
        var batch: [Request] = []
        var keepsHashes = false
        var releaser = MemoryReleaser()
        while !queue.isStopping {
            let isIdle = jobs.isIdle
            let timeout: Duration? = isIdle ? keepsHashes ? keptWhileIdle : nil : .zero
            let before = MonotonicTime.now
            guard queue.receive(into: &batch, timeout: timeout), !queue.isStopping else { return }
            if isIdle, keepsHashes, batch.isEmpty, MonotonicTime.now - before >= keptWhileIdle {
                jobs.forgetHashes()
                keepsHashes = false
            }
            batch.reverse()
            while let request = batch.popLast() {
                switch consume request {
                case .job(let job):
                    if let overflow, job.isHeavier(than: overflow.limit.byteCount, overflow.limit.childCount)
                    {
                        overflow.lane.post(job)
                    } else {
                        jobs.add(job)
                    }
                case .abandon(let session):
                    jobs.abandon(session)
                    overflow?.lane.abandonJobs(of: session)
                case .release(let value): releaser.release(value)
                }
            }
            guard !jobs.isIdle else { continue }
            jobs.performNext { .now }
            keepsHashes = true
        }
    }
}

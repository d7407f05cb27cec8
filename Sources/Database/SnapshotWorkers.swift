import PandoBytes
import PandoEngine
import PandoREST
import PandoReactor
import PandoStorage
import PandoTime
import PandoTree
import PandoWire
import PandoWebSocket

/// Parses large messages, and prints, queries and hashes large nodes, from snapshots, while the databases and
/// the loops go on.
///
///     loops, databases ──▶ light thread ───────────────────▶ result        jobs of milliseconds
///                    │          └─ heavy jobs ──▶ heavy thread ──▶ result  others
///                    └───▶ index thread ───────────────────▶ result        indexes, for which no client waits
///
/// Each thread serves sessions in turn by the time that their jobs take (``FairScheduler``): many jobs of one
/// client delay that client. Jobs of a session that has ended are dropped. Heavy jobs that encode wait while
/// too much was encoded and not sent (``EncodingBudget``), and heavy messages while too much was parsed and
/// is not finished (``ParsingBudget``).
package final class SnapshotWorkers: Sendable {
    private let light: SnapshotLane
    private let heavy: SnapshotLane
    private let indexing: SnapshotLane

    /// - Parameters:
    ///   - encodedByteLimit: Bytes of large messages, encoded and not sent, from which on no more are
    ///     encoded.
    ///   - parsing: What is parsed counts there.
    /// - Throws: ``SocketError`` where the process has no free descriptor or thread.
    package init(encodedByteLimit: Int, parsing: ParsingBudget) throws(SocketError) {
        heavy = try SnapshotLane("pando-heavy", niceness: SnapshotLane.heavyNiceness)
        light = try SnapshotLane("pando-light", niceness: SnapshotLane.lightNiceness)
        indexing = try SnapshotLane("pando-index", niceness: SnapshotLane.heavyNiceness)
        let budget = EncodingBudget(byteLimit: encodedByteLimit, signalling: heavy.wakeup)
        parsing.wake(heavy.wakeup)
        try heavy.start(budget, parsing, overflow: nil)
        try light.start(budget, parsing, overflow: heavy)
        try indexing.start(budget, parsing, overflow: nil)
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

    /// Printed bytes, and children that a query visits, from which on a job is heavy: about two milliseconds.
    private static let heavyByteCount = 1 << 20
    private static let heavyChildCount = 20_000
    /// Nanoseconds of one session's jobs before the next session's, where both wait.
    private static let quantum = 500_000
    /// The most that a session can owe the others, however long its job took.
    private static let debtLimit = 2_000_000_000
    private static let stackByteCount = 8 << 20
    /// Where more threads want to run than there are processors, loops and databases come first, and light
    /// jobs before heavy ones.
    static let lightNiceness = 5
    static let heavyNiceness = 10

    private let thread: WorkerThread<Request>

    init(_ name: String, niceness: Int) throws(SocketError) {
        thread = try WorkerThread(name, stackByteCount: Self.stackByteCount, niceness: niceness)
    }

    /// Wakes the thread, for an ``EncodingBudget``.
    var wakeup: WakeupEvent { thread.wakeup }

    /// - Parameters:
    ///   - budget: What the heavy thread encodes waits for it; the light one only counts with it.
    ///   - parsed: The same for what it parses.
    ///   - overflow: Where heavy jobs go; nil for the thread that does them.
    func start(
        _ budget: EncodingBudget, _ parsed: ParsingBudget, overflow: SnapshotLane?
    ) throws(SocketError) {
        try thread.start { queue in
            var worker = Worker(budget, parsed, overflow: overflow)
            worker.serve(queue)
        }
    }

    func post(_ job: SnapshotJob) { thread.post(.job(job)) }
    func abandonJobs(of session: SessionID) { thread.post(.abandon(session)) }
    func release(_ value: consuming any Sendable) { thread.post(.release(consume value)) }
    func stop() { thread.stop() }

    /// The state of the thread.
    private struct Worker {
        private let overflow: SnapshotLane?
        private let budget: EncodingBudget
        private let parsed: ParsingBudget
        /// Jobs, each kind in turn: other jobs do not wait for those that wait for a budget.
        private var queues: [FairScheduler<UInt8, SessionID, SnapshotJob?>]
        private var next = Kind.other
        private var hashes = HashMemo()
        /// Entries of the tree that were freed since their blocks were merged.
        private var releasedCount = 0
        /// Deflaters and an inflater, made when they are needed first.
        private let compression = SharedCompression()

        /// What a job waits for.
        private enum Kind: Int, CaseIterable {
            /// Heavy messages to encode, for ``EncodingBudget``.
            case encoding
            /// Heavy messages to parse, for ``ParsingBudget``.
            case parsing
            /// Everything else, for nothing.
            case other
        }

        init(_ budget: EncodingBudget, _ parsed: ParsingBudget, overflow: SnapshotLane?) {
            self.overflow = overflow
            self.budget = budget
            self.parsed = parsed
            let queue = FairScheduler<UInt8, SessionID, SnapshotJob?>(
                quantum: SnapshotLane.quantum, debtLimit: SnapshotLane.debtLimit, placeholder: nil)
            queues = Kind.allCases.map { _ in queue }
        }

        /// Until the thread is asked to stop: then what waits is dropped.
        mutating func serve(_ queue: WorkerQueue<Request>) {
            var batch: [Request] = []
            while !queue.isStopping {
                let isIdle = !Kind.allCases.contains(where: mayDo)
                if isIdle { hashes = HashMemo() }
                guard queue.receive(into: &batch, timeout: isIdle ? nil : .zero), !queue.isStopping else {
                    return
                }
                batch.reverse()
                while let request = batch.popLast() {
                    switch consume request {
                    case .job(let job): add(job)
                    case .abandon(let session):
                        abandon(session)
                        overflow?.abandonJobs(of: session)
                    case .release(let value): release(value)
                    }
                }
                guard let kind = nextKind() else { continue }
                let began = MonotonicTime.now
                guard let job = queues[kind.rawValue].next()?.item else { continue }
                perform(job)
                let work = Int(clamping: (MonotonicTime.now - began).nanosecondCount)
                queues[kind.rawValue].finish(work: work)
                job.query?.noteWork?(work)
            }
        }

        /// Frees a value, if this is the last reference. Nodes are freed a part at a time, so that the blocks
        /// of each part are merged before there are many (``Heaps``).
        private mutating func release(_ value: consuming any Sendable) {
            guard let nodes = value as? [Node] else {
                value = ()
                return noteReleased(Self.otherEntryCount)
            }
            value = ()
            var release = GradualRelease(consume nodes)
            while case let count = release.releaseSome(Self.releasedAtOnce), count > 0 { noteReleased(count) }
        }

        private mutating func noteReleased(_ count: Int) {
            releasedCount += count
            guard releasedCount >= Self.releasedAtOnce else { return }
            releasedCount = 0
            Heaps.merge()
        }

        /// Entries of the tree, each of which has some blocks: merged in about a millisecond.
        private static let releasedAtOnce = 4096
        /// As how many of them any other value counts.
        private static let otherEntryCount = 256

        /// The kind whose turn it is, of those that have a job which may be done.
        private mutating func nextKind() -> Kind? {
            for distance in 0..<Kind.allCases.count {
                let kind = Kind.allCases[(next.rawValue + distance) % Kind.allCases.count]
                guard mayDo(kind) else { continue }
                next = Kind.allCases[(kind.rawValue + 1) % Kind.allCases.count]
                return kind
            }
            return nil
        }

        private func mayDo(_ kind: Kind) -> Bool {
            guard queues[kind.rawValue].hasNext else { return false }
            return switch kind {
            case .encoding: !budget.isExhausted
            case .parsing: !parsed.isExhausted
            case .other: true
            }
        }

        /// Drops the jobs of a session. A request that waits for one gets ``Preparation/abandoned``.
        private mutating func abandon(_ session: SessionID) {
            for kind in Kind.allCases {
                queues[kind.rawValue].drop(session) { job in
                    guard case .prepare(let job)? = job else { return true }
                    if !job.outlivesSession { job.finish(.abandoned) }
                    return !job.outlivesSession
                }
            }
        }

        private mutating func add(_ job: SnapshotJob) {
            if let overflow, job.isHeavier(than: SnapshotLane.heavyByteCount, SnapshotLane.heavyChildCount) {
                return overflow.post(job)
            }
            let kind: Kind =
                switch job {
                case .encode where overflow == nil: .encoding
                case .parse where overflow == nil: .parsing
                default: .other
                }
            queues[kind.rawValue].append(job, to: job.session, of: 0)
        }

        private mutating func perform(_ job: SnapshotJob) {
            switch job {
            case .parse(let job):
                var message = job.perform(compression)
                if message.isRequest { message.grant = parsed.grant(forTextOf: message.byteCount) }
                job.results.post(message)
            case .encode(let job):
                job.message.encode(within: budget, &hashes)
                if let window = job.window, let deflater = compression.deflater(for: window) {
                    job.message.compress(with: deflater, for: window)
                }
                job.results.post(EncodedMessage(session: job.session, message: job.message))
            case .sizeCheck(let job):
                job.results.post(
                    NodeSizeCheck(
                        of: job.node, job.query, for: job.session, byteLimit: job.byteLimit,
                        wantsETag: job.wantsETag))
            case .prepare(let job): job.perform(&hashes)
            case .report(let job): job.perform()
            }
        }
    }
}

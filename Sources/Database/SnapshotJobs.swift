import PandoEngine
import PandoReactor
import PandoTime
import PandoTree
import PandoWebSocket

/// The jobs of one thread of ``SnapshotWorkers``, in the order of ``LeastServedQueue``. The hash of a large
/// node is done in slices of a few milliseconds, and every other job at once.
///
///     hash jobs of one location   same snapshot   ─▶ one ``SharedHash``, done once, for all that wait for it
///                                 a later one     ─▶ the earlier jobs are answered: their location has changed
///
/// Confined to its thread; a value without clock, for tests.
struct SnapshotJobs {
    /// What jobs use and wait for.
    struct Resources {
        /// Encoded messages wait for it, where ``waits``.
        let budget: EncodingBudget
        /// The same for parsed ones.
        let parsed: ParsingBudget
        /// Whether jobs wait for a budget, or only count with it.
        let waits: Bool
        /// Bytes of hashes that may be kept.
        let hashByteLimit: Int
        /// Which sessions are one client's.
        let clients: SessionClients
    }

    /// What a job waits for.
    private enum Kind: Int, CaseIterable {
        /// Large messages to encode, for ``EncodingBudget``.
        case encoding
        /// Large messages to parse, for ``ParsingBudget``.
        case parsing
        /// Everything else, for nothing.
        case other
    }

    private enum Item {
        case whole(SnapshotJob)
        case hash(SharedHash)
    }

    /// The hash of one snapshot, and the jobs that wait for it.
    private final class SharedHash {
        private(set) var node: Node
        let location: HashedLocation?
        var walk: HashWalk
        var waiting: [PreparationJob]
        var isDone = false

        init(_ node: Node, for job: PreparationJob) {
            self.node = node
            location = job.location
            walk = HashWalk(node)
            waiting = [job]
        }

        /// Answers all that wait, and frees the snapshot.
        func finish(_ result: Preparation) {
            isDone = true
            for job in waiting { job.finish(result) }
            (waiting, node, walk) = ([], .empty, HashWalk(.empty))
        }
    }

    /// Steps of a hash before the next job: about four milliseconds.
    static let sliceStepCount = 16_000
    /// What was served counts half after so many nanoseconds.
    private static let periodLength: UInt64 = 2_000_000_000
    /// Nanoseconds of work that make no difference.
    private static let forgottenWork = 100_000

    private let resources: Resources
    /// Each kind in turn: other jobs do not wait for those that wait for a budget.
    private var queues: [LeastServedQueue<AddressNetwork?, SessionID, Item>]
    private var next = Kind.other
    /// The hashes that are being computed of the latest snapshots.
    private var shared: [HashedLocation: SharedHash] = [:]
    private var hashes: HashMemo
    /// Deflaters and an inflater, made when they are needed first.
    private let compression = SharedCompression()

    init(_ resources: Resources) {
        self.resources = resources
        let queue = LeastServedQueue<AddressNetwork?, SessionID, Item>(forgottenWork: Self.forgottenWork)
        queues = Kind.allCases.map { _ in queue }
        hashes = HashMemo(byteLimit: resources.hashByteLimit)
    }

    /// Whether nothing may be done now.
    var isIdle: Bool { !Kind.allCases.contains(where: mayDo) }

    /// Steps of hashing nodes that were not known.
    var hashedStepCount: Int { hashes.hashedStepCount }

    /// Frees what was hashed.
    mutating func forgetHashes() { hashes = HashMemo(byteLimit: resources.hashByteLimit) }

    // MARK: Adding and removing

    mutating func add(_ job: SnapshotJob) {
        let kind: Kind =
            switch job {
            case .encode where resources.waits: .encoding
            case .parse where resources.waits: .parsing
            default: .other
            }
        queues[kind.rawValue].append(item(for: job), to: job.session, of: resources.clients[job.session])
    }

    private mutating func item(for job: SnapshotJob) -> Item {
        guard case .prepare(let job) = job, case .hash(let node) = job.work else { return .whole(job) }
        guard let location = job.location, !node.isLeaf else { return .hash(SharedHash(node, for: job)) }
        if let former = shared[location] {
            if former.node.isSameSnapshot(as: node) {
                former.waiting.append(job)
                return .hash(former)
            }
            former.finish(.superseded)
        }
        let hash = SharedHash(node, for: job)
        shared[location] = hash
        return .hash(hash)
    }

    /// Drops the jobs of a session. A request that waits for one gets ``Preparation/abandoned``.
    mutating func abandon(_ session: SessionID) {
        var unwanted: [SharedHash] = []
        for kind in Kind.allCases {
            queues[kind.rawValue].drop(session) { item in
                switch item {
                case .whole(.prepare(let job)):
                    if !job.outlivesSession { job.finish(.abandoned) }
                    return !job.outlivesSession
                case .whole: return true
                case .hash(let hash):
                    for job in hash.waiting where job.session == session { job.finish(.abandoned) }
                    hash.waiting.removeAll { $0.session == session }
                    if hash.waiting.isEmpty { unwanted.append(hash) }
                    return true
                }
            }
        }
        for hash in unwanted { end(hash) }
    }

    /// The hash is not wanted, or done.
    private mutating func end(_ hash: SharedHash) {
        hash.isDone = true
        guard let location = hash.location, shared[location] === hash else { return }
        shared[location] = nil
    }

    // MARK: Doing

    /// Does a slice of the job whose turn it is.
    /// - Parameter now: Reads the clock.
    mutating func performNext(now: () -> MonotonicTime) {
        guard let kind = nextKind() else { return }
        let began = now()
        queues[kind.rawValue].advance(toPeriod: Int(clamping: began.nanoseconds / Self.periodLength))
        guard let (session, item) = queues[kind.rawValue].next() else { return }
        var sharers: [SessionID] = []
        var isDone = true
        switch item {
        case .whole(let job): perform(job)
        case .hash(let hash):
            // Each that waits for it pays for all of it: many that share their work are as one.
            sharers = hash.waiting.lazy.map(\.session).filter { $0 != session }
            isDone = advance(hash)
        }
        let work = Int(clamping: (now() - began).nanosecondCount)
        queues[kind.rawValue].finish(work: work, isDone: isDone)
        if case .whole(let job) = item { job.query?.noteWork?(work) }
        for sharer in sharers { queues[kind.rawValue].charge(work, to: sharer) }
    }

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
        guard !queues[kind.rawValue].isEmpty else { return false }
        return switch kind {
        case .encoding: !resources.budget.isExhausted
        case .parsing: !resources.parsed.isExhausted
        case .other: true
        }
    }

    /// Does a slice of a hash.
    /// - Returns: Whether it was the last.
    private mutating func advance(_ hash: SharedHash) -> Bool {
        if hash.isDone { return true }
        let known = hashes.knownHash(of: hash.node)
        guard
            let result = known ?? hashes.advance(&hash.walk, of: hash.node, by: Self.sliceStepCount)
        else { return false }
        hash.finish(.hash(result))
        end(hash)
        return true
    }

    private mutating func perform(_ job: SnapshotJob) {
        switch job {
        case .parse(let job):
            var message = job.perform(compression)
            if message.isRequest { message.grant = resources.parsed.grant(forTextOf: message.byteCount) }
            job.results.post(message)
        case .encode(let job):
            job.message.encode(within: resources.budget, &hashes)
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

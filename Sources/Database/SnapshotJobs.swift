import PandoEngine
import PandoReactor
import PandoTime
import PandoTree
import PandoWebSocket

/// The jobs of one thread of ``SnapshotWorkers``. Each ``Kind`` has a ``LeastServedQueue`` with accounts of
/// its own, and the kinds are served in turn. The hash of a large node is done in slices of about four
/// milliseconds; every other job is done in one piece.
///
///     hash jobs of one location   same snapshot   ─▶ one ``SharedHash``, done once, for all that wait for it
///                                 a later one     ─▶ the earlier jobs are answered: their location has changed
///
/// Confined to its thread; a value without clock, for tests.
struct SnapshotJobs {
    /// What jobs use and wait for.
    struct Resources {
        /// Space for encoded messages that are not sent. Encoding jobs wait for it, where ``waits``.
        let encodingBudget: EncodingBudget
        /// Space for parsed messages whose requests are not finished. Parsing jobs wait for it, where
        /// ``waits``.
        let parsingBudget: ParsingBudget
        /// Whether jobs wait until a budget has space. Where not, they only add what they use to it.
        let waits: Bool
        /// The most bytes of hashed pages that are kept.
        let hashByteLimit: Int
        /// Which sessions are one client's.
        let clients: SessionClients
        /// Where jobs go that take too long for this thread; nil where it does all.
        var overflow: Overflow?
    }

    /// Where jobs go that take longer than printing so many bytes, or than visiting so many children, about.
    struct Overflow {
        let byteLimit: Int
        let childLimit: Int
        let post: @Sendable (SnapshotJob) -> Void
    }

    /// Jobs in three groups: those of one do not wait for the budget of another.
    private enum Kind: Int, CaseIterable {
        /// Encodes; waits for ``EncodingBudget``.
        case encoding
        /// Parses; waits for ``ParsingBudget``.
        case parsing
        /// All other jobs; waits for no budget.
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
        var isWeighed = false
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
            for job in takeWaiting() { job.finish(result) }
        }

        /// Removes all that wait, and frees the snapshot.
        func takeWaiting() -> [PreparationJob] {
            defer { (waiting, node, walk) = ([], .empty, HashWalk(.empty)) }
            return waiting
        }
    }

    /// Steps of a hash before the next job: about four milliseconds.
    static let sliceStepCount = 16_000
    /// Nanoseconds after which served work is halved: two seconds.
    private static let periodLength: UInt64 = 2_000_000_000
    /// Accounts below so many nanoseconds are removed.
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

    /// When something was hashed last; nil where nothing is known of it any more.
    private(set) var hashedAt: MonotonicTime?

    /// Frees what was hashed.
    mutating func forgetHashes() {
        hashes = HashMemo(byteLimit: resources.hashByteLimit)
        hashedAt = nil
    }

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

    /// Drops the jobs of a session, except those of writes and indexes; a hash stays where other sessions
    /// wait for it. A request that waits for a dropped job gets ``Preparation/abandoned``.
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
        let usesBefore = hashes.useCount
        // Asked before: a message lets go of its query when it is encoded.
        var noteWork: (@Sendable (Int) -> Void)?
        if case .whole(let job) = item { noteWork = job.query?.noteWork }
        var sharers: [SessionID] = []
        var isDone = true
        switch item {
        case .whole(let job): if !isForwarded(job) { perform(job) }
        case .hash(let hash):
            // Each session that waits for the hash is charged the whole slice, not a share of it.
            sharers = hash.waiting.lazy.map(\.session).filter { $0 != session }
            isDone = isForwarded(hash) || advance(hash)
        }
        if hashes.useCount != usesBefore { hashedAt = began }
        let work = Int(clamping: (now() - began).nanosecondCount)
        queues[kind.rawValue].finish(work: work, isDone: isDone)
        noteWork?(work)
        queues[kind.rawValue].charge(work, toSharers: sharers, of: session)
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
        case .encoding: !resources.encodingBudget.isExhausted
        case .parsing: !resources.parsingBudget.isExhausted
        case .other: true
        }
    }

    /// Gives a job on that takes too long for this thread. Its session is charged for the weighing.
    private func isForwarded(_ job: SnapshotJob) -> Bool {
        guard let overflow = resources.overflow, job.isHeavier(than: overflow.byteLimit, overflow.childLimit)
        else { return false }
        overflow.post(job)
        return true
    }

    /// The same for a hash: once for all that wait for it.
    private mutating func isForwarded(_ hash: SharedHash) -> Bool {
        guard let overflow = resources.overflow, !hash.isDone, !hash.isWeighed else { return false }
        hash.isWeighed = true
        guard hash.node.isHeavier(than: overflow.byteLimit) else { return false }
        for job in hash.takeWaiting() { overflow.post(.prepare(job)) }
        end(hash)
        return true
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
            if message.isRequest {
                message.grant = resources.parsingBudget.grant(forTextOf: message.byteCount)
            }
            job.results.post(message)
        case .encode(let job):
            job.message.encode(within: resources.encodingBudget, &hashes)
            switch job.form {
            case .frames: break
            case .deflated(let window):
                if let deflater = compression.deflater(for: window) {
                    job.message.compress(with: deflater, for: window)
                }
            case .script: job.message.makeScript()
            }
            job.results.post(EncodedMessage(session: job.session, message: job.message))
        case .sizeCheck(let job):
            job.results.post(
                NodeSizeCheck(
                    of: job.node, job.query, for: job.session, byteLimit: job.byteLimit,
                    wantsETag: job.wantsETag))
        case .streamWindow(let job):
            job.results.post(NodeSizeCheck(making: job.window, for: job.session))
        case .prepare(let job): job.perform(&hashes)
        case .report(let job): job.perform()
        }
    }
}

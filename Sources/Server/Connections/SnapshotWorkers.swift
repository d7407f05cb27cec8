import PandoBytes
import PandoEngine
import PandoREST
import PandoReactor
import PandoTree
import PandoWire

/// A large message to make, and the loop that sends it.
struct EncodingJob: Sendable {
    var session: SessionID
    var message: LargeMessage
    var answer: Mailbox<EncodedMessage>
}

struct EncodedMessage: Sendable {
    var session: SessionID
    var message: LargeMessage
}

/// Looks at large data for a loop: finds what a query lets through, whether that is more than may be sent,
/// and what its tag is. All of it takes O(size).
struct NodeSizeCheckJob: Sendable {
    var session: SessionID
    var node: Node
    /// Nil for all of the node.
    var query: Query?
    /// About as many bytes as it may print to; nil for any number.
    var byteLimit: Int?
    var wantsETag: Bool
    var answer: Mailbox<NodeSizeCheck>
}

struct NodeSizeCheck: Sendable {
    var session: SessionID
    /// What the query lets through; nil where none was asked.
    var filtered: Node?
    var isTooHeavy: Bool
    var etag: String?
}

/// Looks at large nodes for a database, which decides a request with what is found.
struct PreparationJob: Sendable {
    enum Work: Sendable {
        /// A compare-and-set needs the hash of the node.
        case hash(Node)
        /// A listen needs the window of the query.
        case window(Query, Node)
        /// The log needs them as text.
        case print([Node])
    }

    var session: SessionID
    var work: Work
    /// Called on the worker thread.
    var finish: @Sendable (Preparation) -> Void

    /// Whether it is for a write that is done also when its session has ended.
    var outlivesSession: Bool { if case .print = work { true } else { false } }

    /// Does the work. O(size).
    func run(_ hashes: inout HashMemo) {
        switch work {
        case .hash(let node): finish(.hash(hashes.hash(of: node)))
        case .window(let query, let node): finish(.window(Window(query, over: node)))
        case .print(let nodes): finish(.printed(PrintedNodes(nodes)))
        }
    }
}

/// What a request waited for.
enum Preparation: Sendable {
    case hash(String)
    case window(Window)
    case printed(PrintedNodes)
    /// Its session has ended: nothing was made.
    case abandoned
}

/// Reads a large message for a loop.
struct ParsingJob: Sendable {
    var session: SessionID
    var message: [UInt8]
    /// Most nodes of its data.
    var nodeLimit: Int
    var answer: Mailbox<ParsedMessage>
}

struct ParsedMessage: Sendable {
    var session: SessionID
    var result: Result<ClientMessage, MalformedMessage>
    var byteCount: Int
}

/// Work that takes long, and needs nothing but what it is given.
enum SnapshotJob: Sendable {
    case parse(ParsingJob)
    case encode(EncodingJob)
    case survey(NodeSizeCheckJob)
    case prepare(PreparationJob)

    var session: SessionID {
        switch self {
        case .parse(let job): job.session
        case .encode(let job): job.session
        case .survey(let job): job.session
        case .prepare(let job): job.session
        }
    }
}

/// Reads large messages, and prints, queries and hashes large nodes, from snapshots, while databases and
/// loops go on.
///
///     loops, databases ──▶ light lane ──────────────▶ done                     jobs of milliseconds
///                               └─ heavy ones ──▶ heavy lane ──▶ done          others
///
/// Each lane is a thread that serves sessions in turn by the time their jobs take (``FairScheduler``): what
/// one client asks for delays itself. What waits for a session that has closed is dropped. Heavy jobs that
/// print wait while clients have too much to take (``EncodingBudget``).
final class SnapshotWorkers: Sendable {
    private let light: SnapshotLane
    private let heavy: SnapshotLane

    /// - Parameter encodedByteLimit: Bytes of large messages, made and not taken by clients, at which no more
    ///   are made.
    init(encodedByteLimit: Int) throws(SocketError) {
        let wakeup = try WakeupEvent()
        let budget = EncodingBudget(byteLimit: encodedByteLimit, signalling: wakeup)
        let heavy = try SnapshotLane("pando-heavy", isHeavy: true, wakeup, budget, overflow: nil)
        self.heavy = heavy
        light = try SnapshotLane("pando-light", isHeavy: false, try WakeupEvent(), budget, overflow: heavy)
    }

    /// Any thread.
    func post(_ job: SnapshotJob) {
        light.post(job)
    }

    /// Any thread: releases a value on the heavy worker, which frees it if that was its last reference.
    func free(_ garbage: consuming any Sendable) { heavy.free(consume garbage) }

    /// Any thread: the session is gone, and what waits for it is not done any more. What is being done is
    /// finished.
    func abandonJobs(of session: SessionID) {
        light.abandonJobs(of: session)
    }

    /// Drops what was asked for, and ends the threads.
    func stop() {
        light.stop()
        heavy.stop()
    }
}

/// One thread of ``SnapshotWorkers``.
private final class SnapshotLane: Sendable {
    private enum Order: Sendable {
        case job(SnapshotJob)
        case abandon(SessionID)
        case free(any Sendable)
        case stop
    }

    /// Printed bytes, and children that a query looks at, from which on a job is heavy: about two
    /// milliseconds.
    private static let heavyByteCount = 1 << 20
    private static let heavyChildCount = 20_000
    /// Nanoseconds of one session's jobs before the next session's, where both wait.
    private static let quantum = 500_000
    /// A session whose job took longer owes the others no more than this.
    private static let debtLimit = 2_000_000_000
    private static let stackByteCount = 8 << 20
    /// Where there are more threads that want to run than processors, loops and databases come first, and
    /// light jobs before heavy ones.
    private static let lightNiceness = 5
    private static let heavyNiceness = 10

    private let orders: Mailbox<Order>
    private let thread: NamedThread

    /// - Parameter overflow: Where heavy jobs go; nil for the lane that takes them.
    /// - Parameter budget: What the lane that waits for it is woken by; the other counts with it.
    init(
        _ name: String, isHeavy: Bool, _ wakeup: WakeupEvent, _ budget: EncodingBudget,
        overflow: SnapshotLane?
    ) throws(SocketError) {
        let orders = Mailbox<Order>(signalling: wakeup)
        self.orders = orders
        thread = try NamedThread.start(name, stackByteCount: Self.stackByteCount) {
            lowerThreadPriority(to: isHeavy ? Self.heavyNiceness : Self.lightNiceness)
            var worker = Worker(wakeup, orders, budget, overflow: overflow)
            worker.run()
        }
    }

    func post(_ job: SnapshotJob) { orders.post(.job(job)) }
    func abandonJobs(of session: SessionID) { orders.post(.abandon(session)) }
    func free(_ garbage: consuming any Sendable) { orders.post(.free(consume garbage)) }

    func stop() {
        orders.post(.stop)
        thread.join()
    }

    /// What the thread has.
    private struct Worker {
        private let wakeup: WakeupEvent
        private let orders: Mailbox<Order>
        private let overflow: SnapshotLane?
        private let budget: EncodingBudget
        private var waiting: FairScheduler<UInt8, SessionID, SnapshotJob?>
        /// Heavy messages to be made, which wait while clients have too much to take; others do not wait for
        /// them.
        private var printing: FairScheduler<UInt8, SessionID, SnapshotJob?>
        private var printsNext = false
        private var hashes = HashMemo()

        init(
            _ wakeup: WakeupEvent, _ orders: Mailbox<Order>, _ budget: EncodingBudget, overflow: SnapshotLane?
        ) {
            self.wakeup = wakeup
            self.orders = orders
            self.overflow = overflow
            self.budget = budget
            waiting = FairScheduler(
                quantum: SnapshotLane.quantum, debtLimit: SnapshotLane.debtLimit, placeholder: nil)
            printing = waiting
        }

        mutating func run() {
            var batch: [Order] = []
            while true {
                if !waiting.hasNext, !mayPrint {
                    hashes = HashMemo()
                    wakeup.wait()
                }
                orders.drain(into: &batch)
                for order in batch {
                    switch order {
                    case .job(let job): add(job)
                    case .abandon(let session):
                        abandon(session)
                        overflow?.abandonJobs(of: session)
                    // With the batch they go.
                    case .free: break
                    case .stop: return
                    }
                }
                batch.removeAll()
                printsNext = mayPrint && (printsNext || !waiting.hasNext)
                let began = MonotonicTime.now
                guard let job = printsNext ? printing.next()?.item : waiting.next()?.item else { continue }
                run(job)
                let work = Int(clamping: (MonotonicTime.now - began).nanosecondCount)
                if printsNext { printing.finish(work: work) } else { waiting.finish(work: work) }
                printsNext.toggle()
            }
        }

        private var mayPrint: Bool { printing.hasNext && !budget.isExhausted }

        /// Drops what waits for a session. Who waits for a preparation is told that there will be none.
        private mutating func abandon(_ session: SessionID) {
            waiting.drop(session) { job in
                guard case .prepare(let job)? = job else { return true }
                if !job.outlivesSession { job.finish(.abandoned) }
                return !job.outlivesSession
            }
            printing.drop(session) { _ in true }
        }

        private mutating func add(_ job: SnapshotJob) {
            if let overflow, job.isHeavier(than: SnapshotLane.heavyByteCount, SnapshotLane.heavyChildCount) {
                return overflow.post(job)
            }
            if case .encode = job, overflow == nil {
                printing.append(job, to: job.session, of: 0)
            } else {
                waiting.append(job, to: job.session, of: 0)
            }
        }

        private mutating func run(_ job: SnapshotJob) {
            switch job {
            case .parse(let job): parse(job)
            case .encode(let job):
                job.message.encode(within: budget, &hashes)
                job.answer.post(EncodedMessage(session: job.session, message: job.message))
            case .survey(let job): survey(job)
            case .prepare(let job): job.run(&hashes)
            }
        }

        private func parse(_ job: ParsingJob) {
            let result: Result<ClientMessage, MalformedMessage>
            do throws(MalformedMessage) {
                result = .success(try ClientMessage(parsing: job.message.rawSpan, nodeLimit: job.nodeLimit))
            } catch {
                result = .failure(error)
            }
            job.answer.post(
                ParsedMessage(session: job.session, result: result, byteCount: job.message.count))
        }

        private func survey(_ job: NodeSizeCheckJob) {
            let filtered = job.query.map { Window($0, over: job.node).node }
            let node = filtered ?? job.node
            let isTooHeavy = job.byteLimit.map { node.isHeavier(than: $0) } ?? false
            let etag = job.wantsETag && !isTooHeavy ? node.etag : nil
            job.answer.post(
                NodeSizeCheck(session: job.session, filtered: filtered, isTooHeavy: isTooHeavy, etag: etag))
        }
    }
}

/// The hash of the snapshot that was hashed last: many clients that come back to one large location ask for
/// the same.
struct HashMemo {
    private var last: (node: Node, hash: String)?

    /// The simple hash of a node. O(size), unless it is the snapshot that was hashed last.
    mutating func hash(of node: Node) -> String {
        if let last, last.node.isSameSnapshot(as: node) { return last.hash }
        let hash = node.hash
        last = (node, hash)
        return hash
    }
}

extension SnapshotJob {
    /// - Complexity: O(`byteLimit`), at most.
    fileprivate func isHeavier(than byteLimit: Int, _ childLimit: Int) -> Bool {
        switch self {
        case .parse(let job): job.message.count > byteLimit / 4
        case .encode(let job):
            switch job.message.content {
            case .push(.initial(let state), _): state.node.isHeavier(than: byteLimit)
            case .push(let body, _): body.isHeavier(than: byteLimit)
            case .response(_, let node): node.isHeavier(than: byteLimit)
            case .filtered(_, let node, let query): query.visits(moreThan: childLimit, of: node)
            case .stale(_, let current): current.node.isHeavier(than: byteLimit)
            }
        case .survey(let job):
            if let query = job.query {
                query.visits(moreThan: childLimit, of: job.node)
            } else {
                job.node.isHeavier(than: min(byteLimit, job.byteLimit ?? .max))
            }
        case .prepare(let job):
            switch job.work {
            case .hash(let node): node.isHeavier(than: byteLimit)
            case .window(let query, let node): query.visits(moreThan: childLimit, of: node)
            case .print(let nodes): nodes.contains { $0.isHeavier(than: byteLimit) }
            }
        }
    }
}

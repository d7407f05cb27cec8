import PandoBytes
import PandoEngine
import PandoREST
import PandoReactor
import PandoTree

/// A large message to encode, and who is told when it is.
struct EncodingJob: Sendable {
    var session: SessionID
    var message: LargeMessage
    var answer: Mailbox<EncodedMessage>
}

struct EncodedMessage: Sendable {
    var session: SessionID
    var message: LargeMessage
}

/// Looks at large data for a loop: whether it is more than may be sent, and what its tag is. Both take O(size).
struct SurveyJob: Sendable {
    var session: SessionID
    var node: Node
    /// About as many bytes as it may print to; nil for any number.
    var byteLimit: Int?
    var wantsETag: Bool
    var answer: Mailbox<Survey>
}

struct Survey: Sendable {
    var session: SessionID
    var isTooHeavy: Bool
    var etag: String?
}

/// Prints large nodes, and surveys them, from snapshots, while the database and the loops go on (design: threads and ownership).
///
/// The lighter ones first, so that a small answer does not wait behind the largest; those wait while clients have too
/// much to take (``EncodingBudget``).
final class EncodingThread: Sendable {
    private enum Order: Sendable {
        case encode(EncodingJob)
        case survey(SurveyJob)
        case stop
    }

    /// Printed bytes from which on a message lets others go first.
    private static let heavyByteCount = 1 << 20

    private let orders: Mailbox<Order>
    private let thread: NamedThread

    init() throws(SocketError) {
        let bell = try Bell()
        let orders = Mailbox<Order>(ringing: bell)
        let budget = EncodingBudget(ringing: bell)
        self.orders = orders
        thread = try NamedThread.start("pando-encode", stackByteCount: 8 << 20) {
            Self.run(bell, orders, budget)
        }
    }

    func post(_ job: EncodingJob) {
        orders.post(.encode(job))
    }

    func post(_ job: SurveyJob) {
        orders.post(.survey(job))
    }

    /// Drops what was asked for, and ends the thread.
    func stop() {
        orders.post(.stop)
        thread.join()
    }

    private static func run(_ bell: Bell, _ orders: Mailbox<Order>, _ budget: EncodingBudget) {
        var batch: [Order] = []
        var heavy: [EncodingJob] = []
        while true {
            if heavy.isEmpty || budget.isExhausted { bell.wait() }
            orders.drain(into: &batch)
            for order in batch {
                switch order {
                case .encode(let job):
                    if job.message.isHeavier(than: heavyByteCount) { heavy.append(job) } else { encode(job, budget) }
                case .survey(let job): survey(job)
                case .stop: return
                }
            }
            batch.removeAll()
            if !heavy.isEmpty, !budget.isExhausted { encode(heavy.removeFirst(), budget) }
        }
    }

    private static func survey(_ job: SurveyJob) {
        let isTooHeavy = job.byteLimit.map { job.node.isHeavier(than: $0) } ?? false
        let etag = job.wantsETag && !isTooHeavy ? job.node.etag : nil
        job.answer.post(Survey(session: job.session, isTooHeavy: isTooHeavy, etag: etag))
    }

    private static func encode(_ job: EncodingJob, _ budget: EncodingBudget) {
        job.message.encode(within: budget)
        job.answer.post(EncodedMessage(session: job.session, message: job.message))
    }
}

extension LargeMessage {
    fileprivate func isHeavier(than byteLimit: Int) -> Bool {
        switch content {
        case .push(let body, _): body.isHeavier(than: byteLimit)
        case .response(_, let node): node.isHeavier(than: byteLimit)
        case .stale(_, let current): current.node.isHeavier(than: byteLimit)
        }
    }
}

import PandoEngine
import PandoReactor
import PandoTree
import PandoWebSocket

/// A large message to encode, and where the result goes.
package struct EncodingJob: Sendable {
    package var session: SessionID
    package var message: LargeMessage
    /// In which its session takes it.
    package var form: OutputForm
    package var results: Mailbox<EncodedMessage>

    package init(
        session: SessionID, message: LargeMessage, form: OutputForm, results: Mailbox<EncodedMessage>
    ) {
        self.session = session
        self.message = message
        self.form = form
        self.results = results
    }
}

/// The result of an ``EncodingJob``.
package struct EncodedMessage: Sendable {
    package var session: SessionID
    package var message: LargeMessage
}

/// Work that takes long, and needs nothing but what it is given.
package enum SnapshotJob: Sendable {
    case parse(ParsingJob)
    case encode(EncodingJob)
    case sizeCheck(NodeSizeCheckJob)
    case streamWindow(StreamWindowJob)
    case prepare(PreparationJob)
    case report(ReportJob)

    /// The query that is evaluated; nil for other work.
    var query: IndexedQuery? {
        switch self {
        case .encode(let job): if case .filtered(_, _, let query) = job.message.content { query } else { nil }
        case .sizeCheck(let job): job.query
        case .prepare(let job): if case .window(let query, _, _, _) = job.work { query } else { nil }
        case .parse, .streamWindow, .report: nil
        }
    }

    var session: SessionID {
        switch self {
        case .parse(let job): job.session
        case .encode(let job): job.session
        case .sizeCheck(let job): job.session
        case .streamWindow(let job): job.session
        case .prepare(let job): job.session
        case .report(let job): job.session
        }
    }
}

extension SnapshotJob {
    /// Whether the job takes longer than printing so many bytes, or than visiting so many children, about.
    /// - Complexity: O(`byteLimit`), at most.
    func isHeavier(than byteLimit: Int, _ childLimit: Int) -> Bool {
        switch self {
        // A client chooses what a compressed message becomes: the worst counts.
        case .parse(let job):
            job.message.count > byteLimit / (job.inflatedByteLimit == nil ? 4 : InflationLimits().ratio)
        case .encode(let job): job.message.isHeavier(than: byteLimit, childLimit)
        case .sizeCheck(let job):
            if let query = job.query {
                query.visits(moreThan: childLimit, of: job.node)
            } else {
                job.node.isHeavier(than: min(byteLimit, job.byteLimit ?? .max))
            }
        case .streamWindow(let job): job.window.isHeavier(than: byteLimit, childLimit)
        case .prepare(let job):
            switch job.work {
            case .hash(let node): node.isHeavier(than: byteLimit)
            case .window(let query, let node, _, _): query.visits(moreThan: childLimit, of: node)
            case .write(let preparation):
                job.evaluatesLongRules || preparation.isHeavier(than: byteLimit, childLimit)
            case .print(let nodes, _): nodes.contains { $0.isHeavier(than: byteLimit) }
            case .rules(let source): source.count > byteLimit / Self.compilingCost
            case .index: true
            }
        // The rules for one request, or a page of children, take at most some milliseconds.
        case .report(let job): job.sourceByteCount > byteLimit / Self.compilingCost
        }
    }

    /// Bytes that are printed in the time in which one byte of rules is compiled, about.
    private static var compilingCost: Int { 256 }
}

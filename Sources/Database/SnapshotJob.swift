import PandoBytes
import PandoEngine
import PandoREST
import PandoReactor
import PandoRules
import PandoTree
import PandoWebSocket
import PandoWire

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

/// Finds the children that a query selects, whether that is more than may be sent, and its ETag. O(size),
/// with an index O(log n) for each child that is selected.
package struct NodeSizeCheckJob: Sendable {
    package var session: SessionID
    package var node: Node
    /// Nil for all of the node.
    package var query: IndexedQuery?
    /// Bytes that it may print to, about; nil for any number.
    package var byteLimit: Int?
    package var wantsETag: Bool
    package var results: Mailbox<NodeSizeCheck>

    package init(
        session: SessionID, node: Node, query: IndexedQuery?, byteLimit: Int?, wantsETag: Bool,
        results: Mailbox<NodeSizeCheck>
    ) {
        self.session = session
        self.node = node
        self.query = query
        self.byteLimit = byteLimit
        self.wantsETag = wantsETag
        self.results = results
    }
}

/// The result of a ``NodeSizeCheckJob``.
package struct NodeSizeCheck: Sendable {
    package var session: SessionID
    /// What the query selects; nil where there is none.
    package var filtered: Node?
    /// Where a limit has cut that.
    package var endOfPage: Window.PageEnd?
    package var isTooHeavy: Bool
    package var etag: String?
}

extension NodeSizeCheck {
    /// Does a ``NodeSizeCheckJob``; its parts are explained there. O(size).
    package init(
        of node: Node, _ query: IndexedQuery?, for session: SessionID, byteLimit: Int?, wantsETag: Bool
    ) {
        let window = query.flatMap { $0.query.aggregates.isEmpty ? Window($0, over: node) : nil }
        let filtered = window?.node ?? query.map { $0.result(over: node) }
        let selected = filtered ?? node
        let isTooHeavy = byteLimit.map { selected.isHeavier(than: $0) } ?? false
        self.init(
            session: session, filtered: filtered, endOfPage: window?.endOfPage, isTooHeavy: isTooHeavy,
            etag: wantsETag && !isTooHeavy ? selected.etag : nil)
    }
}

/// A computation that a request needs before it can be executed (``RequestPreparer``).
package struct PreparationJob: Sendable {
    package enum Work: Sendable {
        /// A compare-and-set needs the hash of the node.
        case hash(Node)
        /// A listen needs the query window. With it an index is made where there is none and there may be
        /// one.
        /// - former: The query window over an earlier snapshot, and that snapshot, where too much had changed
        ///   since.
        case window(IndexedQuery, Node, makesIndex: Bool, former: (window: Window, node: Node)?)
        /// A large write: rules, indexes.
        case write(WritePreparation)
        /// The journal needs them as text.
        case print([Node], heavierThan: Int)
        /// The source of rules that are published.
        case rules([UInt8])
        /// An engine needs it for an index; no request waits for it.
        case index(IndexJob)
    }

    package var session: SessionID
    package var work: Work
    /// The location of the node that is hashed. Nil for other work, and where no other job may share the
    /// hash.
    package var location: HashedLocation?
    /// Rules may take long, whatever is written.
    package var evaluatesLongRules: Bool
    /// Called on the worker thread.
    package var finish: @Sendable (Preparation) -> Void

    package init(
        session: SessionID, work: Work, location: HashedLocation? = nil, evaluatesLongRules: Bool = false,
        finish: @escaping @Sendable (Preparation) -> Void
    ) {
        self.session = session
        self.work = work
        self.location = location
        self.evaluatesLongRules = evaluatesLongRules
        self.finish = finish
    }

    /// Whether it is done although its session has ended: for writes, which are executed anyway, and indexes.
    var outlivesSession: Bool {
        switch work {
        case .print, .index, .write, .rules: true
        case .hash, .window: false
        }
    }

    /// Does the work, and calls ``finish``. O(size).
    package func perform(_ hashes: inout HashMemo) {
        switch work {
        case .hash(let node): finish(.hash(hashes.hash(of: node)))
        case .window(var query, let node, let makesIndex, let former):
            let made =
                makesIndex && query.index == nil
                ? KeptIndex(ordering: node.children, by: query.query.order) : nil
            if let made { query.index = made }
            let followed = former.flatMap { $0.window.following($0.node, to: node) }
            finish(.window(followed ?? Window(query, over: node), made))
        case .write(let preparation): finish(.write(preparation.perform()))
        case .print(let nodes, let byteCount):
            finish(.printed(PrintedNodes(nodes, heavierThan: byteCount)))
        case .rules(let source):
            finish(.rules(Result { () throws(InvalidRules) in try Ruleset(loading: source) }))
        case .index(let job): finish(.index(job.perform()))
        }
    }
}

/// The location whose hash a job computes. Of two jobs for it, the later one has the later snapshot.
package struct HashedLocation: Hashable, Sendable {
    package var database: UInt32
    /// It may name a priority.
    package var path: Path

    package init(database: UInt32, path: Path) {
        self.database = database
        self.path = path
    }
}

/// The result of a ``PreparationJob``.
package enum Preparation: Sendable {
    case hash(String)
    /// The hash was not finished: a later job has another snapshot of the location, so it has changed.
    case superseded
    /// With the index that was made with it.
    case window(Window, KeptIndex?)
    case write(PreparedWrite)
    case printed(PrintedNodes)
    case rules(Result<Ruleset, InvalidRules>)
    case index(IndexJobResult)
    /// The session has ended: nothing was computed.
    case abandoned
}

/// A large message of a client to parse.
package struct ParsingJob: Sendable {
    package var session: SessionID
    package var message: [UInt8]
    /// Most bytes of a compressed message when it is inflated; nil for a message that is not compressed.
    package var inflatedByteLimit: Int?
    /// The most nodes that its data may have.
    package var nodeLimit: Int
    package var results: Mailbox<ParsedMessage>

    package init(
        session: SessionID, message: [UInt8], inflatedByteLimit: Int? = nil, nodeLimit: Int,
        results: Mailbox<ParsedMessage>
    ) {
        self.session = session
        self.message = message
        self.inflatedByteLimit = inflatedByteLimit
        self.nodeLimit = nodeLimit
        self.results = results
    }
}

extension ParsingJob {
    /// - Parameter compression: Has the inflater of the thread.
    func perform(_ compression: SharedCompression) -> ParsedMessage {
        guard let inflatedByteLimit else {
            return ParsedMessage(parsing: message, for: session, nodeLimit: nodeLimit)
        }
        guard let inflater = try? compression.sharedInflater() else {
            return ParsedMessage(violation: .noMemoryToInflate, for: session)
        }
        return ParsedMessage(
            inflating: message, with: inflater, byteLimit: inflatedByteLimit, for: session,
            nodeLimit: nodeLimit)
    }
}

/// The result of a ``ParsingJob``.
package struct ParsedMessage: Sendable {
    package var session: SessionID
    package var result: Result<ClientMessage, MalformedMessage>
    /// Bytes of the message, not compressed.
    package var byteCount: Int
    /// Why a compressed message could not be inflated; nil where it was.
    package var violation: ProtocolViolation?
    /// What it takes of the process's memory, as long as the request is not finished.
    package var grant: ParsingBudget.Grant?

    /// Whether it is a request, which brings data.
    var isRequest: Bool { if case .success(.request) = result { true } else { false } }
}

extension ParsedMessage {
    /// Of a message that could not be inflated.
    init(violation: ProtocolViolation, for session: SessionID) {
        self.init(session: session, result: .failure(.missing("text")), byteCount: 0, violation: violation)
    }

    /// Inflates and parses a compressed message. O(size when it is inflated).
    /// - Parameter byteLimit: Most bytes of it then.
    package init(
        inflating message: [UInt8], with inflater: MessageInflater, byteLimit: Int, for session: SessionID,
        nodeLimit: Int
    ) {
        do throws(ProtocolViolation) {
            let inflated = try inflater.inflate(message.rawSpan, byteLimit: byteLimit)
            self.init(parsing: inflated, for: session, nodeLimit: nodeLimit)
        } catch {
            self.init(violation: error, for: session)
        }
    }

    /// Parses a message. O(size).
    package init(parsing message: [UInt8], for session: SessionID, nodeLimit: Int) {
        let result: Result<ClientMessage, MalformedMessage>
        do throws(MalformedMessage) {
            result = .success(try ClientMessage(parsing: message.rawSpan, nodeLimit: nodeLimit))
        } catch {
            result = .failure(error)
        }
        self.init(session: session, result: result, byteCount: message.count)
    }
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

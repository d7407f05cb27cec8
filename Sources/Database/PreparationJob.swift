import PandoEngine
import PandoRules
import PandoTree

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

import PandoBytes
import PandoEngine
import PandoREST
import PandoStorage
import PandoTree
import PandoWire

// What is counted of requests (``DatabaseMetrics``).

extension CommandProcessor {
    /// Counts a reply that needs no database, and its request.
    func count(_ reply: SessionReply) {
        metrics.requests.add(.other)
        countFailure(reply)
    }

    /// Counts a reply that reports a failure.
    func countFailure(_ reply: SessionReply) {
        if let failure = DatabaseMetrics.Failure(reply) { metrics.failures.add(failure) }
    }

    /// What a message is about, for ``SlowOperations``. Of a query it holds only what is reported: a whole
    /// query would be copied for each message.
    struct Subject {
        var kind: RequestKind
        var database: String
        var path: Path
        /// The order of a query; nil for no query.
        var order: ChildOrder?
        /// Whether it is a query for which the rules should declare an index.
        var needsIndex = false
        /// Bytes of the request.
        var byteCount = 0
        /// The data of the location is not sent.
        var isOfChildren = false

        init(
            _ kind: RequestKind, in database: String, at path: Path, _ query: Query? = nil,
            byteCount: Int = 0, isOfChildren: Bool = false
        ) {
            self.kind = kind
            self.database = database
            self.path = path
            if let query { (order, needsIndex) = (query.order, query.needsIndex) }
            self.byteCount = byteCount
            self.isOfChildren = isOfChildren
        }
    }

    /// Nil for a message that is about no location.
    func subject(of message: borrowing DatabaseMessage) -> Subject? {
        switch message {
        case .request(let request):
            guard let path = request.action.location, let database = sessions[request.session]?.database
            else {
                return nil
            }
            return Subject(
                request.action.metric, in: database.name, at: path, request.action.query,
                byteCount: request.byteCount)
        case .rest(_, let call, let byteCount):
            if case .listChildren(let listing, _) = call.action {
                return Subject(
                    .restRead, in: call.namespace ?? NamespaceName.standard, at: listing.path,
                    isOfChildren: true)
            }
            guard case .data(let request, _, _) = call.action, case .data(let target) = request.location
            else {
                return nil
            }
            return Subject(
                request.metric, in: call.namespace ?? NamespaceName.standard, at: target.path,
                request.isFiltered ? request.query : nil, byteCount: byteCount)
        case .prepared(let prepared): return subject(of: prepared.message)
        default: return nil
        }
    }

    /// Notes how long the databases were busy with a message.
    /// - Parameter requestCount: Messages since the clock was read before.
    func noteWork(_ nanoseconds: Int, of subject: Subject?, requestCount: Int) {
        guard let subject, UInt64(clamping: nanoseconds) >= metrics.slowOperations.threshold else { return }
        metrics.slowOperations.note(
            SlowOperations.Entry(
                kind: subject.kind, database: subject.database,
                pattern: SlowOperations.pattern(of: subject.path),
                location: SlowOperations.location(of: subject.path),
                order: subject.order.map {
                    SlowOperations.Order(name: $0.restName, isIndexed: !lacksIndex(subject))
                }, nanoseconds: UInt64(nanoseconds), milliseconds: clock.last, requestCount: requestCount))
    }

    /// The query, with what notes how long another thread takes for it: it is done there because it may take
    /// long.
    func noting(
        _ indexed: IndexedQuery, _ kind: RequestKind, at path: Path, in database: StoredDatabase
    ) -> IndexedQuery {
        var noting = indexed
        let (operations, time, query) = (metrics.slowOperations, clock.last, indexed.query)
        let isIndexed = !query.needsIndex || database.engine.access.hasIndex(query.order, at: path)
        let name = database.name
        noting.noteWork = { nanoseconds in
            guard UInt64(clamping: nanoseconds) >= operations.threshold else { return }
            operations.note(
                SlowOperations.Entry(
                    kind: kind, database: name, pattern: SlowOperations.pattern(of: path),
                    location: SlowOperations.location(of: path),
                    order: SlowOperations.Order(name: query.order.restName, isIndexed: isIndexed),
                    isElsewhere: true, nanoseconds: UInt64(nanoseconds), milliseconds: time, requestCount: 1))
        }
        return noting
    }

    /// Whether a message has a query whose index the rules do not declare.
    func lacksIndex(_ subject: Subject) -> Bool {
        guard let order = subject.order, subject.needsIndex, let database = databases[subject.database]
        else { return false }
        return !database.engine.access.hasIndex(order, at: subject.path)
    }
}

extension ChildOrder {
    /// In the words of REST's `orderBy` (rest §5).
    fileprivate var restName: String? {
        switch self {
        case .key: "$key"
        case .priority: "$priority"
        case .value: "$value"
        case .child, .compound: declaredName
        }
    }
}

extension Operation {
    var metric: RequestKind {
        switch self {
        case .listen: .listen
        case .unlisten: .unlisten
        case .get: .get
        case .put: .put
        case .transaction: .transaction
        case .merge: .merge
        case .onDisconnect, .cancelOnDisconnect, .revokeOnDisconnect, .endSession: .onDisconnect
        }
    }
}

extension Action {
    var metric: RequestKind {
        switch self {
        case .listen: .listen
        case .unlisten: .unlisten
        case .get: .get
        case .put: .put
        case .transaction: .transaction
        case .merge: .merge
        case .onDisconnectPut, .onDisconnectMerge, .onDisconnectCancel: .onDisconnect
        case .statistics, .authenticate, .unauthenticate, .appCheck, .dropAppCheck, .unknown, .invalid: .other
        }
    }

    fileprivate var query: Query? {
        switch self {
        case .listen(let listen, _): listen.query
        case .get(_, let query): query
        default: nil
        }
    }

    fileprivate var location: Path? {
        switch self {
        case .listen(let listen, _): listen.path
        case .unlisten(let path, _, _), .get(let path, _): path
        case .put(let write), .transaction(let write, _, _), .onDisconnectPut(let write): write.target.path
        case .merge(let base, _): base
        case .onDisconnectMerge(let base, _): base
        case .onDisconnectCancel(let target): target.path
        case .statistics, .authenticate, .unauthenticate, .appCheck, .dropAppCheck, .unknown, .invalid: nil
        }
    }
}

extension RESTRequest {
    var metric: RequestKind {
        guard case .data = location else { return .restOther }
        return method.isRead ? (wantsStream ? .restStream : .restRead) : .restWrite
    }
}

extension CommandResult {
    /// Nil for a success.
    var failure: DatabaseMetrics.Failure? {
        switch self {
        case .ok, .listening, .data, .filtered: nil
        case .permissionDenied: .permissionDenied
        case .dataStale: .dataStale
        case .limitExceeded: .limitExceeded
        case .failed: .other
        }
    }
}

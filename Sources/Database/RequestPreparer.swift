import PandoBytes
import PandoEngine
import PandoREST
import PandoStorage
import PandoTree
import PandoWire

/// Has long computations of requests done by worker threads, on snapshots, while other sessions go on: a
/// compare-and-set hashes its location (realtime §11.2, rest §7), a listen through a query orders the
/// children there, a write prints its data for the log. Over a million children that takes up to a second.
///
///     request ──▶ suspended ──▶ worker ──▶ prepared ──▶ hash: the location is unchanged ──▶ decided with the hash
///                                               │             └─ it has changed ──▶ stale, whichever value was expected
///                                               ├─▶ window: caught up with what has changed, then the listen begins
///                                               ├─▶ printed: executed, or suspended once more for a hash
///                                               └─▶ cancelled, since its session has ended: not executed
///
/// The session of a suspended request waits; its later requests stay behind it. Used by one thread at a time.
final class RequestPreparer {
    private let processor: CommandProcessor
    /// Has a worker do a job.
    private let start: @Sendable (PreparationJob) -> Void
    /// Has the workers drop the jobs of a session that has ended.
    private let cancel: @Sendable (SessionID) -> Void
    /// Posts a message to the databases.
    private let post: @Sendable (DatabaseMessage) -> Void

    init(
        _ processor: CommandProcessor, start: @escaping @Sendable (PreparationJob) -> Void,
        cancel: @escaping @Sendable (SessionID) -> Void,
        post: @escaping @Sendable (DatabaseMessage) -> Void
    ) {
        self.processor = processor
        self.start = start
        self.cancel = cancel
        self.post = post
    }

    /// Drops the jobs of a session that has ended.
    func cancelJobs(of session: SessionID) { cancel(session) }

    // MARK: Suspending

    /// Starts the computation that a realtime request needs first, if any.
    /// - Parameter isPrinted: Its data was printed before.
    /// - Returns: The database of its session, which is to be suspended; nil where the request can be executed
    ///   at once.
    func suspend(_ request: PostedRequest, isPrinted: Bool = false) -> RequestBacklog.DatabaseID? {
        guard processor.environment.hasWorkers,
            let database = processor.sessions[request.session]?.database
        else { return nil }
        let (session, message) = (request.session, DatabaseMessage.request(request))
        if !isPrinted, request.byteCount > CommandProcessor.smallByteCount, processor.log.isEnabled {
            let nodes = request.action.drafts.nodesToPrint
            if !nodes.isEmpty { return prepare(.print(nodes), for: session, message, in: database) }
        }
        switch request.action {
        case .transaction(let write, let expectedHash, _):
            guard let node = database.engine.nodeToHash(at: write.target, comparedWith: expectedHash),
                // A client that may not write causes no work, and learns nothing.
                database.engine.mayPut(write, as: request.credential, at: processor.clock.last)
            else { return nil }
            return prepare(.hash(node), at: write.target, for: session, message, in: database)
        case .listen(let listen, _):
            guard let query = listen.query,
                let (indexed, node) = database.engine.locationOfWindow(of: query, at: listen.path),
                database.engine.mayListen(
                    listen.path, query, as: request.credential, at: processor.clock.last)
            else { return nil }
            return prepare(
                .window(indexed, node), at: Target(listen.path), for: session, message, in: database)
        default: return nil
        }
    }

    /// The same for REST: `if-match` is such a hash, an event stream such a listen.
    func suspend(
        _ call: RESTCall, byteCount: Int, of session: SessionID, isPrinted: Bool = false
    ) -> RequestBacklog.DatabaseID? {
        guard processor.environment.hasWorkers,
            case .data(let request, let body, let credential) = call.action,
            case .data(let target) = request.location,
            let database = processor.databases[call.namespace]
        else { return nil }
        let message = DatabaseMessage.rest(session, call, byteCount: byteCount)
        if !isPrinted, byteCount > CommandProcessor.smallByteCount, processor.log.isEnabled, let body {
            let nodes = body.drafts.nodesToPrint
            if !nodes.isEmpty { return prepare(.print(nodes), for: session, message, in: database) }
        }
        guard request.expectedHash != nil || request.wantsStream,
            database.engine.mayRead(target.path, request.query, as: credential, at: processor.clock.last)
        else { return nil }
        if request.wantsStream {
            guard let query = request.query, !query.loadsAllData,
                let (indexed, node) = database.engine.locationOfWindow(of: query, at: target.path)
            else { return nil }
            return prepare(.window(indexed, node), at: target, for: session, message, in: database)
        }
        guard case .value(let draft)? = body, let expectedHash = request.expectedHash,
            let node = database.engine.nodeToHash(at: target, comparedWith: expectedHash),
            database.engine.mayPut(Write(target, draft), as: credential, at: processor.clock.last)
        else { return nil }
        return prepare(.hash(node), at: target, for: session, message, in: database)
    }

    /// The same for the end of a session: its onDisconnect writes are printed.
    func suspend(endOf session: SessionID) -> RequestBacklog.DatabaseID? {
        guard processor.environment.hasWorkers, processor.log.isEnabled,
            let hosted = processor.sessions[session],
            hosted.database.engine.queuedByteCount(of: session) > CommandProcessor.smallByteCount
        else { return nil }
        let nodes = hosted.database.engine.queuedNodes(of: session).filter(PrintedNodes.isLarge)
        guard !nodes.isEmpty else { return nil }
        return prepare(.print(nodes), for: session, .closed(session), in: hosted.database)
    }

    @discardableResult
    private func prepare(
        _ work: PreparationJob.Work, at target: Target = Target(.root), for session: SessionID,
        _ message: DatabaseMessage, in database: StoredDatabase
    ) -> RequestBacklog.DatabaseID {
        let printed = processor.log.printed
        start(
            PreparationJob(session: session, work: work) { [post] preparation in
                post(
                    .prepared(PreparedRequest(session, message, target, work, preparation, printed: printed)))
            })
        return database.id
    }

    // MARK: Going on

    /// Executes a request with what was computed for it.
    /// - Parameter execute: Executes its message.
    /// - Returns: false where it is suspended once more.
    func finish(_ prepared: PreparedRequest, execute: (DatabaseMessage) -> Void) -> Bool {
        guard let database = database(of: prepared) else { return true }
        processor.log.printed = prepared.printed
        defer { processor.log.printed = nil }
        switch (prepared.preparation, prepared.work) {
        case (.window(let window), .window(_, let node)):
            guard database.engine.prepare(window, at: prepared.target.path, over: node) else {
                let path = prepared.target.path
                let (node, query) = (
                    database.engine.root[path], database.engine.indexed(window.query, at: path)
                )
                prepare(
                    .window(query, node), at: prepared.target, for: prepared.session, prepared.message,
                    in: database)
                return false
            }
            execute(prepared.message)
            database.engine.discardPreparedWindow()
        case (.hash(let hash), .hash(let node)):
            if database.engine.note(hash, of: node, at: prepared.target) {
                execute(prepared.message)
            } else {
                refuseAsStale(prepared, database)
            }
        case (.printed(let nodes), _):
            processor.log.printed = nodes
            guard !suspendPrinted(prepared.message) else { return false }
            execute(prepared.message)
        case (.abandoned, _): break
        case (.window, _), (.hash, _), (.index, _):
            preconditionFailure("the result is not of the work that was asked for")
        }
        return true
    }

    /// Starts the computation of a hash that a request needs whose data is printed.
    private func suspendPrinted(_ message: DatabaseMessage) -> Bool {
        switch message {
        case .request(let request): suspend(request, isPrinted: true) != nil
        case .rest(let session, let call, let byteCount):
            suspend(call, byteCount: byteCount, of: session, isPrinted: true) != nil
        default: false
        }
    }

    private func database(of prepared: PreparedRequest) -> StoredDatabase? {
        switch prepared.message {
        case .request, .closed: processor.sessions[prepared.session]?.database
        case .rest(_, let call, _): processor.databases[call.namespace]
        default: nil
        }
    }

    /// The location has changed while its hash was computed.
    private func refuseAsStale(_ prepared: PreparedRequest, _ database: StoredDatabase) {
        switch prepared.message {
        case .request(let request):
            guard case .transaction(let write, _, let wantsCurrentValue) = request.takeAction() else {
                return
            }
            let result = database.engine.staleResult(
                at: write.target, wantsCurrentValue: wantsCurrentValue, for: request.session,
                as: request.credential, at: processor.clock.now())
            processor.catchUp(request.session)
            processor.encoder.encode(result, request.number, to: request.session)
        case .rest(let session, let call, _):
            guard case .data(_, _, let credential) = call.action,
                database.engine.mayRead(
                    prepared.target.path, nil, as: credential, at: processor.clock.now())
            else { return processor.encoder.respond(.refused(.permissionDenied), to: session) }
            processor.encoder.respond(
                .stale(database.engine.root.value(at: prepared.target.fullPath)), to: session)
        default: break
        }
    }
}

extension PreparedRequest {
    /// Bytes of the request.
    var byteCount: Int {
        switch message {
        case .request(let request): request.byteCount
        case .rest(_, _, let byteCount): byteCount
        default: 0
        }
    }
}

extension Action {
    /// The data that it brings.
    fileprivate var drafts: [Draft] {
        switch self {
        case .put(let write), .transaction(let write, _, _), .onDisconnectPut(let write): [write.draft]
        case .merge(_, let entries), .onDisconnectMerge(_, let entries): entries.map(\.draft)
        default: []
        }
    }

    /// The nodes of its data that take long to free.
    var largeNodes: [Node] { drafts.largeNodes }
}

extension RESTBody {
    fileprivate var drafts: [Draft] {
        switch self {
        case .value(let draft): [draft]
        case .update(let updates): updates.map(\.draft)
        }
    }

    /// The nodes of its data that take long to free.
    var largeNodes: [Node] { drafts.largeNodes }
}

extension [Draft] {
    fileprivate var largeNodes: [Node] { compactMap { PrintedNodes.isLarge($0.node) ? $0.node : nil } }

    /// Large nodes that the log holds as they are: where there are server values, it holds another node.
    fileprivate var nodesToPrint: [Node] { filter(\.placeholders.isEmpty).largeNodes }
}

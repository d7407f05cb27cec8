import PandoBytes
import PandoEngine
import PandoREST
import PandoTree
import PandoWire

// Requests that must look at all of something large first: a compare-and-set hashes its location
// (realtime §11.2, rest §7), a listen through a query orders the children there, a write prints its
// data for the log. Over a million children that takes up to a second: a worker does it on a snapshot, while
// other sessions go on, and the session of the request waits.
//
//     request ──▶ suspended ──▶ worker ──▶ prepared ──▶ hash: unchanged since ──▶ decided with the hash,
//     which is kept
//                                               │             └─ changed since ──▶ stale, whichever value was expected
//                                               ├─▶ window: what has changed since is caught up with, then
//                                               the listen begins ├─▶ printed: it is done, or suspended for a
//                                               hash └─▶ abandoned, since its session has ended: it is not
//                                               done

extension DatabaseHost {
    // MARK: Suspending

    /// Has made what a realtime request needs first.
    /// - Parameter isPrinted: Its data was printed before.
    /// - Returns: The database of its session, which is to be suspended; nil where the request can be done at
    ///   once.
    func suspendForPreparation(_ request: PostedRequest, isPrinted: Bool = false) -> RequestBacklog
        .DatabaseID?
    {
        guard surroundings.hasWorkers, let database = sessions[request.session]?.database else { return nil }
        let (session, message) = (request.session, DatabaseMessage.request(request))
        if !isPrinted, request.byteCount > Self.smallByteCount, journal != nil {
            let nodes = request.action.drafts.nodesToPrint
            if !nodes.isEmpty { return prepare(.print(nodes), for: session, message, in: database) }
        }
        switch request.action {
        case .put(let target, let draft, let expectedHash?, _):
            guard let node = database.engine.nodeToHash(at: target, comparedWith: expectedHash),
                // Who may not write causes no work, and learns nothing.
                database.engine.mayPut(Write(target, draft), as: request.credential, at: clock.last)
            else { return nil }
            return prepare(.hash(node), at: target, for: session, message, in: database)
        case .listen(let listen):
            guard let query = listen.query,
                let node = database.engine.locationOfWindow(of: query, at: listen.path),
                database.engine.mayListen(listen.path, query, as: request.credential, at: clock.last)
            else { return nil }
            return prepare(.window(query, node), at: Target(listen.path), for: session, message, in: database)
        default: return nil
        }
    }

    /// The same for REST: `if-match` is such a hash, an event stream such a listen.
    func suspendForPreparation(
        _ call: RESTCall, byteCount: Int, of session: SessionID, isPrinted: Bool = false
    ) -> RequestBacklog.DatabaseID? {
        guard surroundings.hasWorkers, case .data(let request, let body, let credential) = call.action,
            case .data(let target) = request.location,
            let database = databases[call.namespace ?? NamespaceName.standard]
        else { return nil }
        let message = DatabaseMessage.rest(session, call, byteCount: byteCount)
        if !isPrinted, byteCount > Self.smallByteCount, journal != nil, let body {
            let nodes = body.drafts.nodesToPrint
            if !nodes.isEmpty { return prepare(.print(nodes), for: session, message, in: database) }
        }
        guard request.expectedHash != nil || request.wantsStream,
            database.engine.mayRead(target.path, request.query, as: credential, at: clock.last)
        else { return nil }
        if request.wantsStream {
            guard let query = request.query, !query.loadsAllData,
                let node = database.engine.locationOfWindow(of: query, at: target.path)
            else { return nil }
            return prepare(.window(query, node), at: target, for: session, message, in: database)
        }
        guard case .value(let draft)? = body, let expectedHash = request.expectedHash,
            let node = database.engine.nodeToHash(at: target, comparedWith: expectedHash),
            database.engine.mayPut(Write(target, draft), as: credential, at: clock.last)
        else { return nil }
        return prepare(.hash(node), at: target, for: session, message, in: database)
    }

    /// Has printed what a session wants written at its end.
    func suspendForPreparation(endOf session: SessionID) -> RequestBacklog.DatabaseID? {
        guard surroundings.hasWorkers, journal != nil, let hosted = sessions[session],
            hosted.database.engine.queuedByteCount(of: session) > Self.smallByteCount
        else { return nil }
        let nodes = hosted.database.engine.queuedNodes(of: session).filter(PrintedNodes.isLarge)
        guard !nodes.isEmpty else { return nil }
        return prepare(.print(nodes), for: session, .closed(session), in: hosted.database)
    }

    /// Bytes of a request up to which none of its data is large: it prints in about as many, or some times as
    /// many (the names of an array's elements are not sent).
    static let smallByteCount = 8 << 10

    @discardableResult
    private func prepare(
        _ work: PreparationJob.Work, at target: Target = Target(.root), for session: SessionID,
        _ message: DatabaseMessage, in database: Database
    ) -> RequestBacklog.DatabaseID {
        startPreparation(
            PreparationJob(session: session, work: work) { [post, printed] preparation in
                post(
                    .prepared(PreparedRequest(session, message, target, work, preparation, printed: printed)))
            })
        return database.id
    }

    // MARK: Going on

    /// Does the request that waited.
    /// - Returns: false when it has to wait once more.
    func finish(_ prepared: PreparedRequest) -> Bool {
        guard let database = database(of: prepared) else { return true }
        printed = prepared.printed
        defer { printed = nil }
        switch (prepared.preparation, prepared.work) {
        case (.window(let window), .window(_, let node)):
            guard database.engine.prepare(window, at: prepared.target.path, over: node) else {
                let node = database.engine.root[prepared.target.path]
                prepare(
                    .window(window.query, node), at: prepared.target, for: prepared.session, prepared.message,
                    in: database)
                return false
            }
            run(prepared.message)
            database.engine.discardPreparedWindow()
        case (.hash(let hash), .hash(let node)):
            if database.engine.note(hash, of: node, at: prepared.target) {
                run(prepared.message)
            } else {
                refuseAsStale(prepared, database)
            }
        case (.printed(let nodes), _):
            printed = nodes
            guard !suspendPrinted(prepared.message) else { return false }
            run(prepared.message)
        default: break  // Abandoned.
        }
        return true
    }

    /// Has hashed what a request needs whose data is printed.
    private func suspendPrinted(_ message: DatabaseMessage) -> Bool {
        switch message {
        case .request(let request): suspendForPreparation(request, isPrinted: true) != nil
        case .rest(let session, let call, let byteCount):
            suspendForPreparation(call, byteCount: byteCount, of: session, isPrinted: true) != nil
        default: false
        }
    }

    private func database(of prepared: PreparedRequest) -> Database? {
        switch prepared.message {
        case .request, .closed: sessions[prepared.session]?.database
        case .rest(_, let call, _): databases[call.namespace ?? NamespaceName.standard]
        default: nil
        }
    }

    private func run(_ message: DatabaseMessage) {
        switch message {
        case .request(let request): handle(request)
        case .rest(let session, let call, let byteCount): answer(call, byteCount: byteCount, to: session)
        case .closed(let session): end(session)
        default: break
        }
    }

    /// The location has changed while its hash was computed.
    private func refuseAsStale(_ prepared: PreparedRequest, _ database: Database) {
        switch prepared.message {
        case .request(let request):
            guard case .put(let target, _, _, let wantsCurrentValue) = request.takeAction() else { return }
            let reply = database.engine.staleResult(
                at: target, wantsCurrentValue: wantsCurrentValue, for: request.session,
                as: request.credential,
                at: clock.now())
            catchUp(request.session)
            encoder.encode(reply, request.number, to: request.session)
        case .rest(let session, let call, _):
            guard case .data(_, _, let credential) = call.action,
                database.engine.mayRead(prepared.target.path, nil, as: credential, at: clock.now())
            else { return encoder.answer(.refused(.permissionDenied), to: session) }
            encoder.answer(.stale(database.engine.root.value(at: prepared.target.fullPath)), to: session)
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
        case .put(_, let draft, _, _), .onDisconnectPut(_, let draft): [draft]
        case .merge(_, let entries), .onDisconnectMerge(_, let entries): entries.map(\.draft)
        default: []
        }
    }

    /// Those of its nodes that take long to free.
    var largeNodes: [Node] { drafts.largeNodes }
}

extension RESTBody {
    fileprivate var drafts: [Draft] {
        switch self {
        case .value(let draft): [draft]
        case .update(let updates): updates.map(\.draft)
        }
    }

    /// Those of its nodes that take long to free.
    var largeNodes: [Node] { drafts.largeNodes }
}

extension [Draft] {
    fileprivate var largeNodes: [Node] { compactMap { PrintedNodes.isLarge($0.node) ? $0.node : nil } }

    /// Large nodes that the log will hold as they are: where there are server values, it holds another one.
    fileprivate var nodesToPrint: [Node] { filter(\.placeholders.isEmpty).largeNodes }
}

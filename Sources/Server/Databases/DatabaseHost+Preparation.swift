import PandoBytes
import PandoEngine
import PandoREST
import PandoTree
import PandoWire

// Requests that must look at all of a large location first: a compare-and-set hashes it (wire-protocol §11.2, rest-api §7), a
// listen through a query orders its children. Over a million children that takes about a second: a worker does it on a
// snapshot, while other sessions go on, and the session of the request waits.
//
//     request ──▶ suspended ──▶ worker ──▶ prepared ──▶ hash: unchanged since ──▶ decided with the hash, which is kept
//                                               │             └─ changed since ──▶ stale, whichever value was expected
//                                               ├─▶ window: what has changed since is caught up with, then the listen begins
//                                               └─▶ abandoned, since its session has ended: it is not done

extension DatabaseHost {
    // MARK: Suspending

    /// Has made what a realtime request needs first.
    /// - Returns: The database of its session, which is to be suspended; nil where the request can be done at once.
    func suspendForPreparation(_ request: PostedRequest) -> RequestBacklog.DatabaseID? {
        guard surroundings.hasWorkers else { return nil }
        switch request.action {
        case .put(let target, let draft, let expectedHash?, _):
            guard let database = sessions[request.session]?.database,
                let node = database.engine.nodeToHash(at: target, comparedWith: expectedHash),
                // Who may not write causes no work, and learns nothing.
                database.engine.mayPut(Write(target, draft), as: request.credential, at: clock.last)
            else { return nil }
            prepare(node, nil, at: target, for: request.session, .request(request))
            return database.id
        case .listen(let listen):
            guard let query = listen.query, let database = sessions[request.session]?.database,
                let node = database.engine.locationOfWindow(of: query, at: listen.path),
                database.engine.mayListen(listen.path, query, as: request.credential, at: clock.last)
            else { return nil }
            prepare(node, query, at: Target(listen.path), for: request.session, .request(request))
            return database.id
        default: return nil
        }
    }

    /// The same for REST: `if-match` is such a hash, an event stream such a listen.
    func suspendForPreparation(
        _ call: RESTCall, byteCount: Int, of session: SessionID
    ) -> RequestBacklog.DatabaseID? {
        guard surroundings.hasWorkers, case .data(let request, let body, let credential) = call.action, case .data(let target) = request.location,
            request.expectedHash != nil || request.wantsStream,
            let database = databases[call.namespace ?? NamespaceName.standard],
            database.engine.mayRead(target.path, request.query, as: credential, at: clock.last)
        else { return nil }
        let message = DatabaseMessage.rest(session, call, byteCount: byteCount)
        if request.wantsStream {
            guard let query = request.query, !query.loadsAllData,
                let node = database.engine.locationOfWindow(of: query, at: target.path)
            else { return nil }
            prepare(node, query, at: target, for: session, message)
            return database.id
        }
        guard case .value(let draft)? = body, let expectedHash = request.expectedHash,
            let node = database.engine.nodeToHash(at: target, comparedWith: expectedHash),
            database.engine.mayPut(Write(target, draft), as: credential, at: clock.last)
        else { return nil }
        prepare(node, nil, at: target, for: session, message)
        return database.id
    }

    private func prepare(
        _ node: Node, _ query: Query?, at target: Target, for session: SessionID, _ message: DatabaseMessage
    ) {
        startPreparation(
            PreparationJob(session: session, node: node, query: query) { [post] preparation in
                post(.prepared(PreparedRequest(session, message, target, node: node, preparation)))
            })
    }

    // MARK: Going on

    /// Does the request that waited.
    /// - Returns: false when it has to wait once more.
    func finish(_ prepared: PreparedRequest) -> Bool {
        guard let database = database(of: prepared) else { return true }
        switch prepared.preparation {
        case .abandoned: break
        case .window(let window):
            guard database.engine.prepare(window, at: prepared.target.path, over: prepared.node) else {
                let node = database.engine.root[prepared.target.path]
                prepare(node, window.query, at: prepared.target, for: prepared.session, prepared.message)
                return false
            }
            run(prepared.message)
            database.engine.discardPreparedWindow()
        case .hash(let hash):
            if database.engine.note(hash, of: prepared.node, at: prepared.target) { run(prepared.message) } else {
                refuseAsStale(prepared, database)
            }
        }
        return true
    }

    private func database(of prepared: PreparedRequest) -> Database? {
        switch prepared.message {
        case .request: sessions[prepared.session]?.database
        case .rest(_, let call, _): databases[call.namespace ?? NamespaceName.standard]
        default: nil
        }
    }

    private func run(_ message: DatabaseMessage) {
        switch message {
        case .request(let request): handle(request)
        case .rest(let session, let call, let byteCount): answer(call, byteCount: byteCount, to: session)
        default: break
        }
    }

    /// The location has changed while its hash was computed.
    private func refuseAsStale(_ prepared: PreparedRequest, _ database: Database) {
        switch prepared.message {
        case .request(let request):
            guard case .put(let target, _, _, let wantsCurrentValue) = request.takeAction() else { return }
            let reply = database.engine.staleReply(
                at: target, wantsCurrentValue: wantsCurrentValue, for: request.session, as: request.credential,
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

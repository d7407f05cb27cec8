import PandoBytes
import PandoEngine
import PandoREST
import PandoTree
import PandoWire

// Compare-and-sets at large locations (wire-protocol §11.2, rest-api §7). To hash a million children takes over a second: it is
// done on a snapshot by a worker, while other sessions go on, and the session of the request waits.
//
//     request ──hash unknown──▶ suspended ──▶ worker ──▶ hashed ──▶ unchanged since: decided with the hash, which is kept
//                                                              └──▶ changed since: stale, whichever value was expected

extension DatabaseHost {
    /// Has the hash computed that a realtime compare-and-set needs first.
    /// - Returns: The database of its session, which is to be suspended; nil where the request can be done at once.
    func suspendForHash(_ request: PostedRequest) -> RequestBacklog.DatabaseID? {
        guard case .put(let target, let draft, let expectedHash?, _) = request.action,
            let database = sessions[request.session]?.database,
            let node = database.engine.nodeToHash(at: target, comparedWith: expectedHash),
            // Who may not write causes no work, and learns nothing.
            database.engine.mayPut(Write(target, draft), as: request.credential, at: clock.last)
        else { return nil }
        hash(node, at: target, for: request.session, .request(request))
        return database.id
    }

    /// The same for REST, whose `if-match` is such a hash.
    func suspendForHash(
        _ call: RESTCall, byteCount: Int, of session: SessionID
    ) -> RequestBacklog.DatabaseID? {
        guard case .data(let request, .value(let draft)?, let credential) = call.action,
            let expectedHash = request.expectedHash, case .data(let target) = request.location,
            let database = databases[call.namespace ?? NamespaceName.standard],
            let node = database.engine.nodeToHash(at: target, comparedWith: expectedHash),
            database.engine.mayRead(target.path, nil, as: credential, at: clock.last),
            database.engine.mayPut(Write(target, draft), as: credential, at: clock.last)
        else { return nil }
        hash(node, at: target, for: session, .rest(session, call, byteCount: byteCount))
        return database.id
    }

    private func hash(_ node: Node, at target: Target, for session: SessionID, _ message: DatabaseMessage) {
        hashNode(
            HashJob(session: session, node: node) { [post] hash in
                post(.hashed(HashedRequest(session, message, target, node: node, hash: hash)))
            })
    }

    /// Does the request that waited for this hash.
    func finish(_ hashed: HashedRequest) {
        let database: Database?
        switch hashed.message {
        case .request: database = sessions[hashed.session]?.database
        case .rest(_, let call, _): database = databases[call.namespace ?? NamespaceName.standard]
        default: return
        }
        guard let database else { return }
        let isCurrent = database.engine.note(hashed.hash, of: hashed.node, at: hashed.target)
        switch hashed.message {
        case .request(let request):
            if isCurrent { return handle(request) }
            guard case .put(let target, _, _, let wantsCurrentValue) = request.takeAction() else { return }
            let reply = database.engine.staleReply(
                at: target, wantsCurrentValue: wantsCurrentValue, for: request.session, as: request.credential,
                at: clock.now())
            encoder.encode(reply, request.number, to: request.session)
        case .rest(let session, let call, let byteCount):
            if isCurrent { return answer(call, byteCount: byteCount, to: session) }
            encoder.answer(.stale(database.engine.root.value(at: hashed.target.fullPath)), to: session)
        default: break
        }
    }
}

extension HashedRequest {
    /// Bytes of the request.
    var byteCount: Int {
        switch message {
        case .request(let request): request.byteCount
        case .rest(_, _, let byteCount): byteCount
        default: 0
        }
    }
}

import PandoEngine
import PandoREST
import PandoStorage
import PandoTree
import PandoWire

// What becomes of a request when what it has waited for is computed.

extension RequestPreparer {
    /// Bytes and paths of a write that is executed after ``attemptLimit`` attempts, whatever has changed.
    private static let directByteCount = 2 * largeWriteByteCount
    private static let directPathCount = 2 * Engine.largeMergeCount

    /// Executes a request with what was computed for it.
    /// - Parameters:
    ///   - endsAtOnce: Whether the end of a session is executed at once. Otherwise others are executed before
    ///     it, which change what it was prepared for.
    ///   - execute: Executes its message.
    /// - Returns: false where it is suspended once more.
    func finish(
        _ prepared: PreparedRequest, endsAtOnce: Bool, execute: (DatabaseMessage) -> Void
    ) -> Bool {
        if case .rules(let rules) = prepared.preparation {
            guard case .rest(let session, let call, let byteCount) = prepared.message else {
                preconditionFailure("only REST publishes rules")
            }
            execute(.rest(session, call.publishing(rules), byteCount: byteCount))
            return true
        }
        guard let database = database(of: prepared) else {
            // The session that it was to end has ended.
            if case .open = prepared.message { execute(prepared.message) }
            return true
        }
        processor.journal.printed = prepared.printed
        defer {
            processor.journal.printed = nil
            if processor.takeUndecided() != nil { refuseAsContested(prepared) }
        }
        switch prepared.message {
        case .closed, .open:
            guard !endsAtOnce else { break }
            execute(prepared.message)
            return true
        default: break
        }
        switch (prepared.preparation, prepared.work) {
        case (.window(let window, let index), .window(_, let node, _, _)):
            let path = prepared.target.path
            if let index { database.engine.tree.adopt(index, at: path, over: node, at: processor.clock.last) }
            guard
                database.engine.tree.prepare(window, at: path, over: node)
                    || prepared.stage.attempts >= Self.windowAttemptLimit
            else {
                let (now, query) = (
                    database.engine.root[path], database.engine.tree.indexed(window.query, at: path)
                )
                _ = prepareWindow(
                    query, now, at: prepared.target, for: prepared.session, prepared.message, in: database,
                    following: (window, node), prepared.stage.reaching(.decided))
                return false
            }
            execute(prepared.message)
            database.engine.tree.discardPreparedWindow()
        case (.hash(let hash), .hash(let node)):
            guard database.engine.tree.note(hash, of: node, at: prepared.target) else {
                refuseAsStale(prepared, database)
                return true
            }
            return executeUnlessSuspended(prepared, execute)
        case (.write(let write), .write): return finish(write, of: prepared, in: database, execute)
        case (.printed(let nodes), _):
            processor.journal.printed = nodes
            return executeUnlessSuspended(prepared, execute)
        case (.superseded, .hash): refuseAsStale(prepared, database)
        case (.abandoned, _): break
        case (.superseded, _), (.window, _), (.hash, _), (.write, _), (.rules, _), (.index, _):
            preconditionFailure("the result is not of the work that was asked for")
        }
        return true
    }

    /// Executes a write with the decision of its rules and its indexes, unless what they depend on has
    /// changed.
    private func finish(
        _ write: PreparedWrite, of prepared: PreparedRequest, in database: StoredDatabase,
        _ execute: (DatabaseMessage) -> Void
    ) -> Bool {
        if write.isDenied {
            database.engine.adoptDenial(write)
        } else if !database.engine.adopt(write) {
            if prepared.stage.attempts < Self.attemptLimit {
                if suspend(prepared.message, after: prepared.stage.again, following: write) { return false }
                execute(prepared.message)
            } else if prepared.byteCount <= Self.directByteCount, write.pathCount <= Self.directPathCount,
                !write.wasWeighed
            {
                execute(prepared.message)
            } else {
                refuseAsContested(prepared)
            }
            return true
        }
        if prepared.stage.step == .permitted, !write.isDenied {
            database.engine.discardPreparedWrite()
            return executeUnlessSuspended(prepared, execute)
        }
        if let printed = write.printed { processor.journal.printed = printed }
        execute(prepared.message)
        database.engine.discardPreparedWrite()
        return true
    }

    /// - Returns: false where the request needs another computation first.
    private func executeUnlessSuspended(
        _ prepared: PreparedRequest, _ execute: (DatabaseMessage) -> Void
    ) -> Bool {
        if suspend(prepared.message, after: prepared.stage) { return false }
        execute(prepared.message)
        return true
    }

    /// Starts the next computation that a request needs.
    private func suspend(
        _ message: DatabaseMessage, after stage: PreparationStage, following former: PreparedWrite? = nil
    ) -> Bool {
        switch message {
        case .request(let request): suspend(request, after: stage, following: former) != nil
        case .rest(let session, let call, let byteCount):
            suspend(call, byteCount: byteCount, of: session, after: stage, following: former) != nil
        case .closed(let session): suspend(endOf: session, before: message, of: session, after: stage) != nil
        case .open(let session, _):
            former?.endedSession.flatMap {
                suspend(endOf: $0, before: message, of: session, after: stage)
            } != nil
        default: false
        }
    }

    /// Others have changed what the write depends on, each time while it was prepared. Its data is freed with
    /// what was prepared.
    private func refuseAsContested(_ prepared: PreparedRequest) {
        switch prepared.message {
        case .request(let request):
            let reply = SessionReply.contested(request.number)
            processor.countFailure(reply)
            processor.reply(reply, to: request.session)
        case .rest(let session, _, _):
            processor.metrics.failures.add(.init(RESTError.contested))
            processor.encoder.respond(.refused(.contested), to: session)
        default: break
        }
    }

    private func database(of prepared: PreparedRequest) -> StoredDatabase? {
        switch prepared.message {
        case .request, .closed: processor.sessions[prepared.session]?.database
        case .open: prepared.endedSession.flatMap { processor.sessions[$0]?.database }
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
            processor.pinOutputs(at: write.target.path, in: database)
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
    /// The session whose end was prepared; nil where that was something else.
    fileprivate var endedSession: SessionID? {
        if case .write(let preparation) = work { preparation.endedSession } else { nil }
    }

    /// Bytes of the request.
    var byteCount: Int {
        switch message {
        case .request(let request): request.byteCount
        case .rest(_, _, let byteCount): byteCount
        default: 0
        }
    }
}

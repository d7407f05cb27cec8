import PandoBytes
import PandoEngine
import PandoREST
import PandoRules
import PandoStorage
import PandoTree

/// Processes REST requests: they use the same engines, and wait for the same journal, as realtime ones
/// (rest §9). Used by one thread at a time.
final class RESTHandler {
    private let processor: CommandProcessor
    private let administration: RESTAdministration

    init(_ processor: CommandProcessor, _ access: AccessManager) {
        self.processor = processor
        administration = RESTAdministration(processor, access)
    }

    /// Processes a request, and posts its result, or opens an event stream.
    /// - Parameter byteCount: Bytes of the request's body.
    func process(_ call: RESTCall, byteCount: Int, of session: SessionID) {
        do throws(RESTError) {
            guard
                let database = try orRefuse({ () throws(JournalRefusal) in
                    try processor.database(named: call.namespace)
                })
            else {
                throw .noSuchDatabase
            }
            let result = try answer(call, byteCount: byteCount, of: session, on: database)
            if let result { processor.encoder.respond(result, to: session) }
        } catch {
            processor.metrics.failures.add(.init(error))
            processor.encoder.respond(.refused(error), to: session)
        }
    }

    /// - Returns: Nil where the request was answered here, or events follow in place of a response.
    private func answer(
        _ call: RESTCall, byteCount: Int, of session: SessionID, on database: StoredDatabase
    ) throws(RESTError) -> RESTCallResult? {
        switch call.action {
        case .refuse(let error): throw error
        case .admit(let request, let credential):
            if case .locked = database.engine.access, !credential.isAdmin, request.method.isWrite {
                throw .permissionDenied
            }
            return .admitted
        case .data(let request, let body, let credential):
            processData(
                request, body, byteCount: byteCount, newKey: call.newKey, credential, database, session)
            if let pin = call.pin, case .data(let target) = request.location {
                processor.pin(pin, at: target.path, in: database)
            }
            return nil
        case .listChildren(let listing, let credential):
            processor.metrics.requests.add(.restRead)
            try checkRead(listing.path, nil, credential, database)
            return .deferred(.children(listing, database.engine.root))
        case .listDatabases(let credential):
            // With `--dev` every client can create databases, so it may have their names, as with the emulator.
            if !processor.options.createsNamespaces { try requireAdministrator(credential) }
            return administration.databases()
        case .rules(let request, let publication, let credential):
            try requireAdministrator(credential)
            return try administration.rules(request, publication, call.compiledRules, database)
        case .setting(let setting, let request, let value, let credential):
            try requireAdministrator(credential)
            if setting == .profile, request.wantsStream {
                watchOperations(on: database, session)
                return nil
            }
            return try administration.setting(setting, request, value, database)
        case .listDenials(let credential):
            try requireAdministrator(credential)
            return administration.denials(database)
        case .backup(let credential):
            try requireAdministrator(credential)
            return administration.backup()
        case .history(let parameters, let credential):
            try requireAdministrator(credential)
            return administration.history(parameters, database)
        case .evaluate(let request, let credential):
            try requireAdministrator(credential)
            return administration.evaluation(request, database)
        }
    }

    /// Refuses a credential that is no administrator's.
    private func requireAdministrator(_ credential: Credential) throws(RESTError) {
        guard credential.isAdmin else { throw .unauthorized }
    }

    /// Processes a request for data, counts it, and measures it where the database is profiled.
    private func processData(
        _ request: RESTRequest, _ body: RESTBody?, byteCount: Int, newKey: Key?, _ credential: Credential,
        _ database: StoredDatabase, _ session: SessionID
    ) {
        defer { if !processor.isUndecided { processor.metrics.requests.add(request.metric) } }
        let began = processor.profiler.startTime
        var (result, failure): (RESTCallResult?, RESTError?) = (nil, nil)
        do throws(RESTError) {
            result = try handle(
                request, body, byteCount: byteCount, newKey: newKey, credential, database, session)
            if let result { processor.encoder.respond(result, to: session) }
        } catch {
            if processor.isUndecided { return }
            failure = error
            processor.metrics.failures.add(.init(error))
            processor.encoder.respond(.refused(error), to: session)
        }
        guard began != nil,
            let record = ProfileRecord(
                request, result, failure, byteCount: byteCount, by: credential, of: database)
        else { return }
        processor.profile(record, on: database, began: began)
    }

    /// - Returns: Nil where events follow in place of a response.
    private func handle(
        _ request: RESTRequest, _ body: RESTBody?, byteCount: Int, newKey: Key?, _ credential: Credential,
        _ database: StoredDatabase, _ session: SessionID
    ) throws(RESTError) -> RESTCallResult? {
        guard case .data(let target) = request.location else { throw .internalError }
        if request.method.isRead {
            try checkRead(request, target, credential, database)
            guard request.wantsStream else { return try read(request, target, database) }
            stream(request, target.path, credential, database, session)
            return nil
        }
        guard let body else { throw .internalError }
        let limit = database.replacedByteLimit(of: request, byteCount: byteCount)
        guard limit ?? 0 >= 0 else { throw .writeTooLarge }
        return try write(
            request, body, newKey: newKey, replacingAtMost: limit, target, credential, database, session)
    }

    /// Sends the session every operation on the database from now on.
    private func watchOperations(on database: StoredDatabase, _ session: SessionID) {
        processor.sessions.add(HostedSession(database: database, publicID: nil), as: session)
        processor.profiler.addWatcher(session, of: database.id)
        processor.encoder.respond(.stream, to: session)
    }

    // MARK: Reading

    /// Checks that the data may be read, and that a query has its index. O(depth): the loop finds out later
    /// whether it is too much.
    private func checkRead(
        _ request: RESTRequest, _ target: Target, _ credential: Credential, _ database: StoredDatabase
    ) throws(RESTError) {
        try checkRead(target.path, request.query, credential, database)
        // Not even an administrator may query without an index (rest §5.1).
        if request.isFiltered, let query = request.query, request.indexName != nil,
            !database.engine.access.hasIndex(query.order, at: target.path)
        {
            throw request.missingIndex(at: target.path)
        }
    }

    private func checkRead(
        _ path: Path, _ query: Query?, _ credential: Credential, _ database: StoredDatabase
    ) throws(RESTError) {
        let time = processor.clock.now()
        if !credential.isAdmin, !database.hasNoRules { processor.metrics.evaluations.add() }
        guard !database.engine.mayRead(path, query, as: credential, at: time) else { return }
        processor.metrics.denials.add()
        let get = Operation.get(path, query)
        processor.denials.note(
            Command(session: SessionID(0), credential: credential, time: time, operation: get), in: database)
        throw .permissionDenied
    }

    private func read(
        _ request: RESTRequest, _ target: Target, _ database: StoredDatabase
    ) throws(RESTError) -> RESTCallResult {
        let node = database.engine.root.value(at: target.fullPath)
        guard request.isFiltered, var query = request.query, !query.loadsAllData else { return .read(node) }
        if let page = request.page { query = try page.query(of: query, at: target.path) }
        let indexed = database.engine.tree.indexed(query, at: target.path)
        processor.noteUse(of: query, at: target.path, in: database)
        let inlineCount =
            indexed.index == nil ? LiveTree.inlineQueryChildCount : LiveTree.inlineWindowChildCount
        if indexed.visits(moreThan: inlineCount, of: node) {
            return .filtered(
                node, processor.noting(indexed, request.metric, at: target.path, in: database))
        }
        guard query.aggregates.isEmpty else { return .read(indexed.result(over: node)) }
        let window = Window(indexed, over: node)
        return request.page == nil ? .read(window.node) : .page(window.node, end: window.endOfPage)
    }

    /// Opens an event stream: a listen whose pushes are sent as events (rest §8).
    private func stream(
        _ request: RESTRequest, _ path: Path, _ credential: Credential, _ database: StoredDatabase,
        _ session: SessionID
    ) {
        let filter = request.query.flatMap { $0.loadsAllData ? nil : $0 }
        processor.sessions.add(
            HostedSession(database: database, publicID: nil, credential: credential), as: session)
        processor.encoder.respond(.stream, to: session)
        processor.encoder.streams[session] = OutputEncoder.StreamRoot(
            path: path, query: request.query, isQuery: filter != nil)
        processor.metrics.sessions.set(processor.sessions.count)
        processor.metrics.streams.set(processor.encoder.streams.count)
        let listen = Listen(path: path, query: filter, tag: filter == nil ? nil : 1)
        // Authorised above, with the query as it was given, so the rules are not evaluated again. Nothing is
        // in the journal, so nothing is refused.
        _ = try? processor.perform(.listen(listen), session, .admin, in: database)
        processor.publishHeldBytes(of: session)
    }

    // MARK: Writing

    /// - Parameter newKey: That of the child which a POST makes, where it was chosen before.
    private func write(
        _ request: RESTRequest, _ body: RESTBody, newKey: Key?, replacingAtMost byteLimit: Int?,
        _ target: Target, _ credential: Credential, _ database: StoredDatabase, _ session: SessionID
    ) throws(RESTError) -> RESTCallResult {
        switch body {
        case .value(let draft) where request.method == .post:
            let key = newKey ?? processor.nextPushID()
            let path = target.path.appending(key)
            let put = Operation.put(Write(Target(path), draft))
            if let failure = try failure(of: put, session, credential, database) { return failure }
            return .pushed(
                key, mayShow(draft, at: Target(path), credential, database) ? database.engine.root[path] : nil
            )
        case .value(let draft):
            // A refused compare-and-set returns the value, so it takes the right to read (rest §7).
            if request.expectedHash != nil { try checkRead(target.path, nil, credential, database) }
            let write = Write(target, draft)
            let operation: PandoEngine.Operation =
                if let hash = request.expectedHash {
                    .transaction(write, expectedHash: hash, wantsCurrentValue: true)
                } else { .put(write) }
            if let failure = try failure(
                of: operation, session, credential, database, replacing: [target.fullPath], atMost: byteLimit)
            {
                return failure
            }
            return mayShow(draft, at: target, credential, database)
                ? .written(database.engine.root.value(at: target.fullPath))
                : .writtenUnread(database.engine.preparedWrite?.sentValue ?? draft.unresolved)
        case .update(let update):
            let merge = Operation.merge(base: target.path, update.writes)
            if let failure = try failure(
                of: merge, session, credential, database,
                replacing: update.writes.lazy.map(\.target.fullPath),
                atMost: byteLimit)
            {
                return failure
            }
            return .updated(
                request.form.print == .silent
                    ? nil : shownValues(of: update.writes, below: target.path, credential, database))
        }
    }

    // MARK: The data in the response to a write

    /// Whether the response to a write may show what is stored now. Resolved server values are data like any
    /// other, and a client that may write is perhaps not allowed to read (rest §2.1). Without server values
    /// the data is what the client sent, and no rule is evaluated.
    private func mayShow(
        _ draft: Draft, at target: Target, _ credential: Credential, _ database: StoredDatabase
    )
        -> Bool
    {
        draft.placeholders.isEmpty
            || database.engine.mayRead(target.path, nil, as: credential, at: processor.clock.last)
    }

    /// Locations of one PATCH whose rules are evaluated one by one where its base may not be read. The values
    /// of further ones are returned as they were sent.
    private static let askedLocationLimit = 32

    /// What a PATCH has written, one value for each of its writes: as it is stored where that may be read,
    /// otherwise as it was sent. Nil where all of it is stored as it was sent. All rules together take no
    /// more steps than those of one read: where that is not enough, values are returned as they were sent.
    private func shownValues(
        of writes: [Write], below base: Path, _ credential: Credential, _ database: StoredDatabase
    ) -> [Node]? {
        // A priority for a node that does not exist is accepted and ignored: the stored value would show
        // whether the node exists.
        let isSecret = { (write: Write) in !write.draft.placeholders.isEmpty || write.target.isPriority }
        guard writes.contains(where: isSecret) else { return nil }
        let root = database.engine.root
        let time = processor.clock.last
        var stepsLeft = database.engine.readStepCount
        guard !database.engine.mayRead(base, nil, as: credential, at: time, spending: &stepsLeft) else {
            return writes.map { root.value(at: $0.target.fullPath) }
        }
        var askedCount = 0
        return writes.map { write in
            guard isSecret(write) else { return write.draft.node }
            askedCount += 1
            guard askedCount <= Self.askedLocationLimit, stepsLeft > 0,
                database.engine.mayRead(
                    write.target.path, nil, as: credential, at: time, spending: &stepsLeft)
            else { return write.draft.unresolved }
            return root.value(at: write.target.fullPath)
        }
    }

    /// Performs a write.
    /// - Returns: Why it was not done; nil where it was.
    private func failure(
        of write: Operation, _ session: SessionID, _ credential: Credential, _ database: StoredDatabase,
        replacing paths: some Sequence<Path> = [], atMost byteLimit: Int? = nil
    ) throws(RESTError) -> RESTCallResult? {
        let result = try orRefuse { () throws(JournalRefusal) in
            try processor.perform(
                write, session, credential, in: database, replacing: paths, atMost: byteLimit)
        }
        switch result {
        case .ok, .listening, .data, .filtered: return nil
        case .permissionDenied: throw .permissionDenied
        case .failed(let reason): return .failed("\(reason)")
        case .limitExceeded(let limit): return .failed("\(limit.text)")
        case .dataStale(let current?): return .stale(current.node)
        case .dataStale(nil): throw .permissionDenied
        case nil: throw .internalError
        }
    }
}

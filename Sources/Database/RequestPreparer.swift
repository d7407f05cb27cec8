import PandoBytes
import PandoEngine
import PandoREST
import PandoRules
import PandoStorage
import PandoTree
import PandoWire

/// Has long computations of requests done by worker threads, on snapshots, while other sessions go on: a
/// compare-and-set hashes its location (realtime §11.2, rest §7), a listen through a query orders the
/// children there, a write prints its data for the journal, and has its rules evaluated and its data ordered;
/// published rules are compiled. That takes up to a second.
///
///     request ──▶ suspended ──▶ worker ──▶ prepared ──▶ hash: the location is unchanged ──▶ decided with the hash
///                                               │             └─ it has changed ──▶ stale, whichever value was expected
///                                               ├─▶ query window: caught up with what has changed, then the listen begins
///                                               ├─▶ printed: executed, or suspended once more
///                                               ├─▶ rules: published, or refused
///                                               ├─▶ write: what rules have read is unchanged: executed
///                                               │     └─ it has changed: suspended once more, and at last refused
///                                               └─▶ cancelled, since its session has ended: not executed
///
/// The session of a suspended request waits; its later requests stay behind it. Used by one thread at a time.
final class RequestPreparer {
    let processor: CommandProcessor
    /// Has a worker do a job.
    private let start: @Sendable (PreparationJob) -> Void
    /// Has the workers drop the jobs of a session that has ended.
    private let cancel: @Sendable (SessionID) -> Void
    /// Posts a message to the databases.
    private let post: @Sendable (DatabaseMessage) -> Void

    /// Bytes of a request from which on its rules are evaluated elsewhere: fewer bring a few thousand nodes,
    /// which takes a millisecond or two. Messages above it are parsed elsewhere, too.
    static let largeWriteByteCount = 64 << 10
    /// How often a write is prepared. Others that write to the same locations all the time must not keep it
    /// waiting for ever: then it is executed whatever has changed, where that takes a few milliseconds, and
    /// else refused.
    static let attemptLimit = 16
    /// The same of a query window, each attempt of which only follows what has changed since the one before:
    /// then it is made at once.
    static let windowAttemptLimit = 16

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
    /// - Parameters:
    ///   - stage: What was done for it before.
    ///   - former: What was prepared for it over an earlier snapshot.
    /// - Returns: The database of its session, which is to be suspended; nil where the request can be
    ///   executed at once.
    func suspend(
        _ request: PostedRequest, after stage: PreparationStage = PreparationStage(),
        following former: PreparedWrite? = nil
    ) -> RequestBacklog.DatabaseID? {
        guard processor.environment.hasWorkers,
            let database = processor.sessions[request.session]?.database
        else { return nil }
        let (session, message) = (request.session, DatabaseMessage.request(request))
        if stage.step < .printed, request.byteCount > CommandProcessor.smallByteCount,
            processor.journal.isEnabled
        {
            let least = PrintedNodes.leastByteCount(ofRequestWith: request.byteCount)
            let nodes = (request.action.writes ?? []).nodesToPrint(heavierThan: least)
            if !nodes.isEmpty {
                return prepare(
                    .print(nodes, heavierThan: least), for: session, message, in: database,
                    stage.reaching(.printed))
            }
        }
        let isLarge =
            request.byteCount > Self.largeWriteByteCount || request.action.entryCount > Engine.largeMergeCount
            || stage.isUndecided
        switch request.action {
        case .transaction(let write, let expectedHash, _) where stage.step < .hashed:
            guard let node = database.engine.tree.nodeToHash(at: write.target, comparedWith: expectedHash)
            else {
                break
            }
            // A client that may not write causes no work, and learns nothing.
            if isLarge {
                guard stage.step < .permitted else {
                    return prepare(
                        .hash(node), at: write.target, for: session, message, in: database,
                        stage.reaching(.hashed))
                }
                let permission = suspend(
                    [write], as: request.credential, session, message, in: database,
                    stage.reaching(.permitted))
                if let permission { return permission }
            }
            guard database.engine.mayPut(write, as: request.credential, at: processor.clock.last) else {
                return database.engine.takeExhaustion()
                    ? suspend(request, after: stage.undecided, following: former) : nil
            }
            return prepare(
                .hash(node), at: write.target, for: session, message, in: database, stage.reaching(.hashed))
        case .listen(let listen, _):
            guard let query = listen.query,
                let (indexed, node) = database.engine.tree.locationOfWindow(of: query, at: listen.path),
                database.engine.mayListen(
                    listen.path, query, as: request.credential, at: processor.clock.last)
            else { return nil }
            return prepareWindow(indexed, node, at: Target(listen.path), for: session, message, in: database)
        default: break
        }
        guard isLarge, stage.step < .decided, let writes = request.action.writes else { return nil }
        return suspend(
            writes, mergeBase: request.action.mergeBase, as: request.credential, session, message,
            in: database, stage.reaching(.decided), following: former)
    }

    /// The same for REST: `if-match` is such a hash, an event stream such a listen.
    func suspend(
        _ call: RESTCall, byteCount: Int, of session: SessionID,
        after stage: PreparationStage = PreparationStage(), following former: PreparedWrite? = nil
    ) -> RequestBacklog.DatabaseID? {
        if case .rules = call.action {
            return suspendPublication(call, byteCount: byteCount, of: session, after: stage)
        }
        guard processor.environment.hasWorkers,
            case .data(let request, let body, let credential) = call.action,
            case .data(let target) = request.location,
            let database = processor.databases[call.namespace]
        else { return nil }
        let message = DatabaseMessage.rest(session, call, byteCount: byteCount)
        if stage.step < .printed, byteCount > CommandProcessor.smallByteCount, processor.journal.isEnabled,
            let body
        {
            let least = PrintedNodes.leastByteCount(ofRequestWith: byteCount)
            let nodes = body.writes(at: target).nodesToPrint(heavierThan: least)
            if !nodes.isEmpty {
                return prepare(
                    .print(nodes, heavierThan: least), for: session, message, in: database,
                    stage.reaching(.printed))
            }
        }
        if request.wantsStream {
            guard let query = request.query, !query.loadsAllData,
                let (indexed, node) = database.engine.tree.locationOfWindow(of: query, at: target.path),
                database.engine.mayRead(target.path, query, as: credential, at: processor.clock.last)
            else { return nil }
            return prepareWindow(indexed, node, at: target, for: session, message, in: database)
        }
        guard let body else { return nil }
        let isLarge =
            byteCount > Self.largeWriteByteCount || body.entryCount > Engine.largeMergeCount
            || stage.isUndecided
        if stage.step < .hashed, case .value(let draft) = body, let expectedHash = request.expectedHash,
            let node = database.engine.tree.nodeToHash(at: target, comparedWith: expectedHash)
        {
            guard
                database.engine.mayRead(target.path, request.query, as: credential, at: processor.clock.last)
            else { return nil }
            if isLarge, stage.step < .permitted {
                let permission = suspend(
                    [Write(target, draft)], as: credential, session, message, in: database,
                    stage.reaching(.permitted))
                if let permission { return permission }
            }
            guard
                stage.step == .permitted
                    || database.engine.mayPut(Write(target, draft), as: credential, at: processor.clock.last)
            else {
                return database.engine.takeExhaustion()
                    ? suspend(
                        call, byteCount: byteCount, of: session, after: stage.undecided, following: former)
                    : nil
            }
            return prepare(
                .hash(node), at: target, for: session, message, in: database, stage.reaching(.hashed))
        }
        guard stage.step < .decided else { return nil }
        if request.method == .post {
            guard isLarge, case .value(let draft) = body else { return nil }
            let call = call.newKey == nil ? call.choosing(processor.nextPushID()) : call
            guard let key = call.newKey else { return nil }
            return suspend(
                [Write(Target(target.path.appending(key)), draft)], as: credential, session,
                .rest(session, call, byteCount: byteCount), in: database, stage.reaching(.decided),
                following: former)
        }
        let limit = database.replacedByteLimit(of: request, byteCount: byteCount)
        let isWeighed = limit.map { replacesMuch(body, at: target, in: database, atMost: $0) } ?? false
        guard isLarge || isWeighed else { return nil }
        let mergeBase: Path? = if case .update = body { target.path } else { nil }
        return suspend(
            body.writes(at: target), replacing: isWeighed ? limit : nil, mergeBase: mergeBase, as: credential,
            session, message, in: database, stage.reaching(.decided), following: former)
    }

    /// Has the source of new rules compiled, also for a dry run. An administrator publishes them; under
    /// `--dev` anybody may be one.
    private func suspendPublication(
        _ call: RESTCall, byteCount: Int, of session: SessionID, after stage: PreparationStage
    ) -> RequestBacklog.DatabaseID? {
        guard processor.environment.hasWorkers, stage.step < .decided,
            case .rules(let request, let publication, let credential) = call.action, request.method == .put,
            credential.isAdmin,
            // Created where that is done on first use: otherwise it is refused before anything is compiled.
            let database = try? processor.database(named: call.namespace)
        else { return nil }
        return prepare(
            .rules(publication.source), for: session, .rest(session, call, byteCount: byteCount),
            in: database, stage.reaching(.decided))
    }

    /// The same for the end of a session: its onDisconnect writes are decided, where they are many, and
    /// printed.
    /// - Parameters:
    ///   - message: What ends it.
    ///   - waiting: The session that is suspended: the same, or another one that takes its place.
    func suspend(
        endOf session: SessionID, before message: DatabaseMessage, of waiting: SessionID,
        after stage: PreparationStage = PreparationStage()
    ) -> RequestBacklog.DatabaseID? {
        guard processor.environment.hasWorkers, let hosted = processor.sessions[session] else { return nil }
        let database = hosted.database
        let (count, byteCount) = database.engine.queueSize(of: session)
        // Of many, the whole record is printed when they are decided.
        if stage.step < .printed, waiting == session, processor.journal.isEnabled,
            byteCount > CommandProcessor.smallByteCount, count <= Engine.queueCountAtOnce
        {
            let least = PrintedNodes.leastByteCount(ofRequestWith: byteCount)
            let nodes = database.engine.queuedNodes(of: session).filter { $0.isHeavier(than: least) }
            if !nodes.isEmpty {
                return prepare(
                    .print(nodes, heavierThan: least), for: waiting, message, in: database,
                    stage.reaching(.printed))
            }
        }
        guard stage.step < .decided,
            let preparation = database.engine.preparation(forEndOf: session, at: processor.clock.last)
        else { return nil }
        return prepare(.write(preparation), for: waiting, message, in: database, stage.reaching(.decided))
    }

    /// Replaced data with more bytes is weighed elsewhere.
    private static let weighedByteCount = 256 << 10

    /// Whether a REST write replaces so much that it takes long to weigh it. Bounded, whatever it replaces.
    private func replacesMuch(
        _ body: RESTBody, at target: Target, in database: StoredDatabase, atMost byteLimit: Int
    ) -> Bool {
        var left = Self.weighedByteCount
        guard byteLimit > left else { return false }
        switch body {
        case .value: return database.engine.root.value(at: target.fullPath).weigh(&left)
        case .update(let update):
            return update.writes.count > Engine.largeMergeCount
                || update.writes.contains { database.engine.root.value(at: $0.target.fullPath).weigh(&left) }
        }
    }

    /// Has rules evaluated and data ordered for a large write, and a merge of many paths done, if that is
    /// needed.
    private func suspend(
        _ writes: [Write], replacing replacedByteLimit: Int? = nil, mergeBase: Path? = nil,
        as credential: Credential, _ session: SessionID, _ message: DatabaseMessage,
        in database: StoredDatabase, _ stage: PreparationStage, following former: PreparedWrite? = nil
    ) -> RequestBacklog.DatabaseID? {
        guard
            let preparation = database.engine.preparation(
                for: writes, replacing: replacedByteLimit, mergeBase: mergeBase, as: credential,
                at: processor.clock.last, following: former)
        else { return nil }
        return prepare(.write(preparation), for: session, message, in: database, stage)
    }

    /// - Parameters:
    ///   - former: The query window over an earlier snapshot. Only what has changed since is to be done, so
    ///     the next one is there sooner, and less changes meanwhile.
    func prepareWindow(
        _ query: IndexedQuery, _ node: Node, at target: Target, for session: SessionID,
        _ message: DatabaseMessage, in database: StoredDatabase,
        following former: (window: Window, node: Node)? = nil, _ stage: PreparationStage = PreparationStage()
    ) -> RequestBacklog.DatabaseID {
        let makesIndex =
            former == nil && database.engine.tree.mayKeepIndex(query.query.order, at: target.path)
        let kind = processor.subject(of: message)?.kind ?? .listen
        let noting = processor.noting(query, kind, at: target.path, in: database)
        return prepare(
            .window(noting, node, makesIndex: makesIndex, former: former), at: target, for: session, message,
            in: database, stage)
    }

    @discardableResult
    private func prepare(
        _ work: PreparationJob.Work, at target: Target = Target(.root), for session: SessionID,
        _ message: DatabaseMessage, in database: StoredDatabase, _ stage: PreparationStage
    ) -> RequestBacklog.DatabaseID {
        let printed = processor.journal.printed
        let location: HashedLocation? =
            if case .hash = work {
                HashedLocation(database: database.id, path: target.fullPath)
            } else {
                nil
            }
        var evaluatesLongRules = stage.isUndecided
        // Thousands of queued writes, under the rules of those who queued them.
        if case .write(let preparation) = work, preparation.endedSession != nil { evaluatesLongRules = true }
        start(
            PreparationJob(
                session: session, work: work, location: location, evaluatesLongRules: evaluatesLongRules
            ) { [post] preparation in
                post(
                    .prepared(
                        PreparedRequest(
                            session, message, target, work, preparation, printed: printed, stage: stage)))
            })
        return database.id
    }
}

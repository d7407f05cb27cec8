import PandoBytes
import PandoEngine
import PandoREST
import PandoRules
import PandoStorage
import PandoTree
import PandoWire

/// Has long computations of requests done by worker threads, on snapshots, while other sessions go on: a
/// compare-and-set hashes its location (realtime §11.2, rest §7), a listen through a query orders the
/// children there, a write prints its data for the journal, and has its rules evaluated and its data ordered.
/// Over a million children that takes up to a second.
///
///     request ──▶ suspended ──▶ worker ──▶ prepared ──▶ hash: the location is unchanged ──▶ decided with the hash
///                                               │             └─ it has changed ──▶ stale, whichever value was expected
///                                               ├─▶ query window: caught up with what has changed, then the listen begins
///                                               ├─▶ printed: executed, or suspended once more
///                                               ├─▶ write: what rules have read is unchanged: executed
///                                               │     └─ it has changed: suspended once more, and at last refused
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

    /// Bytes of a request from which on its rules are evaluated elsewhere: fewer bring a few thousand nodes,
    /// which takes a millisecond or two. Messages above it are parsed elsewhere, too.
    static let largeWriteByteCount = 64 << 10
    /// How often a write is prepared. Others that write to the same locations all the time must not keep it
    /// waiting for ever: then it is executed whatever has changed, where that takes a few milliseconds, and
    /// else refused.
    static let attemptLimit = 16
    /// Bytes and paths of a write that is executed then.
    private static let directByteCount = 2 * largeWriteByteCount
    private static let directPathCount = 2 * Engine.largeMergeCount
    /// The same of a query window, each attempt of which only follows what has changed since the one before:
    /// then it is made at once.
    private static let windowAttemptLimit = 16

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
            let nodes = (request.action.writes ?? []).nodesToPrint
            if !nodes.isEmpty {
                return prepare(.print(nodes), for: session, message, in: database, stage.reaching(.printed))
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
        guard processor.environment.hasWorkers,
            case .data(let request, let body, let credential) = call.action,
            case .data(let target) = request.location,
            let database = processor.databases[call.namespace]
        else { return nil }
        let message = DatabaseMessage.rest(session, call, byteCount: byteCount)
        if stage.step < .printed, byteCount > CommandProcessor.smallByteCount, processor.journal.isEnabled,
            let body
        {
            let nodes = body.writes(at: target).nodesToPrint
            if !nodes.isEmpty {
                return prepare(.print(nodes), for: session, message, in: database, stage.reaching(.printed))
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
            let nodes = database.engine.queuedNodes(of: session).filter(PrintedNodes.isLarge)
            if !nodes.isEmpty {
                return prepare(.print(nodes), for: waiting, message, in: database, stage.reaching(.printed))
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
    private func prepareWindow(
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
        start(
            PreparationJob(session: session, work: work) { [post] preparation in
                post(
                    .prepared(
                        PreparedRequest(
                            session, message, target, work, preparation, printed: printed, stage: stage)))
            })
        return database.id
    }

    // MARK: Going on

    /// Executes a request with what was computed for it.
    /// - Parameters:
    ///   - endsAtOnce: Whether the end of a session is executed at once. Otherwise others are executed before
    ///     it, which change what it was prepared for.
    ///   - execute: Executes its message.
    /// - Returns: false where it is suspended once more.
    func finish(
        _ prepared: PreparedRequest, endsAtOnce: Bool, execute: (DatabaseMessage) -> Void
    ) -> Bool {
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
        case (.abandoned, _): break
        case (.window, _), (.hash, _), (.write, _), (.index, _):
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
        if let record = write.printedRecord { processor.journal.printed = record }
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
            processor.catchUp(request.session)
            processor.encoder.reply(reply, to: request.session)
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

/// What was computed for a request. Each step needs those before.
struct PreparationStage {
    enum Step: Int, Comparable {
        case arrived
        /// Its data is printed.
        case printed
        /// A large compare-and-set is permitted; so its location is hashed.
        case permitted
        /// The hash of its location is known.
        case hashed
        /// Its rules are evaluated and its data ordered.
        case decided

        static func < (left: Step, right: Step) -> Bool { left.rawValue < right.rawValue }
    }

    private(set) var step = Step.arrived
    /// How often its rules were evaluated.
    private(set) var attempts = 0
    /// Its rules took longer than there is time at once.
    private(set) var isUndecided = false

    /// Of a write whose rules take longer than there is time at once.
    static let undecided = PreparationStage(step: .printed, isUndecided: true)

    /// The same stage of such a write.
    var undecided: PreparationStage {
        PreparationStage(step: step, attempts: attempts, isUndecided: true)
    }

    /// The stage when the next step is done.
    func reaching(_ step: Step) -> PreparationStage {
        PreparationStage(
            step: step, attempts: attempts + (step == .decided || step == .permitted ? 1 : 0),
            isUndecided: isUndecided)
    }

    /// What it depends on has changed: only what was printed still holds.
    var again: PreparationStage {
        PreparationStage(step: .printed, attempts: attempts, isUndecided: isUndecided)
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

extension Action {
    /// The nodes of its data that take long to free.
    var largeNodes: [Node] { writes?.largeNodes ?? [] }

    /// Paths of a merge; 0 for any other request.
    fileprivate var entryCount: Int {
        switch self {
        case .merge(_, let entries), .onDisconnectMerge(_, let entries): entries.count
        default: 0
        }
    }

    /// The base of a merge; nil for any other request.
    fileprivate var mergeBase: Path? { if case .merge(let base, _) = self { base } else { nil } }

    /// What it writes, now or at the end of its session; nil for any other request.
    fileprivate var writes: [Write]? {
        switch self {
        case .put(let write), .transaction(let write, _, _), .onDisconnectPut(let write): [write]
        case .merge(_, let entries), .onDisconnectMerge(_, let entries): entries
        default: nil
        }
    }
}

extension RESTBody {
    /// Paths of an update; 0 for a value.
    fileprivate var entryCount: Int { if case .update(let update) = self { update.writes.count } else { 0 } }

    /// What it writes.
    fileprivate func writes(at target: Target) -> [Write] {
        switch self {
        case .value(let draft): [Write(target, draft)]
        case .update(let update): update.writes
        }
    }

    /// The nodes of its data that take long to free.
    var largeNodes: [Node] { writes(at: Target(.root)).largeNodes }
}

extension [Write] {
    /// None of a merge of many paths: it is freed with what was prepared.
    fileprivate var largeNodes: [Node] { large { _ in true } }

    /// Large nodes that the journal holds as they are: where there are server values, it holds another node.
    /// None of a merge of many paths: it is printed as a whole when it is prepared.
    fileprivate var nodesToPrint: [Node] { large(where: \.placeholders.isEmpty) }

    private func large(where isChosen: (Draft) -> Bool) -> [Node] {
        guard count <= Engine.largeMergeCount else { return [] }
        return compactMap {
            isChosen($0.draft) && PrintedNodes.isLarge($0.draft.node) ? $0.draft.node : nil
        }
    }
}

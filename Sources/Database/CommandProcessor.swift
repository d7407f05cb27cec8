import Logging
import PandoBytes
import PandoEngine
import PandoJournal
import PandoREST
import PandoReactor
import PandoRules
import PandoStorage
import PandoTime
import PandoTree
import PandoWire

/// Executes commands on databases: decides them, appends what they change to the journal, commits them, and
/// encodes what they cause. It holds what all commands share: the databases, the sessions, the journal, and
/// the outputs.
///
///     request ──▶ Engine.decide ──▶ JournalAppender ──▶ Engine.commit ──▶ pushes, then the reply ──▶ OutputEncoder
///                                       └─ no space: refused, and nothing is changed
///
/// Used by one thread at a time, as ``DatabaseHost`` is.
final class CommandProcessor {
    let options: DatabaseOptions
    let metrics: DatabaseMetrics
    let environment: Environment
    /// Stamps commands, so that the order of times is the order of commits.
    let clock: WallClock
    var databases: DatabaseTable
    var sessions = SessionRegistry()
    var journal: JournalAppender
    var encoder: OutputEncoder
    /// What was not sent to sessions that lag.
    var coalescer = PushCoalescer()
    var denials: DenialLog
    var profiler = Profiler()
    /// Which path patterns cost most.
    var usage: UsageTable
    var usageSampler = UsageSampler()
    let indexes: IndexBuilder
    private var creator: DatabaseCreator
    private var pushIDs = PushIDGenerator()
    /// Has another thread free what takes long to free.
    var releases: ReleaseQueue
    /// The large reads whose outputs wait.
    private var pins = SnapshotPins()
    /// A write that was not done, because its rules take longer than there is time at once; nil for none.
    private var undecided: Operation? { didSet { isUndecided = undecided != nil } }
    /// Whether the last request was not executed because its rules take longer than there is time at once.
    private(set) var isUndecided = false

    /// Bytes that the onDisconnect writes of one session may take in the journal.
    static let queuedByteLimit = 16 << 20
    /// Bytes of a request up to which none of its data is large: it prints in about as many, or some times as
    /// many (the names of an array's elements are not sent).
    static let smallByteCount = 8 << 10

    init(
        _ options: DatabaseOptions, recovered: RecoveredState, journal: JournalQueue?, queueCount: Int,
        _ services: DatabaseServices
    ) {
        self.options = options
        metrics = services.metrics
        environment = services.environment
        releases = ReleaseQueue(services.preparation.release)
        indexes = IndexBuilder(
            services.preparation, hasWorkers: environment.hasWorkers, byteLimit: options.indexByteLimit,
            post: services.post)
        clock = WallClock(notBefore: recovered.lastTime, in: environment)
        databases = DatabaseTable(recovered)
        self.journal = JournalAppender(
            journal, sessionEndReserveByteCount: options.sessionEndReserveByteCount, environment: environment)
        encoder = OutputEncoder(queueCount: queueCount)
        creator = DatabaseCreator(options, services.logger)
        denials = DenialLog(services.logger)
        usage = UsageTable(at: environment.monotonicTime)
    }

    // MARK: Realtime requests

    /// Processes a request of a realtime session (realtime §4).
    func process(_ request: PostedRequest) {
        let (session, number) = (request.session, request.number)
        var queryText: (tag: Int64, text: Text?)?
        var changesHeldBytes = false
        switch request.action {
        case .listen(let listen, let text):
            queryText = listen.tag.map { ($0, text) }
            changesHeldBytes = true
        case .unlisten(_, _, let tag):
            if let tag { sessions[session]?.queryTexts.set(nil, of: tag) }
            changesHeldBytes = true
        case .onDisconnectPut, .onDisconnectMerge, .onDisconnectCancel: changesHeldBytes = true
        default: break
        }
        // Freed elsewhere, whether the request succeeds or not.
        let largeNodes = request.byteCount > Self.smallByteCount ? request.action.largeNodes : []
        defer { releases.add(largeNodes) }
        encoder.noteRequest(received: request.received)
        guard let operation = Operation(request.takeAction(), signIn: request.signIn) else { return }
        let metric = operation.metric
        defer { if !isUndecided { metrics.requests.add(metric) } }
        if case .onDisconnect(let writes, _) = operation, !fitsQueue(writes, of: session) {
            countFailure(.tooBig(number))
            return reply(.tooBig(number), to: session)
        }
        let isListening = execute(
            consume operation, session, request.credential, number: number, byteCount: request.byteCount)
        if isListening, let queryText {
            sessions[session]?.queryTexts.set(queryText.text, of: queryText.tag)
        }
        if changesHeldBytes { publishHeldBytes(of: session) }
    }

    /// A key for a new child (rest §2.2). Keys ascend in the order of the calls: that of commits, except for
    /// large POSTs, whose keys are chosen before their rules are evaluated by another thread.
    func nextPushID() -> Key {
        let random = PushIDGenerator.RandomBits(
            high: UInt8(truncatingIfNeeded: environment.randomBits()), low: environment.randomBits())
        return pushIDs.next(milliseconds: clock.now(), random: random)
    }

    /// Notifies the connection of a session of what it holds here, where that has changed by much. O(1).
    func publishHeldBytes(of session: SessionID) {
        guard let hosted = sessions[session] else { return }
        let byteCount = hosted.database.engine.heldByteCount(of: session) + hosted.queryTexts.byteCount
        guard
            abs(byteCount - hosted.publishedByteCount) > Self.unpublishedByteLimit
                || byteCount == 0 && hosted.publishedByteCount > 0
        else { return }
        hosted.publishedByteCount = byteCount
        encoder.noteHeldBytes(byteCount, of: session)
    }

    /// Changes of what a session holds of which its connection is not notified.
    private static let unpublishedByteLimit = 16 << 10

    /// Whether these onDisconnect writes fit into what the session may have queued. (When it ends, they are
    /// written to the journal a second time.) True for a session that has ended: its request is dropped
    /// later, without a reply. O(size of the writes).
    private func fitsQueue(_ writes: [Write], of session: SessionID) -> Bool {
        guard let database = sessions[session]?.database else { return true }
        var left = Self.queuedByteLimit - database.engine.queuedByteCount(of: session)
        for write in writes where left >= 0 { left -= write.queuedByteCount }
        return left >= 0
    }

    /// Executes an operation of a realtime session, and encodes its reply.
    /// - Returns: Whether it was a listen that was permitted. (A result that is passed on is copied and
    ///   destroyed, which takes a hundred instructions.)
    private func execute(
        _ operation: consuming Operation, _ session: SessionID, _ credential: Credential, number: Int64,
        byteCount: Int
    ) -> Bool {
        guard let database = sessions[session]?.database else { return false }
        // Copied only while a database is watched: otherwise it is moved.
        let profiled = profiler.startTime.map { (operation: copy operation, began: $0) }
        let lacksIndex = operation.lacksIndex(in: database)
        let readPath = operation.readPath
        defer { pinOutputs(at: readPath, in: database) }
        do throws(JournalRefusal) {
            let result = try perform(operation, session, credential, in: database)
            if database.engine.takeRuleStepCount() > Self.lightRuleStepCount { encoder.noteLongWork() }
            // What was committed before a reply comes before it (realtime §6.1, §6.3, §11.2).
            if !coalescer.isEmpty { catchUp(session) }
            if let result { reply(result, lacksIndex: lacksIndex, number: number, to: session) }
            if let profiled { profile(profiled, result, byteCount: byteCount, by: credential, on: database) }
            return if case .listening? = result { true } else { false }
        } catch {
            if error == .undecided { return false }
            let reply = error == .tooLarge ? SessionReply.tooBig(number) : .diskFull(number)
            countFailure(reply)
            self.reply(reply, to: session)
            if let profiled { profile(profiled, nil, byteCount: byteCount, by: credential, on: database) }
            return false
        }
    }

    /// Encodes and counts the result of a request.
    @inline(__always)
    private func reply(
        _ result: borrowing CommandResult, lacksIndex: Bool, number: Int64, to session: SessionID
    ) {
        if let failure = result.failure { metrics.failures.add(failure) }
        switch result {
        case .limitExceeded(let limit): metrics.sessionLimits.add(limit)
        case .listening where lacksIndex: return encoder.reply(.listeningWithoutIndex(number), to: session)
        default: break
        }
        encoder.encode(result, number, to: session)
    }

    /// The large messages that were just made for one client hold the data of a location as it is now.
    /// - Parameter path: nil where they hold none.
    func pinOutputs(at path: Path?, in database: StoredDatabase) {
        let outputs = encoder.takePins()
        guard let path else { return }
        for pin in outputs { pins.add(pin, at: path, in: database.id) }
    }

    /// The same for a REST response, where it may take long.
    func pin(_ output: SnapshotPin?, at path: Path, in database: StoredDatabase) {
        guard let output, database.engine.root.value(at: path).isHeavier(than: LargeMessage.byteCount)
        else { return }
        pins.add(output, at: path, in: database.id)
    }

    private func profile(
        _ profiled: (operation: Operation, began: MonotonicTime), _ result: CommandResult?, byteCount: Int,
        by credential: Credential, on database: StoredDatabase
    ) {
        let record = ProfileRecord(
            profiled.operation, result, byteCount: byteCount, by: credential, of: database)
        if let record { profile(record, on: database, began: profiled.began) }
    }

    /// Steps of rules, of about a nanosecond each, that a light request may take. The clock is not read after
    /// each request; it is after one that has taken more.
    private static let lightRuleStepCount = 1 << 16

    /// Removes and returns the write of that request; nil where there is none.
    func takeUndecided() -> Operation? { undecided.take() }

    // MARK: Executing

    /// Executes an operation, appends it to the journal, and encodes the pushes that it causes.
    /// - Parameters:
    ///   - paths: The locations that it replaces, where their size is limited.
    ///   - byteLimit: Bytes that they may hold together, about; nil for any number.
    /// - Returns: The result; nil for the end of a session.
    /// - Throws: ``JournalRefusal``; then nothing was changed.
    func perform(
        _ operation: consuming Operation, _ session: SessionID, _ credential: Credential,
        in database: StoredDatabase, replacing paths: some Sequence<Path> = [], atMost byteLimit: Int? = nil
    ) throws(JournalRefusal) -> CommandResult? {
        guard operation.isRead else {
            return finish(
                try commit(operation, session, credential, in: database, replacing: paths, atMost: byteLimit),
                in: database)
        }
        // A read is copied: its query is needed afterwards, to note which index it has used.
        let isListen = if case .listen = operation { true } else { false }
        let read = copy operation
        var effects = try commit(operation, session, credential, in: database)
        if let query = read.query, effects.result?.isRead ?? false {
            database.engine.tree.noteUse(
                of: query.query, at: query.path, isLasting: isListen, at: clock.last)
            if case .filtered(let node, let indexed)? = effects.result {
                effects.result = .filtered(node, noting(indexed, .get, at: query.path, in: database))
            }
        }
        return finish(effects, in: database, ofListen: isListen ? session : nil)
    }

    /// Decides an operation, appends it to the journal, and commits it. Parameters as of
    /// ``perform(_:_:_:in:replacing:atMost:)``.
    @inline(__always)
    private func commit(
        _ operation: consuming Operation, _ session: SessionID, _ credential: Credential,
        in database: StoredDatabase, replacing paths: some Sequence<Path> = [], atMost byteLimit: Int? = nil
    ) throws(JournalRefusal) -> Effects {
        let time = clock.last
        // A write that was prepared is decided as of then.
        let decisionTime = database.engine.preparedWrite?.time ?? time
        // The operation, the command and the delta are moved from step to step: nothing of them is copied.
        if !credential.isAdmin, !database.hasNoRules { metrics.evaluations.add() }
        var delta = database.engine.decide(
            Command(session: session, credential: credential, time: decisionTime, operation: operation))
        if case .denied(let operation) = delta.kind {
            if database.engine.takeExhaustion() {
                undecided = operation
                throw .undecided
            }
            let command = Command(
                session: session, credential: credential, time: decisionTime, operation: operation)
            metrics.denials.add()
            denials.note(command, in: database, explains: database.engine.preparedWrite == nil)
        }
        if case .ok? = delta.result, var left = byteLimit {
            let root = database.engine.root
            // Behind the decision: a client that may not write does not learn how much data there is.
            let isTooLarge =
                database.engine.preparedWrite?.replacesTooMuch
                ?? paths.contains { root.value(at: $0).weigh(&left) }
            if isTooLarge { throw .tooLarge }
        }
        let changesData = delta.changesData
        // Held only while there are pins: what the commit changes is copied then.
        let isNoted = changesData && pins.hasPins(of: database.id)
        let noted = isNoted ? (delta.changedPaths, root: database.engine.root) : nil
        let savepoint = try journal.append(&delta, by: credential, of: database, at: time)
        let effects = database.engine.commit(consume delta)
        if effects.isRedundant {
            if let savepoint { journal.rollback(to: savepoint) }
        } else if changesData {
            metrics.commits.add()
            if let (paths, root) = noted {
                for value in pins.note(paths, replacing: root, in: database.id) { releases.add(value) }
            }
        }
        if let replaced = database.engine.tree.removeReplacedNodes() { releases.add(replaced) }
        if let ended = database.engine.removeEndedQueues() { releases.add(ended) }
        return effects
    }

    /// Encodes the pushes of an operation, and starts what it has made necessary for indexes.
    /// - Parameter listener: The session of a listen; nil for another operation.
    /// - Returns: The result.
    @inline(__always)
    private func finish(
        _ effects: consuming Effects, in database: StoredDatabase, ofListen listener: SessionID? = nil
    ) -> CommandResult? {
        startIndexWork(in: database)
        // What a session is sent comes before the end of its listen.
        defer { if database.engine.tree.hasWindowOutcome { handleWindowOutcome(of: database) } }
        guard !effects.pushes.isEmpty else { return effects.result.take() }
        metrics.pushes.add(effects.pushes.count)
        if coalescer.isEmpty {
            encoder.encode(effects.pushes)
        } else {
            encoder.encode(
                coalescer.replaceForLagging(
                    effects.pushes, in: database.engine.root, answering: listener))
        }
        // The initial push of a listen is part of its own record.
        if listener == nil, profiler.isActive {
            for push in effects.pushes { profile(ProfileRecord(push), on: database) }
        }
        return effects.result.take()
    }

    /// Sends a session that lags what it has not been sent yet.
    func catchUp(_ session: SessionID) {
        if let missed = coalescer.takeBeforeReply(to: session) { send(missed, to: session) }
    }

    /// Encodes a reply without a command, behind what the session has not been sent yet (realtime §6.1).
    func reply(_ reply: SessionReply, to session: SessionID) {
        if !coalescer.isEmpty { catchUp(session) }
        encoder.reply(reply, to: session)
    }

    /// Sends a session what it has not been sent yet.
    func send(_ missed: PushCoalescer.MissedChanges, to session: SessionID) {
        guard let database = sessions[session]?.database, !missed.isEmpty else { return }
        encoder.encode(
            catchUp: database.engine.tree.catchUp(session, paths: missed.changedPaths, tags: missed.tags))
    }

    /// Sends a record to the sessions that watch the database.
    /// - Parameter began: When the operation began; nil for one that takes no time of its own.
    func profile(_ record: ProfileRecord, on database: StoredDatabase, began: MonotonicTime? = nil) {
        profiler.send(record, of: database.id, at: clock, began: began, through: &encoder)
    }

    // MARK: Namespaces

    /// Prepares a database for its first command.
    func configure(_ database: StoredDatabase) {
        options.configure(database)
        if environment.hasWorkers { database.engine.limitRuleSteps() }
    }

    /// The database that a client means, created where this server creates namespaces on first use.
    /// - Parameter name: As the client spelled it; nil means `default`.
    /// - Returns: Nil for one that does not exist, also where ``DatabaseOptions/databaseLimit`` is reached.
    /// - Throws: ``JournalRefusal/diskFull`` for one that would have to be created.
    func database(named name: String?) throws(JournalRefusal) -> StoredDatabase? {
        if let found = databases.find(name) { return found }
        guard let created = try creator.create(name, in: &databases, &journal, at: clock) else { return nil }
        configure(created)
        return created
    }

    /// Changes a setting (rest §10), and appends it to the journal.
    /// - Throws: ``JournalRefusal/diskFull``; then nothing was changed.
    func change(_ setting: Setting, to json: [UInt8], in database: StoredDatabase) throws(JournalRefusal) {
        let payload = RecoveredState.settingPayload(setting.rawValue, json)
        try journal.checkSpace(forPayloadOf: payload.count)
        database.settings[setting.rawValue] = json
        journal.append(
            JournalRecord(.settings, namespace: database.id, timestamp: clock.now(), payload: payload))
    }
}

extension Operation {
    /// Whether it asks for data: only then it may have a ``query``.
    fileprivate var isRead: Bool {
        switch self {
        case .listen, .get: true
        default: false
        }
    }

    /// The location whose data its reply, or first push, may hold; nil for one without data.
    fileprivate var readPath: Path? {
        switch self {
        case .listen(let listen): listen.path
        case .get(let path, _): path
        case .transaction(let write, _, _): write.target.path
        default: nil
        }
    }

    /// What a read asks for, and where; nil without a query.
    fileprivate var query: (query: Query, path: Path)? {
        switch self {
        case .listen(let listen): listen.query.map { ($0, listen.path) }
        case .get(let path, let query): query.map { ($0, path) }
        default: nil
        }
    }

    /// Whether it is a listen through a query whose order the loaded rules do not declare (realtime §4.2).
    /// Without loaded rules there is nothing to declare. O(depth) for such a listen, O(1) for all else.
    fileprivate func lacksIndex(in database: StoredDatabase) -> Bool {
        guard case .listen(let listen) = self, let query = listen.query,
            case .loaded(let rules) = database.engine.access
        else { return false }
        return !rules.hasIndex(query.order, at: listen.path)
    }
}

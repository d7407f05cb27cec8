import PandoBytes
import PandoEngine
import PandoREST
import PandoStorage
import PandoTree

/// Opens and ends sessions. The end of a session cannot be refused, so where the journal has no space for it,
/// it waits here. Used by one thread at a time.
final class SessionManager {
    private let processor: CommandProcessor
    /// Posts a message to the databases, which is processed later.
    private let post: @Sendable (DatabaseMessage) -> Void
    private var deferred = DeferredOperations()
    /// The listens of sessions that have ended, by the numbers of their databases. The next step
    /// of each is posted.
    private(set) var ending: [UInt32: EndingSessions] = [:]
    /// About the bytes of memory of ``ending``.
    private var endingByteCount = 0
    /// Work that is left for listens that end at once with their sessions, until ``beginBatch()``.
    private var workAtOnceLeft = endingWorkAtOnce

    /// Work to end listens that is done in one step, and at once with the sessions that end in one batch
    /// (``LiveTree/endingWork(of:)``): 0.3 ms.
    static let endingWorkAtOnce = 400
    /// While the ending listens take more than this, every message ends some: there may be more sessions that
    /// begin listens than their one flow can keep up with.
    private static let endingByteLimit = 64 << 20
    /// The work of that: some listens, so that more end than one request begins.
    private static let endingWorkOfMessage = 24
    /// Texts of queries that are freed at once: some microseconds, so that many sessions can end together.
    private static let textsFreedAtOnce = 64
    /// What the original says (realtime §1.3).
    private static let unknownNamespaceText = Text(
        "Firebase error. Please ensure that you have the URL of your Firebase Realtime Database instance configured "
            + "correctly.")

    init(_ processor: CommandProcessor, post: @escaping @Sendable (DatabaseMessage) -> Void) {
        self.processor = processor
        self.post = post
    }

    /// Opens a realtime session, and greets its client.
    func open(_ session: SessionID, _ request: OpenRequest) {
        let found: StoredDatabase?
        do throws(JournalRefusal) { found = try processor.database(named: request.namespace) } catch {
            processor.encoder.shutdown(session, reason: Text(RESTError.diskFull.text))
            return processor.encoder.close(session, .finished)
        }
        guard let database = found else {
            processor.encoder.shutdown(session, reason: Self.unknownNamespaceText)
            return processor.encoder.close(session, .finished)
        }
        if let old = self.session(replacedBy: request, session),
            processor.sessions[old]?.database === database
        {
            processor.encoder.close(old, .replaced)
            end(old)
        }
        let publicID = request.publicID ?? PublicSessionID(processor.environment)
        processor.sessions.add(HostedSession(database: database, publicID: publicID), as: session)
        processor.metrics.sessions.set(processor.sessions.count)
        processor.encoder.handshake(
            session, milliseconds: processor.clock.now(), host: request.host, publicID: publicID.text)
        if processor.profiler.isActive {
            processor.profile(ProfileRecord(name: "concurrent-connect"), on: database)
        }
    }

    /// The session that ends before this one is opened; nil mostly. Its client has reconnected before its old
    /// connection was found to be dead (realtime §12.5).
    func session(replacedBy request: OpenRequest, _ session: SessionID) -> SessionID? {
        guard let previous = request.previousSession.flatMap({ PublicSessionID($0) }),
            let old = processor.sessions.session(knownAs: previous), old != session,
            let database = processor.sessions[old]?.database,
            processor.databases.find(request.namespace) === database
        else { return nil }
        return old
    }

    /// Ends a session: removes it, and runs its onDisconnect writes. Does nothing the second time.
    func end(_ session: SessionID) {
        guard let hosted = processor.sessions.remove(session) else { return }
        let database = hosted.database
        endListens(of: session, hosted)
        if hosted.queryTexts.count > Self.textsFreedAtOnce {
            processor.releases.add(exchange(&hosted.queryTexts, with: QueryTexts()))
        }
        processor.encoder.streams[session] = nil
        processor.metrics.sessions.set(processor.sessions.count)
        processor.metrics.streams.set(processor.encoder.streams.count)
        processor.coalescer.remove(session)
        processor.profiler.removeWatcher(session, of: database.id)
        if hosted.publicID != nil, processor.profiler.isActive {
            processor.profile(ProfileRecord(name: "concurrent-disconnect"), on: database)
        }
        deferred.append(.endSession, of: session, in: database)
        performDeferred()
    }

    /// Ends sessions of an earlier process, for whose onDisconnect writes the disk had no space at the start.
    func endUnended(_ unended: [(database: StoredDatabase, session: SessionID)]) {
        for (database, session) in unended { deferred.append(.endSession, of: session, in: database) }
    }

    /// Drops the onDisconnect writes that a session has queued under sign-ins that are revoked. What it has
    /// asked to queue under them, and waits, is refused (``CommandProcessor/refuseIfCredentialEnded(_:)``).
    func revoke(_ signIns: Set<UInt32>, upTo credentialNumber: UInt32, of session: SessionID) {
        guard let hosted = processor.sessions[session] else { return }
        hosted.revoke(signIns, upTo: credentialNumber)
        deferred.append(.revokeOnDisconnect(signIns), of: session, in: hosted.database)
        performDeferred()
    }

    // MARK: Listens of sessions that have ended

    /// What is processed from now on is another batch.
    func beginBatch() { workAtOnceLeft = Self.endingWorkAtOnce }

    /// Leaves the listens of a session that ends to its ``Operation/endSession``, or to
    /// ``endSomeListens(of:)`` where that would take too long: alone, or with those of the other sessions
    /// that end in this batch.
    private func endListens(of session: SessionID, _ hosted: HostedSession) {
        let database = hosted.database
        let work = database.engine.tree.endingWork(of: session)
        // An event stream has one. What waits for space may be performed together.
        if hosted.publicID == nil || deferred.isEmpty && work <= workAtOnceLeft {
            return workAtOnceLeft -= work
        }
        guard let listens = database.engine.tree.detachListens(of: session) else { return }
        if ending[database.id] == nil { post(.continueEnding(database: database.id)) }
        ending[database.id, default: EndingSessions(of: database)].append(listens)
        endingByteCount += listens.byteCount
    }

    /// Ends some listens of sessions of a database that have ended, and posts the next step where more are
    /// left: others have their turn between two steps.
    func endSomeListens(of database: UInt32) {
        endSomeListens(of: database, doing: Self.endingWorkAtOnce)
        if ending[database]?.isEmpty == false {
            post(.continueEnding(database: database))
        } else {
            ending[database] = nil
        }
    }

    /// Ends a few listens beside a message, where those that wait to be ended take much memory.
    func endSomeListensIfMany() {
        guard endingByteCount > Self.endingByteLimit,
            let database = ending.first(where: { !$0.value.isEmpty })?.key
        else { return }
        endSomeListens(of: database, doing: Self.endingWorkOfMessage)
    }

    private func endSomeListens(of id: UInt32, doing work: Int) {
        // Out of the table while it is changed, so that it has one owner.
        guard var sessions = ending.removeValue(forKey: id) else { return }
        for listens in sessions.endSome(doing: work) {
            endingByteCount -= listens.byteCount
            processor.releases.add(listens)
        }
        processor.startIndexWork(in: sessions.database)
        processor.handleWindowOutcome(of: sessions.database)
        ending[id] = sessions
    }

    // MARK: Operations that wait for space

    /// Whether no operation waits for space.
    var isIdle: Bool { deferred.isEmpty }

    /// Performs what waits for space, if the journal may have space for the first of it. Before every other
    /// write: what waits was to be written first.
    func performDeferredIfPossible() {
        if !deferred.isEmpty, processor.journal.hasSpace(for: deferred.firstByteCount) { performDeferred() }
    }

    /// Performs what waits for space, in order, as far as the journal has space.
    func performDeferred() {
        deferred.perform { [processor] item, isFirst, byteCount in
            // An operation of a session with an empty queue writes nothing; none of the others overtakes an
            // older one.
            let hasQueue = item.database.engine.hasQueue(item.session)
            guard !hasQueue || isFirst && processor.journal.hasSpace(for: byteCount) else {
                return .waits(byteCount: nil)
            }
            do throws(JournalRefusal) {
                _ = try processor.perform(item.operation, item.session, .anonymous, in: item.database)
                return .done(wroteJournal: hasQueue)
            } catch {
                return .waits(byteCount: processor.journal.refusedByteCount)
            }
        }
    }
}

/// Operations that cannot be refused and wait because the journal has no space: the ends of sessions, also of
/// an earlier process, whose onDisconnect writes run when there is space or at the next start, and the
/// removal of such writes by revocations. The oldest first.
struct DeferredOperations {
    struct Item {
        let session: SessionID
        let database: StoredDatabase
        let operation: Operation
    }

    enum Outcome {
        case done(wroteJournal: Bool)
        /// It needs this many bytes of journal; nil where that was not found out.
        case waits(byteCount: Int?)
    }

    private var items: [Item] = []
    /// Bytes of journal that the first of ``items`` needs, so that it is not printed again before there is as
    /// much space; 0 where it was not tried yet.
    private(set) var firstByteCount = 0

    var isEmpty: Bool { items.isEmpty }

    mutating func append(_ operation: Operation, of session: SessionID, in database: StoredDatabase) {
        items.append(Item(session: session, database: database, operation: operation))
    }

    /// Tries every item in order, and keeps those that wait.
    /// - Parameter perform: Gets an item, whether no older item waits, and the bytes of journal that the
    ///   first one needs. It must not use this value.
    mutating func perform(_ perform: (_ item: Item, _ isFirst: Bool, _ firstByteCount: Int) -> Outcome) {
        var waiting: [Item] = []
        for item in items {
            switch perform(item, waiting.isEmpty, firstByteCount) {
            case .done(let wroteJournal): if wroteJournal { firstByteCount = 0 }
            case .waits(let byteCount):
                if let byteCount { firstByteCount = byteCount }
                waiting.append(item)
            }
        }
        items = waiting
    }
}

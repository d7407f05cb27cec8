import PandoBytes
import PandoEngine
import PandoJournal
import PandoRules
import PandoStorage

/// Changes who may read: the rules of a database, and the credential of a session. Listens that are no longer
/// allowed are revoked (realtime §5.4, rest §8.3).
///
///     new rules, new credential ──▶ some hundred listens are checked at once
///                                     └─ more: their sessions are suspended, and get no pushes ──▶ the rest, a part at a time
///
/// So no push leaves on a listen that was not checked under what is in force, no request of the session is
/// answered before, and other sessions wait for one part only. What was not sent meanwhile is sent when the
/// session is checked, as to a slow reader (``PushCoalescer``).
///
/// Used by one thread at a time.
final class AccessManager {
    private let processor: CommandProcessor
    /// Posts a message to the databases, which is processed later.
    private let post: @Sendable (DatabaseMessage) -> Void
    /// The sessions that have listens to be checked.
    private var checks: [SessionID: ListenCursor] = [:]
    /// The same sessions, in the order in which each has its next part checked.
    private var queue: [SessionID] = []
    /// Those that are to be suspended.
    private var unsuspended: [(session: SessionID, database: RequestBacklog.DatabaseID)] = []
    /// ``DatabaseMessage/listenChecks`` was posted.
    private var isPosted = false

    /// Listens that are checked in one step, of all sessions: half a millisecond, where rules are simple.
    static let checkedAtOnce = 500
    /// Listens that are checked at once when a credential ends, before all other clients go on: thousands of
    /// sessions may end together.
    private static let checkedAtEnd = 16
    /// Listens of one session that may be checked again in a minute because it changes its credential: two
    /// seconds of the database thread. A session with the most listens may change it twenty times.
    private static let recheckLimit = 1_000_000

    init(_ processor: CommandProcessor, post: @escaping @Sendable (DatabaseMessage) -> Void) {
        self.processor = processor
        self.post = post
    }

    /// Puts stored rules in force, and appends them to the journal.
    /// - Parameter publication: The text of the rules, and who published them.
    /// - Precondition: The database has no rules of `--rules`.
    /// - Throws: ``JournalRefusal/diskFull``; then nothing was changed.
    func load(_ rules: Ruleset, _ publication: RulesPublication, into database: StoredDatabase)
        throws(JournalRefusal)
    {
        precondition(database.fileRules == nil)
        let payload = publication.payload
        try processor.journal.checkSpace(forPayloadOf: payload.count)
        database.invalidRules = nil
        database.storedAccess = .loaded(rules)
        processor.startIndexWork(in: database)
        checkListens(of: [database])
        processor.journal.append(
            JournalRecord(
                .publishedRules, namespace: database.id, timestamp: processor.clock.now(), payload: payload))
    }

    /// Puts the rules of `--rules` in force.
    /// - Parameter rulesets: All of them, by namespace; the other databases are under their stored rules.
    func load(_ rulesets: [String: Ruleset]) {
        let changed = processor.databases.setFileRules(rulesets)
        for database in changed { processor.startIndexWork(in: database) }
        checkListens(of: changed)
    }

    /// Begins to check the listens of all sessions of databases whose rules are new. O(sessions).
    private func checkListens(of databases: [StoredDatabase]) {
        guard !databases.isEmpty else { return }
        var left = Self.checkedAtOnce
        for session in processor.sessions.ids {
            guard let hosted = processor.sessions[session],
                databases.contains(where: { $0 === hosted.database })
            else { continue }
            // One whose check has begun is checked from the beginning.
            check(session, hosted, &left)
        }
    }

    /// What follows from a change of credential.
    enum CredentialChange {
        case applied
        /// The session's listens are being checked: see ``takeUnsuspended()``.
        case checking
        /// The session has had its listens checked too often in this minute: it must be closed and ended.
        case tooManyChecks
    }

    /// Gives a session another credential (realtime §4.7). The onDisconnect writes that it has queued keep
    /// theirs. Nothing happens for a credential that has ended already.
    /// - Parameter limit: Listens that are checked at once.
    func change(
        _ session: SessionID, to credential: Credential, number: UInt32, checking limit: Int = checkedAtOnce
    ) -> CredentialChange {
        guard let hosted = processor.sessions[session],
            number == 0 || number > hosted.endedCredentialNumber
        else { return .applied }
        hosted.credentialNumber = number
        guard hosted.credential != credential else { return .applied }
        hosted.credential = credential
        guard hosted.database.engine.access.decisionWithoutRules(for: credential) != true else {
            return .applied
        }
        let minute = UInt32(truncatingIfNeeded: processor.clock.now() / 60_000)
        if hosted.rechecks.minute != minute { hosted.rechecks = (minute, 0) }
        hosted.rechecks.count += UInt32(clamping: hosted.database.engine.tree.listenCount(of: session))
        guard hosted.rechecks.count <= Self.recheckLimit else { return .tooManyChecks }
        var left = limit
        check(session, hosted, &left)
        return checks[session] == nil ? .applied : .checking
    }

    /// The credential of a session, and all that it had before, have ended (auth §4.2, §5.3): it is signed
    /// out, also while its own requests wait. Those of them that were sent under one of these credentials are
    /// refused when it is their turn (``CommandProcessor/refuseIfCredentialEnded(_:)``).
    func endCredential(_ number: UInt32, of session: SessionID) -> CredentialChange {
        guard let hosted = processor.sessions[session] else { return .applied }
        hosted.endedCredentialNumber = max(hosted.endedCredentialNumber, number)
        guard hosted.credentialNumber <= number else { return .applied }
        return change(session, to: .anonymous, number: 0, checking: Self.checkedAtEnd)
    }

    // MARK: Checks

    /// Whether a session's listens are being checked.
    func isChecking(_ session: SessionID) -> Bool { checks[session] != nil }

    /// Whether ``takeUnsuspended()`` has any.
    var hasUnsuspended: Bool { !unsuspended.isEmpty }

    /// The sessions whose check has begun since the last call, with their databases. They must be suspended,
    /// until ``checkSome()`` has finished them.
    func takeUnsuspended() -> [(session: SessionID, database: RequestBacklog.DatabaseID)] {
        unsuspended.isEmpty ? [] : exchange(&unsuspended, with: [])
    }

    /// Checks listens of sessions whose check has begun, and posts ``DatabaseMessage/listenChecks`` where
    /// more are left.
    /// - Returns: The session that had most of them, and the sessions whose check is finished: those that
    ///   have ended since, too.
    func checkSome() -> (busiest: SessionID?, finished: [SessionID]) {
        isPosted = false
        var left = Self.checkedAtOnce
        var finished: [SessionID] = []
        var busiest: (session: SessionID, count: Int)?
        while left > 0, let session = queue.first, var cursor = checks[session] {
            queue.removeFirst()
            let before = left
            if let hosted = processor.sessions[session] {
                checkPart(of: session, hosted, &cursor, &left)
            } else {
                cursor = ListenCursor.none
            }
            if busiest.map({ before - left > $0.count }) ?? true { busiest = (session, before - left) }
            if cursor.isDone {
                checks[session] = nil
                finished.append(session)
                if let missed = processor.coalescer.endCheck(of: session) {
                    processor.send(missed, to: session)
                }
            } else {
                checks[session] = cursor
                queue.append(session)
            }
        }
        postChecks()
        return (busiest?.session, finished)
    }

    /// Begins to check a session's listens, and finishes where `left` suffices.
    private func check(_ session: SessionID, _ hosted: HostedSession, _ left: inout Int) {
        var cursor = hosted.database.engine.listensToCheck(of: session)
        if checks[session] == nil {
            guard !cursor.isDone else { return }
            if left > 0 { checkPart(of: session, hosted, &cursor, &left) }
            guard !cursor.isDone else { return }
            processor.coalescer.beginCheck(of: session)
            queue.append(session)
            unsuspended.append((session, hosted.database.id))
        }
        checks[session] = cursor
        postChecks()
    }

    private func postChecks() {
        guard !checks.isEmpty, !isPosted else { return }
        isPosted = true
        post(.listenChecks)
    }

    /// Checks up to `left` listens of a session, and revokes those that it may not have any more.
    private func checkPart(
        of session: SessionID, _ hosted: HostedSession, _ cursor: inout ListenCursor, _ left: inout Int
    ) {
        // The engine is used in place: the changes below would copy the tables of a copy.
        let (database, time) = (hosted.database, processor.clock.now())
        if let stream = processor.encoder.streams[session] {
            // It has one listen, or none any more.
            cursor = ListenCursor.none
            left -= 1
            guard !database.engine.mayRead(stream.path, stream.query, as: hosted.credential, at: time) else {
                return
            }
            let unlisten =
                stream.isQuery
                ? Operation.unlisten(stream.path, stream.query, tag: 1)
                : .unlisten(stream.path, nil, tag: nil)
            perform(unlisten, session, hosted)
            return processor.encoder.cancelStream(session, "Permission denied")
        }
        let before = cursor.count
        let denied = database.engine.listens(
            of: session, deniedTo: hosted.credential, at: time, from: &cursor, atMost: left)
        left -= before - cursor.count
        for listen in denied {
            perform(.unlisten(listen.path, listen.query, tag: listen.tag), session, hosted)
            let text = listen.tag.flatMap { hosted.queryTexts.remove($0) }
            processor.encoder.revoke(listen.path, queryText: text, session)
        }
        if !denied.isEmpty { processor.publishHeldBytes(of: session) }
    }

    private func perform(_ unlisten: Operation, _ session: SessionID, _ hosted: HostedSession) {
        do throws(JournalRefusal) {
            _ = try processor.perform(unlisten, session, hosted.credential, in: hosted.database)
        } catch {
            preconditionFailure("the end of a listen is not in the journal, so nothing refuses it: \(error)")
        }
    }
}

import PandoBytes
import PandoEngine
import PandoJournal
import PandoRules
import PandoStorage

/// Changes who may read: the rules of a database, and the credential of a session. Listens that are no longer
/// allowed are revoked at once (realtime §5.4, rest §8.3). Used by one thread at a time.
final class AccessManager {
    private let processor: CommandProcessor

    /// Listens of one session that may be checked again in a minute because it changes its credential: two
    /// seconds of the database thread. A session with the most listens may change it twenty times.
    private static let recheckLimit = 1_000_000

    init(_ processor: CommandProcessor) {
        self.processor = processor
    }

    /// Puts stored rules in force, and appends them to the journal.
    /// - Parameter publication: The text of the rules, and who published them.
    /// - Precondition: The database has no rules of `--rules`.
    /// - Throws: ``WriteRefusal/diskFull``; then nothing was changed.
    func load(_ rules: Ruleset, _ publication: RulesPublication, into database: StoredDatabase)
        throws(WriteRefusal)
    {
        precondition(database.fileRules == nil)
        let payload = publication.payload
        try processor.journal.checkSpace(forPayloadOf: payload.count)
        database.invalidRules = nil
        database.storedAccess = .loaded(rules)
        processor.startIndexWork(in: database)
        revokeListens(of: database)
        processor.journal.append(
            JournalRecord(
                .publishedRules, namespace: database.id, timestamp: processor.clock.now(), payload: payload))
    }

    /// Puts the rules of `--rules` in force.
    /// - Parameter rulesets: All of them, by namespace; the other databases are under their stored rules.
    func load(_ rulesets: [String: Ruleset]) {
        for database in processor.databases.setFileRules(rulesets) {
            processor.startIndexWork(in: database)
            revokeListens(of: database)
        }
    }

    private func revokeListens(of database: StoredDatabase) {
        for session in processor.sessions.ids {
            guard let hosted = processor.sessions[session], hosted.database === database else { continue }
            revokeListens(of: session, hosted)
        }
    }

    /// What follows from a change of credential.
    enum CredentialChange {
        case applied
        /// The session has had its listens checked too often in this minute: it must be closed and ended.
        case tooManyChecks
    }

    /// Gives a session another credential (realtime §4.7). The onDisconnect writes that it has queued keep
    /// theirs.
    func change(_ session: SessionID, to credential: Credential) -> CredentialChange {
        guard let hosted = processor.sessions[session], hosted.credential != credential else {
            return .applied
        }
        hosted.credential = credential
        guard hosted.database.engine.access.decisionWithoutRules(for: credential) != true else {
            return .applied
        }
        let minute = processor.clock.now() / 60_000
        if hosted.rechecks.minute != minute { hosted.rechecks = (minute, 0) }
        hosted.rechecks.count += hosted.database.engine.tree.listenCount(of: session)
        guard hosted.rechecks.count <= Self.recheckLimit else { return .tooManyChecks }
        revokeListens(of: session, hosted)
        return .applied
    }

    /// Revokes the listens that a session may not have any more.
    private func revokeListens(of session: SessionID, _ hosted: HostedSession) {
        // The engine is used in place: the changes below would copy the tables of a copy.
        let (database, time) = (hosted.database, processor.clock.now())
        if let stream = processor.encoder.streams[session] {
            guard !database.engine.mayRead(stream.path, stream.query, as: hosted.credential, at: time) else {
                return
            }
            let unlisten =
                stream.isQuery
                ? Operation.unlisten(stream.path, stream.query, tag: 1)
                : .unlisten(stream.path, nil, tag: nil)
            perform(unlisten, session, hosted)
            return processor.encoder.cancelStream(session)
        }
        for listen in database.engine.listens(of: session, deniedTo: hosted.credential, at: time) {
            perform(.unlisten(listen.path, listen.query, tag: listen.tag), session, hosted)
            let text = listen.tag.flatMap { hosted.queryTexts.remove($0) }
            processor.encoder.revoke(listen.path, queryText: text, session)
        }
        processor.publishHeldBytes(of: session)
    }

    private func perform(_ unlisten: Operation, _ session: SessionID, _ hosted: HostedSession) {
        do throws(WriteRefusal) {
            _ = try processor.perform(unlisten, session, hosted.credential, in: hosted.database)
        } catch {
            preconditionFailure("the end of a listen is not in the journal, so nothing refuses it: \(error)")
        }
    }
}

import PandoBytes
import PandoEngine
import PandoJournal
import PandoRules

// Who may hear what can change while it is being heard: with the rules, and with the credential of a
// connection.

extension DatabaseHost {
    /// Puts stored rules in force and writes them down.
    /// - Precondition: No file rules over them.
    /// - Throws: Nothing was done.
    func load(_ rules: Ruleset, _ source: [UInt8], into database: Database) throws(Refusal) {
        precondition(database.fileRules == nil)
        try refuseWithoutRoom(for: source.count)
        database.invalidRules = nil
        database.storedAccess = .loaded(rules)
        revokeListens(of: database)
        write(JournalRecord(.rules, namespace: database.id, timestamp: clock.now(), payload: source))
    }

    /// Puts the rules of files in force.
    /// - Parameter rulesets: All there are; a database that is not among them is under its stored ones.
    func load(_ rulesets: [String: Ruleset]) {
        fileRules = rulesets
        for name in databaseNames {
            guard let database = databases[name], database.fileRules?.source != rulesets[name]?.source else {
                continue
            }
            database.fileRules = rulesets[name]
            revokeListens(of: database)
        }
    }

    private func revokeListens(of database: Database) {
        for session in sessions.ids {
            guard let hosted = sessions[session], hosted.database === database else { continue }
            revokeListens(of: session, hosted)
        }
    }

    /// Listens that one connection may have looked at again in a minute because it changed its credential:
    /// two seconds of the database thread. One with the most listens may do that twenty times.
    private static let recheckLimit = 1_000_000

    /// A connection acts as somebody else from now on (realtime §4.7). What it has queued for its end
    /// runs as whoever queued it.
    func change(_ session: SessionID, to credential: Credential) {
        guard let hosted = sessions[session], hosted.credential != credential else { return }
        sessions[session]?.credential = credential
        guard hosted.database.engine.access.decisionWithoutRules(for: credential) != true else { return }
        let minute = clock.now() / 60_000
        if hosted.rechecks.minute != minute { sessions[session]?.rechecks = (minute, 0) }
        sessions[session]?.rechecks.count += hosted.database.engine.listenCount(of: session)
        guard let hosted = sessions[session], hosted.rechecks.count <= Self.recheckLimit else {
            encoder.close(session, .finished)
            return end(session)
        }
        revokeListens(of: session, hosted)
    }

    /// Ends what a session may no longer hear (realtime §5.4, rest §8.3).
    private func revokeListens(of session: SessionID, _ hosted: HostedSession) {
        // The engine is asked where it is: a copy would make the changes below copy all that it knows of
        // sessions.
        let (database, time) = (hosted.database, clock.now())
        if let stream = encoder.streams[session] {
            guard !database.engine.mayRead(stream.path, stream.query, as: hosted.credential, at: time) else {
                return
            }
            let listen =
                stream.isQuery
                ? Operation.unlisten(stream.path, stream.query, tag: 1)
                : .unlisten(stream.path, nil, tag: nil)
            _ = try? perform(listen, session, hosted.credential, in: database)
            return encoder.cancelStream(session)
        }
        for listen in database.engine.listens(of: session, deniedTo: hosted.credential, at: time) {
            let end = Operation.unlisten(listen.path, listen.query, tag: listen.tag)
            // Needs no room: nothing is written down.
            _ = try? perform(end, session, hosted.credential, in: database)
            let text = listen.tag.flatMap { sessions[session]?.queryTexts.removeValue(forKey: $0) }
            encoder.revoke(listen.path, queryText: text, session)
        }
    }
}

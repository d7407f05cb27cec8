import PandoBytes
import PandoEngine
import PandoJournal
import PandoREST
import PandoTree

// Sessions come and go; namespaces are found, and made.

extension DatabaseHost {
    func open(_ session: SessionID, _ request: OpenRequest) {
        guard !isDraining else { return encoder.close(session, .goingAway) }
        let found: Database?
        do throws(Refusal) { found = try database(named: request.namespace) } catch {
            encoder.shutdown(session, reason: Text(RESTError.diskFull.text))
            return encoder.close(session, .finished)
        }
        guard let database = found else {
            encoder.shutdown(session, reason: Self.unknownNamespaceText)
            encoder.close(session, .finished)
            return
        }
        if let previous = request.previousSession.flatMap({ PublicSessionID($0) }),
            let old = publicSessions[previous],
            sessions[old]?.database === database, old != session
        {
            // The client has come back before its old connection was seen to be dead (§12.5).
            encoder.close(old, .replaced)
            end(old)
        }
        let publicID = request.publicID ?? PublicSessionID(surroundings)
        sessions.add(HostedSession(database: database, publicID: publicID), as: session)
        publicSessions[publicID] = session
        encoder.handshake(session, milliseconds: clock.now(), host: request.host, publicID: publicID.text)
        tell(ProfileRecord(name: "concurrent-connect"), on: database)
    }

    /// What the original says (§1.3).
    private static let unknownNamespaceText = Text(
        "Firebase error. Please ensure that you have the URL of your Firebase Realtime Database instance configured "
            + "correctly.")

    /// Runs what the session wanted written at its end, and forgets it. Does nothing the second time.
    func end(_ session: SessionID) {
        guard let hosted = sessions.remove(session) else { return }
        if let publicID = hosted.publicID { publicSessions[publicID] = nil }
        let database = hosted.database
        if database.engine.listenCount(of: session) > Self.listensEndedAtOnce,
            let listens = database.engine.detachListens(of: session)
        {
            // Others have their turn between two parts.
            endingListens[session] = (database, listens)
            post(.closed(session))
        }
        if hosted.queryTexts.count > Self.listensEndedAtOnce {
            var texts: [Int64: Text] = [:]
            swap(&texts, &hosted.queryTexts)
            free(consume texts)
        }
        encoder.streams[session] = nil
        _ = coalescer.end(session)
        endProfile(of: hosted.database, to: session)
        if hosted.publicID != nil { tell(ProfileRecord(name: "concurrent-disconnect"), on: hosted.database) }
        endings.append((session, hosted.database, .endSession))
        finishEndings()
    }

    /// Ends some of the listens of a session that has ended and had many. What is pushed to them meanwhile is
    /// dropped with the connection.
    /// - Returns: false when it has none.
    func endSomeListens(of session: SessionID) -> Bool {
        // Out of the table while it changes, so that it has one owner.
        guard var ending = endingListens.removeValue(forKey: session) else { return false }
        ending.database.engine.end(&ending.listens, atMost: Self.listensEndedAtOnce)
        if ending.listens.isEmpty {
            free(ending.listens)
        } else {
            endingListens[session] = ending
            post(.closed(session))
        }
        return true
    }

    /// Listens that are ended in one step: what takes a millisecond.
    private static let listensEndedAtOnce = 1000

    /// Drops what sign-ins that count no more have queued for the session's end. Whatever the session does
    /// next comes after it.
    func revoke(_ signIns: Set<UInt32>, of session: SessionID) {
        guard let hosted = sessions[session] else { return }
        endings.append((session, hosted.database, .revokeOnDisconnect(signIns)))
        finishEndings()
    }

    /// Does the ends of sessions and what comes before them, in their order, as far as the log has room.
    func finishEndings() {
        var waiting: [(session: SessionID, database: Database, operation: Operation)] = []
        for (session, database, operation) in endings {
            // Whose queue is empty writes nothing; of the others none goes before an older one.
            let hasQueue = database.engine.hasQueue(session)
            if !hasQueue || waiting.isEmpty && hasRoomForEnding {
                do throws(Refusal) {
                    _ = try perform(operation, session, .anonymous, in: database)
                    if hasQueue { endingByteCount = 0 }
                    continue
                } catch {
                    // It is not printed again before there is as much room.
                    endingByteCount = refusedByteCount
                }
            }
            waiting.append((session, database, operation))
        }
        endings = waiting
    }

    /// Whether the log may have room for the oldest of ``endings``.
    var hasRoomForEnding: Bool { hasRoom(for: endingByteCount) }

    // MARK: Namespaces

    /// The namespace of that name, made if this server makes them on first use; nil for one that does not
    /// exist.
    /// - Throws: ``Refusal/diskFull`` for one that would have to be made.
    func database(named name: String?) throws(Refusal) -> Database? {
        // Without a name a client means the one database there is. Nearly always the one that was asked for
        // last.
        if let last = lastNamed, last.name == name ?? NamespaceName.standard { return last }
        let database = try findDatabase(named: name)
        lastNamed = database
        return database
    }

    private func findDatabase(named name: String?) throws(Refusal) -> Database? {
        guard let name = NamespaceName.canonical(name ?? NamespaceName.standard) else { return nil }
        if let database = databases[name] { return database }
        guard configuration.isDevelopment else { return nil }
        try refuseWithoutRoom(for: name.utf8.count)
        let id = nextNamespace
        nextNamespace += 1
        let database = Database(id: id, name: name, access: .open, fileRules: fileRules[name])
        databases[name] = database
        write(JournalRecord(.namespaceMade, namespace: id, timestamp: clock.now(), payload: Array(name.utf8)))
        return database
    }

    /// Everything as it is between two commands. Who is sent it hears of it once all of it is durable.
    var backup: BackupBytes {
        let time = clock.now()
        let header = CheckpointHeader(
            directory: origin.directory, timeline: origin.timeline,
            sequence: SequenceNumber(origin.sequence.rawValue + loggedRecordCount), timestamp: time)
        return BackupBytes(header, of: Snapshot(databases.values, nextNamespace: nextNamespace, time: time))
    }

    var databaseNames: [String] { databases.keys.sorted() }

    /// Changes a setting, and writes it down.
    func change(_ name: String, to json: [UInt8], in database: Database) throws(Refusal) {
        let payload = RecoveredState.settingPayload(name, json)
        try refuseWithoutRoom(for: payload.count)
        database.settings[name] = json
        write(JournalRecord(.settings, namespace: database.id, timestamp: clock.now(), payload: payload))
    }

    /// A key for a new child: keys ascend in the order of commits.
    func nextPushID() -> Key {
        let random = PushIDGenerator.RandomBits(
            high: UInt8(truncatingIfNeeded: surroundings.randomBits()), low: surroundings.randomBits())
        return pushIDs.next(milliseconds: clock.now(), random: random)
    }
}

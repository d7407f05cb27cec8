import PandoBytes
import PandoEngine
import PandoJournal
import PandoReactor
import PandoRules
import PandoTree
import PandoWire

/// The database thread: owns every database, runs their engines, and lets nothing out before it is durable.
///
///     loops ──▶ mailbox ──▶ decide, commit ──▶ entries ──▶ journal thread
///                                   │                            │ durable(ticket)
///                                   ▼                            ▼
///                               outputs ──── held until their ticket ────▶ loops
///
/// Time is stamped here, so its order is the order of commits. One burst of messages is one batch: one hand-over to
/// the journal, one to each loop.
///
/// Confined to the database thread.
final class DatabaseHost {
    /// Outputs of one batch, and what they wait for.
    private struct Held {
        var ticket: UInt64
        var batches: [OutputBatch]
        /// Bytes of requests that are answered by it.
        var byteCount: Int
    }

    struct HostedSession {
        let database: Database
        let publicID: Text
        /// Bytes its onDisconnect writes take in the log: at most so many, since what was cancelled is found out late.
        var queuedByteCount = 0
        /// As whom it last asked: what it hears is looked at again when the rules change.
        var credential = Credential.anonymous

        init(database: Database, publicID: Text, credential: Credential = .anonymous) {
            self.database = database
            self.publicID = publicID
            self.credential = credential
        }
    }

    /// Bytes that the onDisconnect writes of one session may take in the log.
    static let queuedByteLimit = 16 << 20
    /// Bytes of one record that a request may ask for: what 16 MiB of JSON come to when it is written out, and less than
    /// an entry of the journal may have.
    private static let recordByteLimit = 256 << 20

    let configuration: Configuration
    /// Bytes of requests that are not answered yet.
    private let congestion: Congestion
    /// Bytes of outputs that loops have not dealt out yet.
    private let outputCongestion: Congestion
    /// Where outputs go, one for each loop.
    private let loops: [Mailbox<OutputBatch>]
    /// Nil when everything is kept in memory: then all is as durable as it gets at once.
    private let journal: JournalThread?

    /// By name.
    private var databases: [String: Database] = [:]
    private var nextNamespace: UInt32
    var sessions: [SessionID: HostedSession] = [:]
    var publicSessions: [Text: SessionID] = [:]
    private var clock: WallClock
    private var pushIDs = PushIDGenerator()

    /// The last entry handed to the journal, and the last known to be durable.
    private var ticket: UInt64 = 0
    private var durableTicket: UInt64 = 0
    private var entries: [JournalEntry] = []
    var encoder: OutputEncoder
    private var answeredByteCount = 0
    /// Oldest first; tickets ascend.
    private var held: [Held] = []
    /// Messages not yet taken, and how many at the front are.
    private var backlog: [DatabaseMessage] = []
    private var takenCount = 0
    /// Too much has been put out that the disk or the loops have not taken.
    private var isWaiting = false

    /// Outputs of one batch: what goes to the loops at once, and is held for one sync.
    private static let batchByteLimit = 1 << 20
    private var isDraining = false
    private var onDrained: (@Sendable () -> Void)?

    init(
        _ configuration: Configuration, recovered: RecoveredState, journal: JournalThread?, congestion: Congestion,
        outputCongestion: Congestion, loops: [Mailbox<OutputBatch>]
    ) {
        self.configuration = configuration
        self.congestion = congestion
        self.outputCongestion = outputCongestion
        self.loops = loops
        self.journal = journal
        nextNamespace = recovered.nextNamespace
        clock = WallClock(notBefore: recovered.lastTime)
        encoder = OutputEncoder(loopCount: loops.count)
        for database in recovered.databases.values { databases[database.name] = database }
    }

    /// Takes one burst of messages. News of the disk and the loops is heard at once; the others wait their turn.
    func receive(_ batch: inout [DatabaseMessage]) {
        for message in batch {
            switch message {
            case .durable(let ticket): durableTicket = max(durableTicket, ticket)
            case .proceed: isWaiting = false
            default: backlog.append(message)
            }
        }
        release()
        takeBacklog()
    }

    private func takeBacklog() {
        while takenCount < backlog.count, !isWaiting {
            take(backlog[takenCount])
            takenCount += 1
            if encoder.byteCount > Self.batchByteLimit { seal() }
        }
        if takenCount == backlog.count {
            backlog.removeAll(keepingCapacity: backlog.capacity <= Self.keptBacklogCount)
            takenCount = 0
        }
        seal()
    }

    /// A burst leaves behind no more spare room than this.
    private static let keptBacklogCount = 4096

    private func take(_ message: DatabaseMessage) {
        switch message {
        case .request(let session, let request, let credential, let byteCount):
            answeredByteCount += byteCount
            handle(request, byteCount: byteCount, from: session, as: credential)
        case .rest(let session, let call, let byteCount):
            answeredByteCount += byteCount
            answer(call, to: session)
        case .answer(let session, let answer, let byteCount):
            answeredByteCount += byteCount
            encoder.answer(answer, to: session)
        case .open(let session, let request): open(session, request)
        case .closed(let session): end(session)
        case .durable, .proceed: preconditionFailure("heard when it came")
        case .drain(let body):
            for session in sessions.keys.sorted(by: { $0.rawValue < $1.rawValue }) {
                encoder.close(session, .goingAway)
                end(session)
            }
            isDraining = true
            onDrained = body
        }
    }

    // MARK: Running commands

    /// Runs a command, writes it down, and encodes what it causes.
    func run(_ operation: Operation, _ session: SessionID, _ credential: Credential, number: Int64?) {
        guard let database = sessions[session]?.database else { return }
        if case .listen = operation { sessions[session]?.credential = credential }
        run(operation, session, credential, number: number, in: database)
    }

    private func run(
        _ operation: Operation, _ session: SessionID, _ credential: Credential, number: Int64?, in database: Database
    ) {
        let reply = perform(operation, session, credential, in: database)
        guard let number else { return }
        if let reply { encoder.encode(reply, number, to: session) } else { encoder.answer(.tooBig(number), to: session) }
    }

    /// Runs a command, writes it down, and encodes the pushes it causes.
    /// - Returns: The reply; nil when the command would write more than a record holds, and nothing was done.
    func perform(
        _ operation: Operation, _ session: SessionID, _ credential: Credential, in database: Database
    ) -> Reply? {
        let command = Command(session: session, credential: credential, time: clock.now(), operation: operation)
        let delta = database.engine.decide(command)
        let records = journal == nil ? [] : delta.records(hadQueue: database.engine.hasQueue(session))
        if delta.reply != nil, records.contains(where: { $0.payload.count > Self.recordByteLimit }) { return nil }
        write(records, in: database.id, at: command.time)
        let effects = database.engine.commit(delta)
        encoder.encode(effects.pushes)
        return effects.reply
    }

    /// Hands records to the journal as one entry.
    private func write(_ records: [LogRecord], in namespace: UInt32, at time: Int64) {
        guard !records.isEmpty else { return }
        write(
            records.map {
                JournalRecord($0.kind.journalKind, namespace: namespace, timestamp: time, payload: $0.payload)
            })
    }

    private func write(_ records: [JournalRecord]) {
        guard journal != nil else { return }
        ticket += 1
        entries.append(JournalEntry(ticket: ticket, records: records))
    }

    // MARK: Sessions

    private func open(_ session: SessionID, _ request: OpenRequest) {
        guard !isDraining else { return encoder.close(session, .goingAway) }
        guard let database = database(named: request.namespace) else {
            encoder.shutdown(session, reason: Self.unknownNamespaceText)
            encoder.close(session, .finished)
            return
        }
        if let previous = request.previousSession, let old = publicSessions[previous],
            sessions[old]?.database === database, old != session {
            // The client has come back before its old connection was seen to be dead (§12.5).
            encoder.close(old, .replaced)
            end(old)
        }
        let publicID = Self.makePublicID()
        sessions[session] = HostedSession(database: database, publicID: publicID)
        publicSessions[publicID] = session
        encoder.handshake(session, milliseconds: clock.now(), host: request.host, publicID: publicID)
    }

    /// What the original says (§1.3).
    private static let unknownNamespaceText = Text(
        "Firebase error. Please ensure that you have the URL of your Firebase Realtime Database instance configured "
            + "correctly.")

    /// Runs what the session wanted written at its end, and forgets it. Does nothing the second time.
    private func end(_ session: SessionID) {
        guard let hosted = sessions.removeValue(forKey: session) else { return }
        publicSessions[hosted.publicID] = nil
        encoder.streams[session] = nil
        run(.endSession, session, .anonymous, number: nil, in: hosted.database)
    }

    /// 128 random bits: nobody guesses another's session (§12.5).
    private static func makePublicID() -> Text {
        var generator = SystemRandomNumberGenerator()
        return Text((0..<2).map { _ in
            let digits = String(generator.next() as UInt64, radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }.joined())
    }

    // MARK: Namespaces

    /// The namespace of that name, made if this server makes them on first use; nil for one that does not exist.
    func database(named name: String?) -> Database? {
        // Without a name a client means the one database there is.
        guard let name = NamespaceName.canonical(name ?? NamespaceName.standard) else { return nil }
        if let database = databases[name] { return database }
        guard configuration.isDevelopment else { return nil }
        let id = nextNamespace
        nextNamespace += 1
        let database = Database(id: id, name: name, engine: Engine(access: .open))
        databases[name] = database
        write([
            JournalRecord(.namespaceMade, namespace: id, timestamp: clock.now(), payload: Array(name.utf8))
        ])
        return database
    }

    var databaseNames: [String] { databases.keys.sorted() }

    /// Puts rules in force and writes them down.
    func load(_ rules: Ruleset, _ source: [UInt8], into database: Database) {
        database.engine.access = .loaded(rules)
        revokeListens(of: database)
        write([JournalRecord(.rules, namespace: database.id, timestamp: clock.now(), payload: source)])
    }

    /// Writes a setting down: its name, counted, and its JSON.
    func writeSetting(_ name: String, _ json: [UInt8], in database: Database) {
        var payload: [UInt8] = []
        payload.append(counted: name)
        payload += json
        write([JournalRecord(.settings, namespace: database.id, timestamp: clock.now(), payload: payload)])
    }

    /// Ends what the rules no longer allow to be heard (wire-protocol §5.4, rest-api §8.3).
    private func revokeListens(of database: Database) {
        for session in sessions.keys.sorted(by: { $0.rawValue < $1.rawValue }) {
            guard let hosted = sessions[session], hosted.database === database else { continue }
            let denied = database.engine.listens(of: session, deniedTo: hosted.credential)
            for listen in denied {
                _ = perform(.unlisten(listen.path, listen.query, tag: listen.tag), session, hosted.credential, in: database)
                if encoder.streams[session] == nil { encoder.revoke(listen.path, session) }
            }
            if !denied.isEmpty, encoder.streams[session] != nil { encoder.cancelStream(session) }
        }
    }

    /// A key for a new child: keys ascend in the order of commits.
    func nextPushID() -> Key {
        var generator = SystemRandomNumberGenerator()
        let random = PushIDGenerator.RandomBits(high: generator.next(), low: generator.next())
        return pushIDs.next(milliseconds: clock.now(), random: random)
    }

    // MARK: The durable barrier

    /// Ends a batch: its entries go to the journal, its outputs wait for the last of them.
    private func seal() {
        if let journal, !entries.isEmpty {
            journal.post(entries)
            entries.removeAll(keepingCapacity: true)
        }
        if journal == nil { durableTicket = ticket }
        let batches = encoder.takeBatches()
        if answeredByteCount > 0 || batches.contains(where: { !$0.isEmpty }) {
            switch outputCongestion.add(batches.reduce(0) { $0 + $1.byteCount }) {
            case .goOn: break
            case .pause: isWaiting = true
            case .tellAll: isWaiting = false
            }
            held.append(Held(ticket: ticket, batches: batches, byteCount: answeredByteCount))
            answeredByteCount = 0
        }
        release()
        if let onDrained, durableTicket == ticket, held.isEmpty {
            self.onDrained = nil
            onDrained()
        }
    }

    /// Lets out what has become durable, in order.
    private func release() {
        var count = 0
        var resumes = false
        while count < held.count, held[count].ticket <= durableTicket {
            if congestion.remove(held[count].byteCount) { resumes = true }
            for (loop, batch) in held[count].batches.enumerated() where !batch.isEmpty { loops[loop].post(batch) }
            count += 1
        }
        held.removeFirst(count)
        if resumes {
            for loop in loops { loop.post(OutputBatch(items: [.resumeReading])) }
        }
    }
}

import PandoBytes
import PandoEngine
import PandoJournal
import PandoRules
import PandoTree

/// What a data directory holds: every namespace with its tree, rules, settings and pending onDisconnect
/// writes. Recovery builds it from the records of a checkpoint and of the journal behind it.
package struct RecoveredState: RecoveryTarget, Sendable {
    /// By the number of their namespace in the journal.
    package private(set) var databases: [UInt32: StoredDatabase] = [:]
    /// The number that the next namespace gets. Numbers are never used again, so that a record of a deleted
    /// namespace cannot change a new one.
    package internal(set) var nextNamespace: UInt32 = Self.standardNamespace + 1
    /// The latest timestamp of a record or of the checkpoint, in milliseconds since 1970.
    package private(set) var lastTime: Int64 = 0

    /// The number of ``NamespaceName/standard``, which exists without a record.
    static let standardNamespace: UInt32 = 1

    /// Problems that recovery works around, each in a sentence for the operator.
    package private(set) var warnings: [String] = []

    /// Where the progress is counted.
    package var metrics: StorageMetrics?

    private let access: Access
    /// Rules that take precedence over stored ones, by namespace.
    package let fileRules: [String: Ruleset]

    /// - Parameters:
    ///   - access: What clients may do in a database without rules.
    ///   - fileRules: Rules that take precedence over stored ones, by namespace.
    package init(access: Access, fileRules: [String: Ruleset] = [:]) {
        self.access = access
        self.fileRules = fileRules
        startOver()
    }

    /// Forgets everything: recovery begins again with an older checkpoint.
    package mutating func startOver() {
        databases = [:]
        nextNamespace = Self.standardNamespace + 1
        lastTime = 0
        warnings = []
        make(NamespaceName.standard, Self.standardNamespace)
    }

    /// Notes the time of the checkpoint that was read: where all databases are empty, it has no record that
    /// says it.
    mutating func noteTime(of checkpoint: CheckpointHeader?) {
        if let checkpoint { lastTime = max(lastTime, checkpoint.timestamp) }
    }

    /// Notes the time of records that were appended to those that were read: no later record is before it.
    mutating func noteTime(_ time: Int64) { lastTime = max(lastTime, time) }

    mutating func make(_ name: String, _ id: UInt32) {
        databases[id] = StoredDatabase(id: id, name: name, access: access, fileRules: fileRules[name])
    }

    /// The names of all namespaces, sorted.
    package var namespaceNames: [String] {
        databases.values.map(\.name).sorted()
    }

    /// The number of a namespace in the journal, and its tree; nil where there is none of that name.
    package func database(named name: String) -> (id: UInt32, root: Node)? {
        databases.values.first { $0.name == name }.map { ($0.id, $0.engine.root) }
    }

    /// The record that creates a namespace; nil where `name` is not a valid name.
    /// - Parameter time: Milliseconds since 1970.
    package func creationRecord(ofNamespace name: String, at time: Int64) -> JournalRecord? {
        NamespaceName.canonical(name).map {
            JournalRecord(.namespaceMade, namespace: nextNamespace, timestamp: time, payload: Array($0.utf8))
        }
    }

    /// Applies one record of a checkpoint.
    /// - Throws: ``EntryRejection`` for a record that makes no sense.
    package mutating func restore(_ record: borrowing RecoveredRecord) throws(EntryRejection) {
        metrics?.recoveredRecords.add()
        metrics?.recoveredBytes.add(record.payload.byteCount)
        do throws(UnreadableRecord) {
            try replay(
                record.kind, namespace: record.namespace, time: record.timestamp, payload: record.payload)
        } catch {
            throw EntryRejection(error.reason)
        }
    }

    /// Applies one entry of the journal.
    /// - Throws: ``EntryRejection`` for a record that makes no sense.
    package mutating func replay(_ entry: borrowing RecoveredEntry) throws(EntryRejection) {
        try entry.forEach { record throws(EntryRejection) in try restore(record) }
    }

    private mutating func load(_ source: [UInt8], into namespace: UInt32) {
        databases[namespace]?.invalidRules = nil
        do throws(InvalidRules) {
            databases[namespace]?.storedAccess = .loaded(try Ruleset(loading: source))
        } catch {
            // Another version accepted them. The server starts all the same: the data stays available to
            // administrators, and everything is denied to others.
            databases[namespace]?.storedAccess = .locked
            databases[namespace]?.invalidRules = source
            let name = databases[namespace]?.name ?? "?"
            warnings.append(
                "\(name): the stored rules are not valid, so everything is denied until they are replaced: \(error)"
            )
        }
    }

    /// Applies one record.
    /// - Parameter time: Milliseconds since 1970.
    /// - Throws: ``UnreadableRecord`` for one that makes no sense.
    package mutating func replay(
        _ kind: RecordKind, namespace: UInt32, time: Int64, payload: RawSpan
    ) throws(UnreadableRecord) {
        lastTime = max(lastTime, time)
        switch kind {
        case .delta, .authoredDelta, .tree, .onDisconnectRegistered, .onDisconnectCancelled:
            guard let recordKind = EngineRecord.Kind(kind), databases[namespace] != nil else {
                throw UnreadableRecord(reason: "namespace \(namespace) does not exist")
            }
            try databases[namespace]?.engine.replay(recordKind, payload)
        case .namespaceMade:
            guard databases[namespace] == nil, let name = NamespaceName.canonical(Self.text(payload)) else {
                throw UnreadableRecord(
                    reason: "namespace \(namespace) exists already, or its name is not valid")
            }
            make(name, namespace)
            retire(namespace)
        case .namespaceDeleted:
            // It exists without a record, so no checkpoint could say that it does not.
            guard namespace != Self.standardNamespace else {
                throw UnreadableRecord(reason: "the database \(NamespaceName.standard) cannot be deleted")
            }
            databases[namespace] = nil
            retire(namespace)
        case .rules: load(withCursor(over: payload) { $0.array(0..<$0.count) }, into: namespace)
        case .publishedRules: load(try RulesPublication(reading: payload).source, into: namespace)
        case .settings:
            let setting = withCursor(over: payload) { cursor -> (String, [UInt8])? in
                guard let name = try? cursor.readCounted() else { return nil }
                return (cursor.string(name), cursor.array(cursor.offset..<cursor.count))
            }
            guard let (name, json) = setting else {
                throw UnreadableRecord(reason: "a setting without a name")
            }
            databases[namespace]?.settings[name] = json
        }
    }

    /// Keeps a number from being used again.
    private mutating func retire(_ namespace: UInt32) {
        nextNamespace = max(nextNamespace, namespace.addingReportingOverflow(1).partialValue)
    }

    private static func text(_ payload: RawSpan) -> String {
        withCursor(over: payload) { $0.string(0..<$0.count) }
    }

    /// Ends the sessions that the process had when it died: their onDisconnect writes run now (realtime
    /// §12).
    /// - Parameters:
    ///   - time: Milliseconds since 1970.
    ///   - append: Gets the records of one session, which are one entry of the journal. When it returns
    ///     false, this session and all behind it are left in ``unendedSessions``.
    /// - Throws: What `append` throws.
    func endDeadSessions<Failure: Error>(
        at time: Int64, append: (_ namespace: UInt32, [EngineRecord]) throws(Failure) -> Bool
    ) throws(Failure) {
        for (database, session) in unendedSessions {
            let delta = database.engine.decide(
                Command(session: session, credential: .anonymous, time: time, operation: .endSession))
            guard try append(database.id, delta.records(hadQueue: true)) else { return }
            _ = database.engine.commit(delta)
        }
    }

    /// The sessions with pending onDisconnect writes: before a server runs, those of the last process. In the
    /// order in which they are to be ended. O(sessions).
    package var unendedSessions: [(database: StoredDatabase, session: SessionID)] {
        databases.values.sorted { $0.id < $1.id }.flatMap { database in
            database.engine.sessionsWithQueue.map { (database, $0) }
        }
    }
}

extension EngineRecord.Kind {
    /// Nil for the kinds that are not of the engine.
    init?(_ kind: RecordKind) {
        switch kind {
        case .delta: self = .delta
        case .authoredDelta: self = .authoredDelta
        case .tree: self = .tree
        case .onDisconnectRegistered: self = .onDisconnectRegistered
        case .onDisconnectCancelled: self = .onDisconnectCancelled
        case .rules, .publishedRules, .settings, .namespaceMade, .namespaceDeleted: return nil
        }
    }

    /// The kind under which the journal stores it.
    package var journalKind: RecordKind {
        switch self {
        case .delta: .delta
        case .authoredDelta: .authoredDelta
        case .tree: .tree
        case .onDisconnectRegistered: .onDisconnectRegistered
        case .onDisconnectCancelled: .onDisconnectCancelled
        }
    }
}

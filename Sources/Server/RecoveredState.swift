import PandoBytes
import PandoEngine
import PandoJournal
import PandoRules

/// What a data directory holds: every namespace with its tree and its pending onDisconnect writes.
package struct RecoveredState: Sendable {
    /// By the number under which the journal knows them.
    var databases: [UInt32: Database] = [:]
    /// Numbers are never used again, so that a record of a deleted namespace cannot speak for a new one.
    var nextNamespace: UInt32 = Self.standardNamespace + 1
    /// The latest time written down, in milliseconds since 1970.
    var lastTime: Int64 = 0

    /// `default` exists without a record.
    static let standardNamespace: UInt32 = 1

    private let access: Access

    /// - Parameter access: What every database allows until rules say otherwise.
    package init(access: Access) {
        self.access = access
        databases[Self.standardNamespace] = Database(
            id: Self.standardNamespace, name: NamespaceName.standard, engine: Engine(access: access))
    }

    /// Names of the namespaces there are, in order.
    package var namespaceNames: [String] {
        databases.values.map(\.name).sorted()
    }

    package func database(named name: String) -> (id: UInt32, engine: Engine)? {
        databases.values.first { $0.name == name }.map { ($0.id, $0.engine) }
    }

    /// The record that makes a namespace; nil when that is no name for one.
    package func creationRecord(ofNamespace name: String, at time: Int64) -> JournalRecord? {
        NamespaceName.canonical(name).map {
            JournalRecord(.namespaceMade, namespace: nextNamespace, timestamp: time, payload: Array($0.utf8))
        }
    }

    /// Does again what one record says.
    package mutating func replay(
        _ kind: RecordKind, namespace: UInt32, time: Int64, payload: RawSpan
    ) throws(UnreadableRecord) {
        lastTime = max(lastTime, time)
        switch kind {
        case .delta, .onDisconnectRegistered, .onDisconnectCancelled:
            guard let logKind = LogRecord.Kind(kind), databases[namespace] != nil else {
                throw UnreadableRecord(reason: "namespace \(namespace) does not exist")
            }
            try databases[namespace]?.engine.replay(logKind, payload)
        case .namespaceMade:
            guard databases[namespace] == nil, let name = NamespaceName.canonical(Self.text(payload)) else {
                throw UnreadableRecord(reason: "namespace \(namespace) exists already, or its name is no name")
            }
            databases[namespace] = Database(id: namespace, name: name, engine: Engine(access: access))
            nextNamespace = max(nextNamespace, namespace + 1)
        case .namespaceDeleted:
            databases[namespace] = nil
        case .rules:
            do throws(InvalidRules) {
                databases[namespace]?.engine.access = .loaded(
                    try Ruleset(loading: withCursor(over: payload) { $0.array(0..<$0.count) }))
            } catch {
                throw UnreadableRecord(reason: "rules that cannot be read: \(error)")
            }
        case .settings:
            let setting = withCursor(over: payload) { cursor -> (String, [UInt8])? in
                guard let name = try? cursor.readCounted() else { return nil }
                return (cursor.string(name), cursor.array(cursor.offset..<cursor.count))
            }
            guard let (name, json) = setting else { throw UnreadableRecord(reason: "a setting without a name") }
            databases[namespace]?.settings[name] = json
        }
    }

    private static func text(_ payload: RawSpan) -> String {
        withCursor(over: payload) { $0.string(0..<$0.count) }
    }

    /// Ends the sessions that died with the process: their onDisconnect writes run now (wire-protocol §12).
    /// - Returns: The records that say so, one entry for each session, for the journal.
    mutating func endDeadSessions(at time: Int64) -> [(namespace: UInt32, records: [LogRecord])] {
        var entries: [(namespace: UInt32, records: [LogRecord])] = []
        for id in databases.keys.sorted() {
            guard let database = databases[id] else { continue }
            for session in database.engine.sessionsWithQueue {
                let command = Command(session: session, credential: .anonymous, time: time, operation: .endSession)
                let (delta, _) = database.engine.run(command)
                entries.append((id, delta.records(hadQueue: true)))
            }
        }
        return entries
    }
}

extension LogRecord.Kind {
    init?(_ kind: RecordKind) {
        switch kind {
        case .delta: self = .delta
        case .onDisconnectRegistered: self = .onDisconnectRegistered
        case .onDisconnectCancelled: self = .onDisconnectCancelled
        case .rules, .settings, .namespaceMade, .namespaceDeleted: return nil
        }
    }

    package var journalKind: RecordKind {
        switch self {
        case .delta: .delta
        case .onDisconnectRegistered: .onDisconnectRegistered
        case .onDisconnectCancelled: .onDisconnectCancelled
        }
    }
}

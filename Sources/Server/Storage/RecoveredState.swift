import PandoBytes
import PandoEngine
import PandoJournal
import PandoRules
import PandoTree

/// What a data directory holds: every namespace with its tree and its pending onDisconnect writes.
package struct RecoveredState: RecoveryTarget, Sendable {
    /// By the number under which the journal knows them.
    var databases: [UInt32: Database] = [:]
    /// Numbers are never used again, so that a record of a deleted namespace cannot speak for a new one.
    var nextNamespace: UInt32 = Self.standardNamespace + 1
    /// The latest time written down, in milliseconds since 1970.
    var lastTime: Int64 = 0

    /// `default` exists without a record.
    static let standardNamespace: UInt32 = 1

    /// What was let pass although it is not as it should be, in words for the operator.
    private(set) var warnings: [String] = []

    private let access: Access
    let fileRules: [String: Ruleset]

    /// - Parameters:
    ///   - access: What every database allows until rules say otherwise.
    ///   - fileRules: Rules that rule over stored ones, by namespace.
    package init(access: Access, fileRules: [String: Ruleset] = [:]) {
        self.access = access
        self.fileRules = fileRules
        startOver()
    }

    package mutating func startOver() {
        databases = [:]
        nextNamespace = Self.standardNamespace + 1
        lastTime = 0
        warnings = []
        make(NamespaceName.standard, Self.standardNamespace)
    }

    mutating func make(_ name: String, _ id: UInt32) {
        databases[id] = Database(id: id, name: name, access: access, fileRules: fileRules[name])
    }

    /// Names of the namespaces there are, in order.
    package var namespaceNames: [String] {
        databases.values.map(\.name).sorted()
    }

    /// The number of a namespace in the journal, and its tree; nil where there is none of that name.
    package func database(named name: String) -> (id: UInt32, root: Node)? {
        databases.values.first { $0.name == name }.map { ($0.id, $0.engine.root) }
    }

    /// The record that makes a namespace; nil when that is no name for one.
    package func creationRecord(ofNamespace name: String, at time: Int64) -> JournalRecord? {
        NamespaceName.canonical(name).map {
            JournalRecord(.namespaceMade, namespace: nextNamespace, timestamp: time, payload: Array($0.utf8))
        }
    }

    package mutating func restore(_ record: borrowing RecoveredRecord) throws(EntryRejection) {
        do throws(UnreadableRecord) {
            try replay(
                record.kind, namespace: record.namespace, time: record.timestamp, payload: record.payload)
        } catch {
            throw EntryRejection(error.reason)
        }
    }

    package mutating func replay(_ entry: borrowing RecoveredEntry) throws(EntryRejection) {
        try entry.forEach { record throws(EntryRejection) in try restore(record) }
    }

    /// Does again what one record says.
    package mutating func replay(
        _ kind: RecordKind, namespace: UInt32, time: Int64, payload: RawSpan
    ) throws(UnreadableRecord) {
        lastTime = max(lastTime, time)
        switch kind {
        case .delta, .tree, .onDisconnectRegistered, .onDisconnectCancelled:
            guard let logKind = LogRecord.Kind(kind), databases[namespace] != nil else {
                throw UnreadableRecord(reason: "namespace \(namespace) does not exist")
            }
            try databases[namespace]?.engine.replay(logKind, payload)
        case .namespaceMade:
            guard databases[namespace] == nil, let name = NamespaceName.canonical(Self.text(payload)) else {
                throw UnreadableRecord(
                    reason: "namespace \(namespace) exists already, or its name is no name")
            }
            make(name, namespace)
            use(namespace)
        case .namespaceDeleted:
            databases[namespace] = nil
            use(namespace)
        case .rules:
            databases[namespace]?.invalidRules = nil
            do throws(InvalidRules) {
                databases[namespace]?.storedAccess = .loaded(
                    try Ruleset(loading: withCursor(over: payload) { $0.array(0..<$0.count) }))
            } catch {
                // They were taken by a version that understood less of them. The data must not be held
                // hostage.
                databases[namespace]?.storedAccess = .locked
                databases[namespace]?.invalidRules = withCursor(over: payload) { $0.array(0..<$0.count) }
                let name = databases[namespace]?.name ?? "?"
                warnings.append(
                    "\(name): stored rules are not valid, everything is denied until they are replaced: \(error)"
                )
            }
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

    /// Never makes a namespace of that number again.
    private mutating func use(_ namespace: UInt32) {
        nextNamespace = max(nextNamespace, namespace.addingReportingOverflow(1).partialValue)
    }

    private static func text(_ payload: RawSpan) -> String {
        withCursor(over: payload) { $0.string(0..<$0.count) }
    }

    /// Ends the sessions that died with the process: their onDisconnect writes run now (realtime §12).
    /// - Returns: The records that say so, one entry for each session, for the journal.
    mutating func endDeadSessions(at time: Int64) -> [(namespace: UInt32, records: [LogRecord])] {
        var entries: [(namespace: UInt32, records: [LogRecord])] = []
        for id in databases.keys.sorted() {
            guard let database = databases[id] else { continue }
            for session in database.engine.sessionsWithQueue {
                let command = Command(
                    session: session, credential: .anonymous, time: time, operation: .endSession)
                let (delta, _) = database.engine.execute(command)
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
        case .tree: self = .tree
        case .onDisconnectRegistered: self = .onDisconnectRegistered
        case .onDisconnectCancelled: self = .onDisconnectCancelled
        case .rules, .settings, .namespaceMade, .namespaceDeleted: return nil
        }
    }

    package var journalKind: RecordKind {
        switch self {
        case .delta: .delta
        case .tree: .tree
        case .onDisconnectRegistered: .onDisconnectRegistered
        case .onDisconnectCancelled: .onDisconnectCancelled
        }
    }
}

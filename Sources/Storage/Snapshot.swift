import PandoBytes
import PandoEngine
import PandoJournal
import PandoTree

/// Everything that a data directory holds, as it is between two commands. Another thread writes a checkpoint
/// from it while commands go on. The trees are shared with the engines: whichever side changes one first
/// copies the pages that it changes.
package struct Snapshot: Sendable {
    struct Database: Sendable {
        var id: UInt32
        var name: String
        var root: Node
        /// The source of the stored rules; nil where there are none.
        var rules: [UInt8]?
        /// In the order of their names.
        var settings: [(name: String, json: [UInt8])]
        /// The pending onDisconnect writes.
        var queue: QueueSnapshot
    }

    /// In the order of their numbers.
    var databases: [Database]
    var nextNamespace: UInt32
    /// Milliseconds since 1970.
    var time: Int64

    /// - Parameters:
    ///   - nextNamespace: The number that the next namespace gets.
    ///   - time: Milliseconds since 1970.
    /// - Complexity: O(databases + sessions).
    package init(_ databases: some Sequence<StoredDatabase>, nextNamespace: UInt32, time: Int64) {
        self.databases = databases.map(Database.init).sorted { $0.id < $1.id }
        self.nextNamespace = nextNamespace
        self.time = time
    }

    /// How large all trees together are. O(nodes).
    package var treeSize: TreeSize {
        var size = TreeSize()
        for database in databases { database.root.count(into: &size) }
        return size
    }

    /// Gives the records from which recovery makes the same state (``RecoveredState``), one at a time, each
    /// of at most about 1 MiB unless a single string, ruleset or pending write is longer.
    /// - Throws: What `body` throws.
    package func forEachRecord<Failure: Error>(
        _ body: (RecordKind, _ namespace: UInt32, _ payload: [UInt8]) throws(Failure) -> Void
    ) throws(Failure) {
        var records = SnapshotRecords(of: self)
        while let record = records.next() { try body(record.kind, record.namespace, record.payload) }
    }
}

/// The records of a snapshot, made one at a time.
struct SnapshotRecords: Sendable {
    struct Record {
        var kind: RecordKind
        var namespace: UInt32
        var payload: [UInt8]
    }

    private let snapshot: Snapshot
    private let treeByteLimit: Int
    /// The next database.
    private var index = 0
    /// Records other than those of a tree, in order; those before `readyIndex` were returned.
    private var ready: [Record] = []
    private var readyIndex = 0
    /// The tree of the database before ``index``; its records come behind ``ready``.
    private var tree: TreeRecords?
    private var isFinished = false

    /// - Parameter treeByteLimit: Bytes of one record of a tree; one that cannot be split may be longer.
    init(of snapshot: Snapshot, treeByteLimit: Int = treeRecordByteLimit) {
        self.snapshot = snapshot
        self.treeByteLimit = treeByteLimit
    }

    /// The next record; nil after the last.
    mutating func next() -> Record? {
        while true {
            if readyIndex < ready.count {
                defer { readyIndex += 1 }
                return ready[readyIndex]
            }
            ready = []
            readyIndex = 0
            if tree != nil {
                let id = snapshot.databases[index - 1].id
                if let record = tree?.next() {
                    return Record(kind: .tree, namespace: id, payload: record.payload)
                }
                tree = nil
                ready = snapshot.databases[index - 1].queue.records.map {
                    Record(kind: $0.kind.journalKind, namespace: id, payload: $0.payload)
                }
            } else if index < snapshot.databases.count {
                begin(snapshot.databases[index])
                index += 1
            } else if !isFinished {
                isFinished = true
                // The number of a deleted database is not used again.
                let last = snapshot.nextNamespace &- 1
                if last > RecoveredState.standardNamespace, snapshot.databases.last?.id != last {
                    ready = [Record(kind: .namespaceDeleted, namespace: last, payload: [])]
                }
            } else {
                return nil
            }
        }
    }

    private mutating func begin(_ database: Snapshot.Database) {
        let id = database.id
        if id != RecoveredState.standardNamespace {
            ready.append(Record(kind: .namespaceMade, namespace: id, payload: Array(database.name.utf8)))
        }
        if let rules = database.rules { ready.append(Record(kind: .rules, namespace: id, payload: rules)) }
        for setting in database.settings {
            ready.append(
                Record(
                    kind: .settings, namespace: id,
                    payload: RecoveredState.settingPayload(setting.name, setting.json)))
        }
        tree = TreeRecords(of: database.root, byteLimit: treeByteLimit)
    }
}

extension Snapshot.Database {
    init(_ database: StoredDatabase) {
        id = database.id
        name = database.name
        root = database.engine.root
        // Not those of `--rules`: they are read at every start.
        if case .loaded(let loaded) = database.storedAccess { rules = loaded.source.bytes }
        if let invalid = database.invalidRules { rules = invalid }
        settings = database.settings.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
        queue = database.engine.queueSnapshot
    }
}

extension RecoveredState {
    /// The payload of a settings record: the name with its length, and the JSON.
    package static func settingPayload(_ name: String, _ json: [UInt8]) -> [UInt8] {
        var payload: [UInt8] = []
        payload.append(counted: name)
        payload += json
        return payload
    }

    /// What a checkpoint of this state is written from.
    package var snapshot: Snapshot {
        Snapshot(databases.values, nextNamespace: nextNamespace, time: lastTime)
    }
}

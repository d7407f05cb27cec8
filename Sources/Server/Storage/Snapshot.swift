import PandoBytes
import PandoEngine
import PandoJournal
import PandoTree

/// Everything a data directory must hold, as it is between two commands: what a checkpoint is written from,
/// by another thread, while commands go on. Trees are shared with the engines; whichever changes first copies
/// the pages it touches.
struct Snapshot: Sendable {
    struct Namespace: Sendable {
        var id: UInt32
        var name: String
        var root: Node
        /// The source of the rules that were loaded.
        var rules: [UInt8]?
        /// By name.
        var settings: [(name: String, json: [UInt8])]
        var queue: QueueSnapshot
    }

    /// By number.
    var namespaces: [Namespace]
    var nextNamespace: UInt32
    /// Milliseconds since 1970.
    var time: Int64

    /// - Complexity: O(databases + sessions).
    init(_ databases: some Sequence<Database>, nextNamespace: UInt32, time: Int64) {
        namespaces = databases.map(Namespace.init).sorted { $0.id < $1.id }
        self.nextNamespace = nextNamespace
        self.time = time
    }

    /// Gives the records that make the same state again (``RecoveredState``), one at a time, each at most a
    /// mebibyte but for a longer string, rules, or a pending write.
    func forEachRecord<Failure: Error>(
        _ body: (RecordKind, _ namespace: UInt32, _ payload: [UInt8]) throws(Failure) -> Void
    ) throws(Failure) {
        var records = SnapshotRecords(of: self)
        while let record = records.next() { try body(record.kind, record.namespace, record.payload) }
    }
}

/// The records of a snapshot, made one at a time, by whoever writes them down or sends them when he can.
struct SnapshotRecords: Sendable {
    struct Record {
        var kind: RecordKind
        var namespace: UInt32
        var payload: [UInt8]
    }

    private let snapshot: Snapshot
    private let treeByteLimit: Int
    /// The namespace whose turn is next.
    private var index = 0
    /// Small ones, in order; those before `readyIndex` are given.
    private var ready: [Record] = []
    private var readyIndex = 0
    /// Of the namespace before ``index``, behind what is ready.
    private var tree: TreeRecords?
    private var isOver = false

    /// - Parameter treeByteLimit: Bytes of one record, but for those that cannot be parted.
    init(of snapshot: Snapshot, treeByteLimit: Int = treeRecordByteLimit) {
        self.snapshot = snapshot
        self.treeByteLimit = treeByteLimit
    }

    /// - Returns: Nil behind the last.
    mutating func next() -> Record? {
        while true {
            if readyIndex < ready.count {
                defer { readyIndex += 1 }
                return ready[readyIndex]
            }
            ready = []
            readyIndex = 0
            if tree != nil {
                let id = snapshot.namespaces[index - 1].id
                if let record = tree?.next() {
                    return Record(kind: .tree, namespace: id, payload: record.payload)
                }
                tree = nil
                ready = snapshot.namespaces[index - 1].queue.records.map {
                    Record(kind: $0.kind.journalKind, namespace: id, payload: $0.payload)
                }
            } else if index < snapshot.namespaces.count {
                begin(snapshot.namespaces[index])
                index += 1
            } else if !isOver {
                isOver = true
                // A number that is used up stays so, though its namespace is gone.
                let last = snapshot.nextNamespace &- 1
                if last > RecoveredState.standardNamespace, snapshot.namespaces.last?.id != last {
                    ready = [Record(kind: .namespaceDeleted, namespace: last, payload: [])]
                }
            } else {
                return nil
            }
        }
    }

    private mutating func begin(_ namespace: Snapshot.Namespace) {
        let id = namespace.id
        if id != RecoveredState.standardNamespace {
            ready.append(Record(kind: .namespaceMade, namespace: id, payload: Array(namespace.name.utf8)))
        }
        if let rules = namespace.rules { ready.append(Record(kind: .rules, namespace: id, payload: rules)) }
        for setting in namespace.settings {
            ready.append(
                Record(
                    kind: .settings, namespace: id,
                    payload: RecoveredState.settingPayload(setting.name, setting.json)))
        }
        tree = TreeRecords(of: namespace.root, byteLimit: treeByteLimit)
    }
}

extension Snapshot.Namespace {
    init(_ database: Database) {
        id = database.id
        name = database.name
        root = database.engine.root
        // Not those of files: they are given at every start.
        if case .loaded(let loaded) = database.storedAccess { rules = loaded.source.bytes }
        if let invalid = database.invalidRules { rules = invalid }
        settings = database.settings.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
        queue = database.engine.queueSnapshot
    }
}

extension RecoveredState {
    /// The payload of a settings record: its name, counted, and its JSON.
    static func settingPayload(_ name: String, _ json: [UInt8]) -> [UInt8] {
        var payload: [UInt8] = []
        payload.append(counted: name)
        payload += json
        return payload
    }

    /// What a checkpoint of this state is written from.
    var snapshot: Snapshot {
        Snapshot(databases.values, nextNamespace: nextNamespace, time: lastTime)
    }
}

import PandoBytes
import PandoEngine
import PandoJournal
import PandoTree

/// Everything a data directory must hold, as it is between two commands: what a checkpoint is written from, by another
/// thread, while commands go on. Trees are shared with the engines; whichever changes first copies the pages it touches.
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

    /// Gives the records that make the same state again (``RecoveredState``), one at a time, each at most a mebibyte but
    /// for a longer string, rules, or a pending write.
    func forEachRecord<Failure: Error>(
        _ body: (RecordKind, _ namespace: UInt32, _ payload: [UInt8]) throws(Failure) -> Void
    ) throws(Failure) {
        for namespace in namespaces {
            let id = namespace.id
            if id != RecoveredState.standardNamespace {
                try body(.namespaceMade, id, Array(namespace.name.utf8))
            }
            if let rules = namespace.rules { try body(.rules, id, rules) }
            for setting in namespace.settings {
                try body(.settings, id, RecoveredState.settingPayload(setting.name, setting.json))
            }
            try withoutActuallyEscaping(body) { body throws(Failure) in
                var writer = TreeRecordWriter<Failure> { record throws(Failure) in
                    try body(.tree, id, record.payload)
                }
                try writer.write(namespace.root)
            }
            for record in namespace.queue.records { try body(record.kind.journalKind, id, record.payload) }
        }
        // A number that is used up stays so, though its namespace is gone.
        let last = nextNamespace &- 1
        if last > RecoveredState.standardNamespace, namespaces.last?.id != last {
            try body(.namespaceDeleted, last, [])
        }
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

import PandoEngine
import PandoJournal
import PandoTree

// What offline commands change and read.

extension RecoveredState {
    /// Whether `text` is a valid name of a namespace.
    package static func isName(_ text: String) -> Bool { NamespaceName.canonical(text) != nil }

    /// Replaces the data at a location.
    /// - Precondition: The namespace exists.
    /// - Complexity: O(depth).
    package mutating func set(_ node: Node, at path: Path, of namespace: UInt32) {
        guard let database = databases[namespace] else { preconditionFailure("no namespace \(namespace)") }
        database.engine.tree.restore(Change(path: path, node: node))
    }

    /// The number of the namespace of that name, which is created where it does not exist; nil where `name`
    /// is not a valid name.
    package mutating func makeNamespace(_ name: String) -> UInt32? {
        guard let name = NamespaceName.canonical(name) else { return nil }
        if let found = database(named: name) { return found.id }
        // All numbers were used: only a forged directory says so, and it must not crash the process.
        guard nextNamespace < .max else { return nil }
        let id = nextNamespace
        make(name, id)
        nextNamespace += 1
        return id
    }

    /// Milliseconds since 1970: the latest timestamp of a record, or `time` where that is later.
    package func time(notBefore time: Int64) -> Int64 { max(lastTime, time) }

    /// Gives every record from which recovery makes this state, in order, each of at most about 1 MiB unless
    /// a single string, ruleset or pending write is longer.
    /// - Throws: What `body` throws.
    package func forEachRecord<Failure: Error>(
        _ body: (RecordKind, _ namespace: UInt32, _ payload: [UInt8]) throws(Failure) -> Void
    ) throws(Failure) {
        try snapshot.forEachRecord(body)
    }
}

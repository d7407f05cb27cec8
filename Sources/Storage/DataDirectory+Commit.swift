import PandoEngine
import PandoJournal
import PandoTree

// Changes of a whole directory while no server runs on it: imports and namespace commands. A change takes
// effect when a checkpoint gets its name: all of it or nothing.

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

extension DataDirectory {
    /// Replaces the content of the directory by `state`, behind everything that its journal holds: a
    /// checkpoint is written beside the existing files, synced, and takes effect with one rename. After a
    /// crash the new state is there completely or not at all.
    /// - Parameters:
    ///   - journal: Of the same directory; it holds the lock.
    ///   - time: Milliseconds since 1970.
    ///   - progress: Called after each record with the bytes encoded so far.
    ///   - warn: Gets a sentence for the operator where the change took effect, and old files could not be
    ///     removed.
    /// - Returns: The header of the checkpoint.
    /// - Throws: ``StorageError/disk(_:)``; then the directory holds what it held before.
    package static func commit(
        _ state: RecoveredState, to path: String, behind journal: borrowing Journal<SystemDisk>,
        at time: Int64,
        progress: (_ byteCount: Int) -> Void, warn: (String) -> Void
    ) throws(StorageError) -> CheckpointHeader {
        let disk: SystemDisk
        do throws(DiskFailure) { disk = try SystemDisk(directory: path, create: false) } catch {
            throw .disk(error.description)
        }
        return try commit(state, to: disk, behind: journal, at: time, progress: progress, warn: warn)
    }

    /// The same on any disk.
    /// - Throws: ``StorageError/disk(_:)``; then the directory holds what it held before.
    static func commit<Storage: Disk>(
        _ state: RecoveredState, to disk: Storage, behind journal: borrowing Journal<Storage>, at time: Int64,
        progress: (_ byteCount: Int) -> Void, warn: (String) -> Void
    ) throws(StorageError) -> CheckpointHeader {
        let header = CheckpointHeader(
            directory: journal.directory, timeline: journal.timeline,
            sequence: journal.lastAppended.successor,
            timestamp: state.time(notBefore: time), beginsJournal: true)
        do throws(DiskFailure) { try write(state, as: header, on: disk, progress: progress) } catch {
            throw .disk(error.description)
        }
        do throws(DiskFailure) {
            _ = try removeSuperseded(
                on: disk, timeline: header.timeline, keepingCheckpoints: keptCheckpointCount)
        } catch {
            warn(
                "everything is there, but old checkpoints and segments cannot be removed now; the server removes them after its next checkpoint: \(error)"
            )
        }
        return header
    }

    private static let keptCheckpointCount = StorageOptions().keptCheckpointCount

    /// Writes `state` as a checkpoint, with a second thread for the disk.
    static func write(
        _ state: RecoveredState, as header: CheckpointHeader, on disk: some Disk,
        progress: (_ byteCount: Int) -> Void
    ) throws(DiskFailure) {
        var pipe = try CheckpointPipe(header, on: disk)
        do throws(DiskFailure) {
            try state.forEachRecord { kind, namespace, payload throws(DiskFailure) in
                try pipe.append(kind, namespace: namespace, payload: payload.rawSpan)
                progress(pipe.byteCount)
            }
        } catch {
            // The first failure is reported, not what abandoning may add to it.
            try? pipe.abandon()
            throw error
        }
        try pipe.finish()
    }
}

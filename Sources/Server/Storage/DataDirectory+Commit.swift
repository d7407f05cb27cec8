import PandoEngine
import PandoJournal
import PandoTree

// What changes a directory as a whole, while no server runs on it: all of it happens in the moment in which a
// checkpoint gets its name, or nothing does.

extension RecoveredState {
    /// Whether a namespace can have that name.
    package static func isName(_ text: String) -> Bool { NamespaceName.canonical(text) != nil }

    /// Replaces what is at a location.
    /// - Precondition: The namespace exists.
    package mutating func set(_ node: Node, at path: Path, of namespace: UInt32) {
        guard let database = databases[namespace] else { preconditionFailure("no namespace \(namespace)") }
        database.engine.restore(Change(path: path, node: node))
    }

    /// The number of the namespace of that name, which is made if there is none; nil when that is no name for
    /// one.
    package mutating func makeNamespace(_ name: String) -> UInt32? {
        guard let name = NamespaceName.canonical(name) else { return nil }
        if let found = database(named: name) { return found.id }
        // Every number was used: no directory of ours, but a trap must not be what says so.
        guard nextNamespace < .max else { return nil }
        let id = nextNamespace
        make(name, id)
        nextNamespace += 1
        return id
    }

    /// Milliseconds since 1970: the latest time that was written down, or `time` if that is later.
    package func time(notBefore time: Int64) -> Int64 { max(lastTime, time) }

    /// Gives every record that makes this state again, in order. The bytes of each are at most about a
    /// mebibyte, but for one that cannot be parted.
    package func forEachRecord<Failure: Error>(
        _ body: (RecordKind, _ namespace: UInt32, _ payload: [UInt8]) throws(Failure) -> Void
    ) throws(Failure) {
        try snapshot.forEachRecord(body)
    }
}

extension DataDirectory {
    /// Makes `state` what the directory holds, behind everything its log has: written beside what is there,
    /// synced, and then, with one rename, all of it. After a crash it is all there or nothing is.
    /// - Parameters:
    ///   - journal: Of the same directory: its lock is held.
    ///   - time: In milliseconds since 1970.
    ///   - progress: Is told now and then how many bytes were written.
    /// - Returns: What was written.
    package static func commit(
        _ state: RecoveredState, to path: String, behind journal: borrowing Journal<SystemDisk>,
        at time: Int64,
        progress: (_ byteCount: Int) -> Void
    ) throws(StartError) -> CheckpointHeader {
        let header = CheckpointHeader(
            directory: journal.directory, timeline: journal.timeline,
            sequence: journal.lastAppended.successor,
            timestamp: state.time(notBefore: time), beginsLog: true)
        do throws(DiskFailure) {
            let disk = try SystemDisk(directory: path, create: false)
            try write(state, as: header, on: disk, progress: progress)
            _ = try removeSuperseded(
                on: disk, timeline: header.timeline, keepingCheckpoints: keptCheckpointCount)
        } catch {
            throw .disk(error.description)
        }
        return header
    }

    /// As many as a server keeps when it is not told otherwise.
    private static let keptCheckpointCount = Configuration().keptCheckpointCount

    static func write(
        _ state: RecoveredState, as header: CheckpointHeader, on disk: SystemDisk,
        progress: (_ byteCount: Int) -> Void
    ) throws(DiskFailure) {
        var pipe = try CheckpointPipe(header, on: disk)
        do throws(DiskFailure) {
            try state.forEachRecord { kind, namespace, payload throws(DiskFailure) in
                try pipe.append(kind, namespace: namespace, payload: payload.rawSpan)
                progress(pipe.byteCount)
            }
        } catch {
            // The disk's own words, which were first, stand.
            try? pipe.abandon()
            throw error
        }
        try pipe.finish()
    }
}

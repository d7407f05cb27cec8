import PandoEngine
import PandoJournal

/// Changes a whole directory while no server runs on it: for imports and namespace commands; `write` also for
/// restores. A change takes effect when a checkpoint gets its name: all of it or nothing.
package enum OfflineCommit {
    /// Replaces the content of the directory by `state`, behind everything that its journal holds: a
    /// checkpoint is written beside the existing files, synced, and takes effect with one rename. After a
    /// crash the new state is there completely or not at all.
    ///
    /// Nothing is removed: how many checkpoints are kept is an option of the server, and so is the archive,
    /// which may lack segments. The server removes what it does not need after its next checkpoint.
    /// - Parameters:
    ///   - journal: Of the same directory; it holds the lock.
    ///   - time: Milliseconds since 1970.
    ///   - progress: Called after each record with the bytes encoded so far.
    /// - Returns: The header of the checkpoint.
    /// - Throws: ``StorageError/disk(_:)``; then the directory holds what it held before.
    package static func commit(
        _ state: RecoveredState, to path: String, behind journal: borrowing Journal<SystemDisk>,
        at time: Int64,
        progress: (_ byteCount: Int) -> Void
    ) throws(StorageError) -> CheckpointHeader {
        let disk: SystemDisk
        do throws(DiskFailure) { disk = try SystemDisk(directory: path, create: false) } catch {
            throw .disk(error.description)
        }
        return try commit(state, to: disk, behind: journal, at: time, progress: progress)
    }

    /// The same on any disk.
    /// - Throws: ``StorageError/disk(_:)``; then the directory holds what it held before.
    static func commit<Storage: Disk>(
        _ state: RecoveredState, to disk: Storage, behind journal: borrowing Journal<Storage>, at time: Int64,
        progress: (_ byteCount: Int) -> Void
    ) throws(StorageError) -> CheckpointHeader {
        let header = CheckpointHeader(
            directory: journal.directory, timeline: journal.timeline,
            sequence: journal.lastAppended.successor,
            timestamp: state.time(notBefore: time), beginsJournal: true)
        do throws(DiskFailure) { try write(state, as: header, on: disk, progress: progress) } catch {
            throw .disk(error.description)
        }
        return header
    }

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

import PandoEngine
import PandoJournal

/// Changes a whole directory while no server runs on it: for imports and namespace commands; `write` also for
/// restores. A change takes effect when a checkpoint gets its name: all of it or nothing.
package enum OfflineCommit {
    /// Replaces the content of the directory by `state`, behind everything that its journal holds: a
    /// checkpoint is written beside the existing files, synced, read once more, and takes effect with one
    /// rename. After a crash the new state is there completely or not at all.
    ///
    /// How many checkpoints are kept is an option of the server, which removes what it does not need after
    /// its next one. Until then their number grows by one only: behind another import, an import removes the
    /// oldest. A failure of that is not one of the import, which has taken effect.
    /// - Parameters:
    ///   - journal: Of the same directory; it holds the lock.
    ///   - time: Milliseconds since 1970.
    ///   - isArchived: Whether a server archives the journal (``BackupUse/isRemembered(in:)``).
    ///   - progress: Called after each record with the bytes encoded so far, and with all of them while they
    ///     are read again.
    /// - Returns: The header of the checkpoint.
    /// - Throws: ``StorageError``; then the directory holds what it held before, unless the error says that
    ///   the change has taken effect.
    package static func commit(
        _ state: RecoveredState, to path: String, behind journal: borrowing Journal<SystemDisk>,
        at time: Int64, isArchived: Bool, progress: (_ byteCount: Int) -> Void
    ) throws(StorageError) -> CheckpointHeader {
        let disk: SystemDisk
        do throws(DiskFailure) { disk = try SystemDisk(directory: path, create: false) } catch {
            throw StorageError(error)
        }
        return try commit(
            state, to: disk, behind: journal, at: time, isArchived: isArchived, progress: progress)
    }

    /// The same on any disk.
    /// - Throws: ``StorageError``, as above.
    static func commit<Storage: Disk>(
        _ state: RecoveredState, to disk: Storage, behind journal: borrowing Journal<Storage>, at time: Int64,
        isArchived: Bool = false, progress: (_ byteCount: Int) -> Void
    ) throws(StorageError) -> CheckpointHeader {
        let header = CheckpointHeader(
            directory: journal.directory, timeline: journal.timeline,
            sequence: journal.lastAppended.successor,
            timestamp: state.time(notBefore: time), beginsJournal: true)
        do throws(JournalError) { try write(state, as: header, on: disk, progress: progress) } catch {
            throw StorageError(error)
        }
        _ = try? removeSuperseded(by: header, behind: journal.recovery, isArchived: isArchived, on: disk)
        return header
    }

    /// Writes `state` as a checkpoint, with a second thread for the disk.
    /// - Throws: ``JournalError``, as ``CheckpointPipe/finish(progress:)`` throws.
    static func write<Storage: Disk>(
        _ state: RecoveredState, as header: CheckpointHeader, on disk: Storage,
        progress: (_ byteCount: Int) -> Void
    ) throws(JournalError) {
        var pipe: CheckpointPipe<Storage>
        do throws(DiskFailure) { pipe = try CheckpointPipe(header, on: disk) } catch { throw .disk(error) }
        do throws(DiskFailure) {
            try state.forEachRecord { kind, namespace, payload throws(DiskFailure) in
                try pipe.append(kind, namespace: namespace, payload: payload.rawSpan)
                progress(pipe.byteCount)
            }
        } catch {
            // The first failure is reported, not what abandoning may add to it.
            try? pipe.abandon()
            throw .disk(error)
        }
        try pipe.finish(progress: progress)
    }
}

import PandoJournal

/// Makes a data directory from what was backed up.
package enum DirectoryRestore {
    /// Makes a data directory that holds `state`, on a timeline of its own, so that no file that was there
    /// before, and no file of the source, is taken for a part of it. Takes effect when the checkpoint, which
    /// is written last, gets its name.
    /// - Parameters:
    ///   - mayReplace: Whether the directory may lose what it holds.
    ///   - directoryID: Random.
    ///   - progress: Called after each record with the bytes encoded so far, and with all of them while they
    ///     are read again.
    /// - Throws: ``StorageError``; `.locked` where another process uses the directory, or where it holds data
    ///   and `mayReplace` is false. Then it is unchanged, unless the error says that the restore has taken
    ///   effect.
    package static func restore(
        _ state: RecoveredState, from source: BackupSummary, to path: String, mayReplace: Bool,
        directoryID: DirectoryID, progress: (_ byteCount: Int) -> Void
    ) throws(StorageError) -> CheckpointHeader {
        let disk: SystemDisk
        do throws(JournalError) { disk = try DataDirectory.openDisk(path, create: true) } catch {
            throw StorageError(error)
        }
        return try restore(
            state, from: source, on: disk, mayReplace: mayReplace, directoryID: directoryID,
            progress: progress)
    }

    /// The same on any disk.
    /// - Throws: ``StorageError``, as above.
    static func restore<Storage: Disk>(
        _ state: RecoveredState, from source: BackupSummary, on disk: Storage, mayReplace: Bool,
        directoryID: DirectoryID, progress: (_ byteCount: Int) -> Void
    ) throws(StorageError) -> CheckpointHeader {
        let header: CheckpointHeader
        do throws(JournalError) {
            header = try write(
                state, from: source, on: disk, mayReplace: mayReplace, directoryID: directoryID,
                progress: progress)
        } catch {
            throw StorageError(error)
        }
        // From here on the restored data counts. The directory is opened as a server opens it: that removes
        // the files of before, and reads every byte once more.
        let recovery: RecoverySummary
        do throws(JournalError) {
            var target = DiscardingTarget()
            let journal = try Journal.open(on: disk, newDirectoryID: directoryID, into: &target)
            recovery = journal.recovery
        } catch {
            throw StorageError(error).afterRestore(of: disk.directory)
        }
        guard recovery.checkpoint == header, recovery.damagedCheckpoints.isEmpty else {
            throw StorageError.badData("a start finds other data than what was restored")
                .afterRestore(of: disk.directory)
        }
        return header
    }

    /// Writes the timeline history, then the checkpoint.
    private static func write<Storage: Disk>(
        _ state: RecoveredState, from source: BackupSummary, on disk: Storage, mayReplace: Bool,
        directoryID: DirectoryID, progress: (_ byteCount: Int) -> Void
    ) throws(JournalError) -> CheckpointHeader {
        let lock = try Journal<Storage>.acquireLock(on: disk)
        defer { withExtendedLifetime(lock) {} }
        let contents: DirectoryContents
        do throws(DiskFailure) { contents = try DirectoryContents(of: disk) } catch { throw .disk(error) }
        let files = contents.journalFiles + contents.otherFiles
        guard files.isEmpty || mayReplace else { throw .notEmpty(directory: disk.directory, file: files[0]) }
        let (timeline, overflows) = max(source.newestTimeline, contents.newestTimeline)
            .addingReportingOverflow(1)
        guard !overflows else { throw .noTimelineLeft(directory: disk.directory) }
        let header = CheckpointHeader(
            directory: directoryID, timeline: timeline, sequence: source.sequence,
            timestamp: source.timestamp,
            beginsJournal: true)
        do throws(DiskFailure) {
            // Before the checkpoint, which is the moment in which all of it takes effect.
            try source.continued(by: timeline, of: directoryID).write(on: disk)
        } catch {
            throw .disk(error)
        }
        try OfflineCommit.write(state, as: header, on: disk, progress: progress)
        return header
    }
}

extension StorageError {
    /// The error of a restore that has taken effect, and is not finished.
    fileprivate func afterRestore(of path: String) -> StorageError {
        let unfinished =
            "\(path): the restore has taken effect, and the next start uses the restored data; but it is not "
            + "finished, which that start does: \(self)"
        return switch self {
        case .locked: .locked(unfinished)
        case .unusable: .unusable(unfinished)
        case .disk: .disk(unfinished)
        case .machine: .machine(unfinished)
        case .badData:
            .badData(
                "\(path): the restore has taken effect, but what it has written cannot be read; restore again, "
                    + "with --replace: \(self)")
        }
    }
}

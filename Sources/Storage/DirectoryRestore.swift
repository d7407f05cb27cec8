import PandoJournal

/// Makes a data directory from what was backed up.
package enum DirectoryRestore {
    /// Makes a data directory that holds `state`, on a timeline of its own, so that no file that was there
    /// before, and no file of the source, is taken for a part of it. Takes effect when the checkpoint, which
    /// is written last, gets its name.
    /// - Parameters:
    ///   - mayReplace: Whether the directory may lose what it holds.
    ///   - directoryID: Random.
    ///   - progress: Called after each record with the bytes encoded so far.
    /// - Throws: ``StorageError``; `.locked` where another process uses the directory, or where it holds data
    ///   and `mayReplace` is false. Then it is unchanged.
    package static func restore(
        _ state: RecoveredState, from source: BackupSummary, to path: String, mayReplace: Bool,
        directoryID: DirectoryID, progress: (_ byteCount: Int) -> Void
    ) throws(StorageError) -> CheckpointHeader {
        do throws(JournalError) {
            let disk = try DataDirectory.openDisk(path, create: true)
            let header = try write(
                state, from: source, on: disk, mayReplace: mayReplace, directoryID: directoryID,
                progress: progress)
            // As a server opens it: that removes the files of before, and reads every byte once more.
            var target = DiscardingTarget()
            _ = try Journal.open(on: disk, newDirectoryID: directoryID, into: &target)
            return header
        } catch {
            throw StorageError(error)
        }
    }

    /// Writes the timeline history, then the checkpoint.
    private static func write(
        _ state: RecoveredState, from source: BackupSummary, on disk: SystemDisk, mayReplace: Bool,
        directoryID: DirectoryID, progress: (_ byteCount: Int) -> Void
    ) throws(JournalError) -> CheckpointHeader {
        let lock = try Journal.acquireLock(on: disk)
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
            try OfflineCommit.write(state, as: header, on: disk, progress: progress)
        } catch {
            throw .disk(error)
        }
        return header
    }
}

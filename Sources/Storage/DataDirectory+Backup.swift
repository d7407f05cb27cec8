import PandoEngine
import PandoJournal

/// Which state of which data directory a backup holds.
package struct BackupSummary: Sendable {
    /// The last record whose effect it holds.
    package var sequence: SequenceNumber
    /// Of that record, or later; milliseconds since 1970.
    package var timestamp: Int64
    package var directory: DirectoryID
    /// That of the last record.
    package var timeline: UInt32
    /// Of that timeline, as far as they are known.
    package var ancestors: [TimelineHistory.Ancestor] = []
    /// The newest timeline that is in use where the backup comes from: a restore begins a later one.
    package var newestTimeline: UInt32

    init(sequence: SequenceNumber, timestamp: Int64, directory: DirectoryID, timeline: UInt32) {
        self.sequence = sequence
        self.timestamp = timestamp
        self.directory = directory
        self.timeline = timeline
        newestTimeline = timeline
    }

    package init(_ header: CheckpointHeader) {
        self.init(
            sequence: header.sequence, timestamp: header.timestamp, directory: header.directory,
            timeline: header.timeline)
    }

    /// The history of a timeline that continues here.
    fileprivate func continued(by timeline: UInt32, of directory: DirectoryID) -> TimelineHistory {
        let source = TimelineHistory(timeline: self.timeline, directory: self.directory, ancestors: ancestors)
        return TimelineHistory(
            timeline: timeline, directory: directory, ancestors: source.ancestors(until: sequence))
    }
}

extension DataDirectory {
    /// Reads a backup that is one file: a checkpoint. Every byte of it is checked.
    /// - Throws: ``StorageError``; `.badData` where the file is not a complete backup. Then `state` is
    ///   unchanged.
    package static func readBackup(
        _ name: String, in directory: String, into state: inout RecoveredState
    ) throws(StorageError) -> BackupSummary {
        var recovered = state
        do throws(JournalError) {
            let disk = try openDisk(directory, create: false)
            let (header, _, _) = try readCheckpoint(name, on: disk, into: &recovered)
            state = recovered
            return BackupSummary(header)
        } catch {
            throw error.ofBackup
        }
    }

    /// Checks every byte of a backup that is one file, without interpreting its records.
    /// - Throws: ``StorageError``; `.badData` where the file is not a complete backup.
    package static func checkBackup(_ name: String, on disk: SystemDisk) throws(StorageError)
        -> CheckpointHeader
    {
        var target = DiscardingTarget()
        do throws(JournalError) { return try readCheckpoint(name, on: disk, into: &target).header } catch {
            throw error.ofBackup
        }
    }

    /// Reads a directory as it was at one moment, or as it is now; a server may run on it.
    /// - Parameter moment: Nil for now.
    /// - Throws: ``StorageError``; `.badData` also where the journal that is kept does not reach that moment.
    package static func read(
        _ path: String, until moment: PointInTime?, into state: inout RecoveredState
    ) throws(StorageError) -> BackupSummary {
        var recovered = state
        let summary: RecoverySummary
        let history: TimelineHistory?
        do throws(JournalError) {
            let disk = try openDisk(path, create: false)
            if let moment {
                summary = try readDirectory(disk, until: moment, into: &recovered)
            } else {
                summary = try readDirectory(disk, into: &recovered)
            }
            history = try TimelineHistory.read(summary.timeline, on: disk)
        } catch {
            throw StorageError(error)
        }
        guard let directory = summary.directory else {
            throw .badData("\(path): the directory holds no data")
        }
        try refuse(moment, ifNotReachedIn: path, summary)
        state = recovered
        var result = BackupSummary(
            sequence: summary.lastSequence, timestamp: recovered.lastTime, directory: directory,
            timeline: summary.timeline)
        result.ancestors = history?.ancestors ?? []
        return result
    }

    /// Refuses a moment that the journal does not reach.
    static func refuse(
        _ moment: PointInTime?, ifNotReachedIn path: String, _ summary: RecoverySummary
    ) throws(StorageError) {
        guard case .sequence(let wanted)? = moment, summary.lastSequence < wanted, !summary.hasReachedMoment
        else { return }
        throw .badData(
            "\(path): the journal ends at sequence \(summary.lastSequence), before sequence \(wanted)")
    }

    /// Copies a directory with its journal, so that every moment that the journal reaches can be restored
    /// from the copy; a server may run on the source. The copy is read once before it gets its name: it
    /// appears complete or not at all.
    /// - Parameters:
    ///   - path: Where the copy is to be: a directory, a name that is free there, and another free name for
    ///     the copy until it is complete.
    ///   - progress: Called now and then with the bytes copied so far.
    /// - Throws: ``StorageError``.
    package static func copy(
        _ source: String, to path: (parent: String, name: String, temporaryName: String),
        progress: (_ byteCount: Int) -> Void
    ) throws(StorageError) -> BackupSummary {
        let temporary = path.parent + "/" + path.temporaryName
        do throws(JournalError) {
            _ = try copyJournal(
                of: openDisk(source, create: false), to: openDisk(temporary, create: true), progress: progress
            )
        } catch {
            throw StorageError(error)
        }
        var state = RecoveredState(access: .locked)
        let summary = try read(temporary, until: nil, into: &state)
        do throws(DiskFailure) {
            let parent = try SystemDisk(directory: path.parent, create: false)
            try parent.rename(path.temporaryName, to: path.name)
            try parent.syncDirectory()
        } catch {
            throw .disk(error.description)
        }
        return summary
    }

    /// Makes a data directory that holds `state`, on a timeline of its own, so that no file that was there
    /// before, and no file of the source, is taken for a part of it. It takes effect when its one file gets
    /// its name.
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
            let disk = try openDisk(path, create: true)
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

    /// Writes the one file.
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
            try write(state, as: header, on: disk, progress: progress)
        } catch {
            throw .disk(error)
        }
        return header
    }

    /// The timeline of a journal, with its ancestors.
    /// - Throws: ``StorageError``; `.badData` for a damaged history.
    package static func timeline(
        of origin: JournalOrigin, on disk: SystemDisk
    ) throws(StorageError) -> TimelineHistory {
        do throws(JournalError) {
            let history = try TimelineHistory.read(origin.timeline, on: disk)
            if let history, history.directory == origin.directory { return history }
            return TimelineHistory(timeline: origin.timeline, directory: origin.directory)
        } catch {
            throw StorageError(error)
        }
    }

    static func openDisk(_ path: String, create: Bool) throws(JournalError) -> SystemDisk {
        do throws(DiskFailure) { return try SystemDisk(directory: path, create: create) } catch {
            throw .disk(error)
        }
    }
}

/// Ignores all records: their checksums are checked by the reader.
struct DiscardingTarget: RecoveryTarget {
    mutating func startOver() {}
    mutating func restore(_ record: borrowing RecoveredRecord) {}
    mutating func replay(_ entry: borrowing RecoveredEntry) {}
}

extension JournalError {
    /// The advice that the journal gives for a damaged journal does not fit a backup, so it is left out.
    var ofBackup: StorageError {
        if case .corrupt(let problem) = self {
            .badData("\(problem): not a complete backup")
        } else {
            StorageError(self)
        }
    }
}

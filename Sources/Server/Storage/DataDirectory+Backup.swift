import PandoEngine
import PandoJournal

/// What was read of a backup or a directory: where in its life it stands.
package struct BackupSummary: Sendable {
    /// The last record that counts.
    package var sequence: SequenceNumber
    /// Of the last record, or later; milliseconds since 1970.
    package var timestamp: Int64
    package var directory: DirectoryID
    package var timeline: UInt32

    init(sequence: SequenceNumber, timestamp: Int64, directory: DirectoryID, timeline: UInt32) {
        self.sequence = sequence
        self.timestamp = timestamp
        self.directory = directory
        self.timeline = timeline
    }

    package init(_ header: CheckpointHeader) {
        self.init(
            sequence: header.sequence, timestamp: header.timestamp, directory: header.directory,
            timeline: header.timeline)
    }
}

extension DataDirectory {
    /// Reads a backup: a file that is one checkpoint. Every byte of it is checked.
    package static func readBackup(
        _ name: String, in directory: String, into state: inout RecoveredState
    ) throws(StartError) -> BackupSummary {
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

    /// Checks every byte of a file that is one checkpoint, and looks at nothing that is in it.
    package static func checkBackup(_ name: String, on disk: SystemDisk) throws(StartError)
        -> CheckpointHeader
    {
        var nobody = Nobody()
        do throws(JournalError) { return try readCheckpoint(name, on: disk, into: &nobody).header } catch {
            throw error.ofBackup
        }
    }

    /// Reads a directory as it was at one moment, or as it is; a server may run on it.
    /// - Throws: ``StartError/badData(_:)`` also when what is kept does not reach that moment.
    package static func read(
        _ path: String, until moment: PointInTime?, into state: inout RecoveredState
    ) throws(StartError) -> BackupSummary {
        var recovered = state
        let summary: RecoverySummary
        do throws(JournalError) {
            let disk = try openDisk(path, create: false)
            if let moment {
                summary = try readDirectory(disk, until: moment, into: &recovered)
            } else {
                summary = try readDirectory(disk, into: &recovered)
            }
        } catch {
            throw StartError(error)
        }
        guard let directory = summary.directory else { throw .badData("\(path): holds no data") }
        if case .sequence(let wanted)? = moment, summary.lastSequence < wanted, !summary.hasReachedMoment {
            throw .badData("\(path): ends at sequence \(summary.lastSequence), before \(wanted)")
        }
        state = recovered
        return BackupSummary(
            sequence: summary.lastSequence, timestamp: recovered.lastTime, directory: directory,
            timeline: summary.timeline)
    }

    /// Copies a directory with its log, so that any moment the log reaches can be restored from the copy; a
    /// server may run on it. The copy is read before it gets its name, and appears whole or not at all.
    /// - Parameters:
    ///   - path: Where the copy is to be; nothing may be there.
    ///   - temporaryPath: Beside it; the copy until it is whole.
    package static func copy(
        _ source: String, to path: (parent: String, name: String, temporaryName: String),
        progress: (_ byteCount: Int) -> Void
    ) throws(StartError) -> BackupSummary {
        let temporary = path.parent + "/" + path.temporaryName
        do throws(JournalError) {
            _ = try copyLog(
                of: openDisk(source, create: false), to: openDisk(temporary, create: true), progress: progress
            )
        } catch {
            throw StartError(error)
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

    /// Makes a directory of a state, on a timeline of its own, so that nothing of what was there before, or
    /// of where the state comes from, can be taken for a part of it. It happens in the moment in which its
    /// one file gets its name.
    /// - Parameters:
    ///   - mayReplace: Give up what the directory holds.
    ///   - directoryID: Random.
    /// - Throws: ``StartError/locked(_:)`` when somebody works on it, or when it holds something and must not
    ///   be replaced; then nothing was changed.
    package static func restore(
        _ state: RecoveredState, from source: BackupSummary, to path: String, mayReplace: Bool,
        directoryID: DirectoryID, progress: (_ byteCount: Int) -> Void
    ) throws(StartError) -> CheckpointHeader {
        do throws(JournalError) {
            let disk = try openDisk(path, create: true)
            let header = try write(
                state, from: source, on: disk, mayReplace: mayReplace, directoryID: directoryID,
                progress: progress)
            // As a server would, which removes what was there before; every byte is read once more.
            var nobody = Nobody()
            _ = try Journal.open(on: disk, newDirectoryID: directoryID, into: &nobody)
            return header
        } catch {
            throw StartError(error)
        }
    }

    /// The same, up to the one file.
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
        let (timeline, isOver) = max(source.timeline, contents.newestTimeline).addingReportingOverflow(1)
        guard !isOver else { throw .noTimelineLeft(directory: disk.directory) }
        let header = CheckpointHeader(
            directory: directoryID, timeline: timeline, sequence: source.sequence,
            timestamp: source.timestamp,
            beginsLog: true)
        do throws(DiskFailure) { try write(state, as: header, on: disk, progress: progress) } catch {
            throw .disk(error)
        }
        return header
    }

    private static func openDisk(_ path: String, create: Bool) throws(JournalError) -> SystemDisk {
        do throws(DiskFailure) { return try SystemDisk(directory: path, create: create) } catch {
            throw .disk(error)
        }
    }
}

/// Looks at bytes, not at what they say.
private struct Nobody: RecoveryTarget {
    mutating func startOver() {}
    mutating func restore(_ record: borrowing RecoveredRecord) {}
    mutating func replay(_ entry: borrowing RecoveredEntry) {}
}

extension JournalError {
    /// Of a backup there is nothing to go on from, so the advice for a log does not fit.
    fileprivate var ofBackup: StartError {
        if case .corrupt(let problem) = self {
            .badData("\(problem): no whole backup")
        } else {
            StartError(self)
        }
    }
}

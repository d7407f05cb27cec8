import PandoJournal

extension DataDirectory {
    /// Reads a backup, and the archived log behind it.
    /// - Parameters:
    ///   - file: The name of the backup in its directory.
    ///   - archive: The directory of `--archive-to`; a server may write to it.
    ///   - moment: Nil for everything that is archived.
    ///   - warn: Gets a sentence for the operator where bytes of the archive cannot be read that may have been cut off by a
    ///     power cut.
    /// - Throws: ``StorageError``; `.badData` also where the archive does not continue the backup, or does not reach the
    ///   moment. Then `state` is unchanged.
    package static func read(
        _ file: String, in directory: String, archive: String, until moment: PointInTime?,
        into state: inout RecoveredState, warn: (String) -> Void
    ) throws(StorageError) -> BackupSummary {
        var recovered = state
        let header: CheckpointHeader
        let log: ArchivedLog<SystemDisk>
        do throws(JournalError) {
            let backups = try openDisk(directory, create: false)
            header = try readCheckpointHeader(file, on: backups)
            log = try ArchivedLog(file, in: backups, header, archive: try openDisk(archive, create: false))
        } catch {
            throw error.ofBackup
        }
        let summary: RecoverySummary
        do throws(JournalError) {
            if let moment {
                summary = try readDirectory(log, until: moment, into: &recovered)
            } else {
                summary = try readDirectory(log, into: &recovered)
            }
        } catch {
            switch error {
            case .corrupt(let problem):
                throw .badData("\(archive): the log there does not continue \(file): \(problem)")
            case .beforeLog:
                throw .badData("\(file): the backup is later than that moment; restore an earlier one")
            default: throw StorageError(error)
            }
        }
        if let damage = summary.damagedCheckpoints.first {
            throw .badData("\(file): \(damage): not a complete backup")
        }
        try refuse(moment, ifNotReachedIn: archive, summary)
        if log.unreadableByteCount > 0, !summary.hasReachedMoment {
            warn(
                "\(archive): the last \(log.unreadableByteCount) bytes cannot be read: a power cut has interrupted their copying, or they are damaged"
            )
        }
        state = recovered
        return BackupSummary(
            sequence: summary.lastSequence, timestamp: recovered.lastTime, directory: header.directory,
            timeline: summary.timeline)
    }

    /// The newest scheduled backup of a directory that is not later than a moment.
    /// - Returns: Its file; nil where there is none.
    /// - Throws: ``StorageError/disk(_:)``.
    package static func newestBackup(
        in directory: String, until moment: PointInTime?
    ) throws(StorageError) -> String? {
        let names: [String]
        do throws(DiskFailure) {
            names = try SystemDisk(directory: directory, create: false).list()
        } catch {
            throw .disk(error.description)
        }
        let backups = names.compactMap { BackupName($0) }.sorted()
        let newestTimeline = backups.last?.timeline
        let chosen = backups.last { backup in
            switch moment {
            case nil: true
            case .time(let milliseconds)?: backup.milliseconds <= milliseconds
            // Sequences count on one timeline.
            case .sequence(let sequence)?:
                backup.timeline == newestTimeline && backup.sequence <= sequence
            }
        }
        return chosen?.text
    }

    /// Whether a directory holds segments or checkpoints of a log.
    /// - Throws: ``StorageError/disk(_:)``.
    package static func isDataDirectory(_ path: String) throws(StorageError) -> Bool {
        do throws(DiskFailure) {
            return try !DirectoryContents(of: SystemDisk(directory: path, create: false)).journalFiles.isEmpty
        } catch {
            throw .disk(error.description)
        }
    }
}

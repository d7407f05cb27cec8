import PandoJournal

/// Reads scheduled backups, with the archived journal that follows them: what a restore can choose from.
package enum ScheduledBackups {
    /// Reads a backup, and the archived journal after it.
    /// - Parameters:
    ///   - file: The name of the backup in its directory.
    ///   - archive: The directory of `--archive-to`; a server may write to it.
    ///   - timeline: Which one to follow; nil for the newest in the archive.
    ///   - moment: Nil for everything that is archived.
    ///   - warn: Gets a sentence for the operator where bytes of the archive cannot be read that may have
    ///     been cut off by a power cut.
    /// - Throws: ``StorageError``; `.badData` also where the archive does not continue the backup, or does
    ///   not reach the moment. Then `state` is unchanged.
    package static func read(
        _ file: String, in directory: String, archive: String, timeline: UInt32? = nil,
        until moment: PointInTime?, into state: inout RecoveredState, warn: (String) -> Void
    ) throws(StorageError) -> BackupSummary {
        var recovered = state
        let journal: ArchivedJournal<SystemDisk>
        do throws(JournalError) {
            let backups = try DataDirectory.openDisk(directory, create: false)
            let header = try readCheckpointHeader(file, on: backups)
            journal = try ArchivedJournal(
                file, in: backups, header, archive: try DataDirectory.openDisk(archive, create: false),
                timeline: timeline)
        } catch {
            throw error.ofArchive(archive, file)
        }
        let summary: RecoverySummary
        do throws(JournalError) {
            summary = try readArchive(journal, until: moment, into: &recovered)
        } catch {
            switch error {
            case .corrupt(let problem):
                var advice = ""
                if case .backupDiffers = problem.flaw { advice = ". Restore an earlier backup" }
                throw .badData(
                    "\(archive): the journal there does not continue \(file): \(problem)\(advice)")
            case .beforeJournal:
                throw .badData("\(file): the backup is later than that moment; restore an earlier one")
            default: throw StorageError(error)
            }
        }
        if let damage = summary.damagedCheckpoints.first {
            throw .badData("\(file): \(damage): not a complete backup")
        }
        recovered.noteTime(of: summary.checkpoint)
        try DirectoryBackup.refuse(moment, ifNotReachedIn: archive, summary)
        if journal.unreadableByteCount > 0, !summary.hasReachedMoment {
            warn(
                "\(archive): the last \(journal.unreadableByteCount) bytes cannot be read: a power cut has interrupted their copying, or they are damaged"
            )
        }
        guard let directory = summary.directory else {
            preconditionFailure("a backup that was read has a data directory")
        }
        state = recovered
        var result = BackupSummary(
            sequence: summary.lastSequence, timestamp: recovered.lastTime, directory: directory,
            timeline: summary.timeline)
        result.ancestors = journal.timeline.ancestors.filter { $0.timeline < summary.timeline }
        result.newestTimeline = journal.newestTimeline
        return result
    }

    /// The newest scheduled backup of a directory that is not later than a moment.
    /// - Parameters:
    ///   - archive: The archive that is to be replayed behind it; nil for none.
    ///   - timeline: Which timeline of the archive to follow; nil for the newest.
    ///   - warn: Gets a sentence for the operator where another backup was made after it, of an earlier
    ///     state.
    /// - Returns: Its file; nil where there is none.
    /// - Throws: ``StorageError``.
    package static func newest(
        in directory: String, archive: String? = nil, timeline: UInt32? = nil, until moment: PointInTime?,
        warn: (String) -> Void = { _ in }
    ) throws(StorageError) -> String? {
        // Those with a future time in their names first: each other one is newer by its name.
        let now = Environment.machine.wallMilliseconds
        let found = try scheduledBackups(in: directory)
        let backups =
            found.filter { $0.isAhead(of: now) }.sorted { $0.isBefore($1, at: now) }
            + found.filter { !$0.isAhead(of: now) }
        guard let newest = backups.last else { return nil }
        var wanted = timeline ?? backups.map(\.timeline).max() ?? newest.timeline
        var history: TimelineHistory?
        if let archive {
            do throws(JournalError) {
                let disk = try DataDirectory.openDisk(archive, create: false)
                if timeline == nil { wanted = max(wanted, try ArchiveTimelines(of: disk).newest ?? 0) }
                history = try TimelineHistory.read(wanted, on: disk)
            } catch {
                throw StorageError(error)
            }
        }
        func isOnTimeline(_ backup: BackupName) -> Bool {
            backup.timeline == wanted
                || history?.end(of: backup.timeline).map { backup.sequence <= $0 } ?? false
        }
        func isWanted(_ backup: BackupName) -> Bool {
            switch moment {
            case nil: isOnTimeline(backup)
            case .time(let milliseconds)?:
                backup.milliseconds <= milliseconds && (archive == nil || isOnTimeline(backup))
            // Sequences count on one timeline.
            case .sequence(let sequence)?: isOnTimeline(backup) && backup.sequence <= sequence
            }
        }
        if let chosen = backups.last(where: isWanted) {
            // Only the names say which is before a moment.
            if case .time? = moment { return chosen.text }
            let newest = try latest(from: chosen, among: backups.filter(isWanted), in: directory, at: now)
            if newest.milliseconds < chosen.milliseconds {
                warn(
                    "\(directory): \(newest.text) is restored, which holds the latest state. \(chosen.text) was made later but holds an earlier state: the data directory was set back between the two, or the clock was wrong. To restore \(chosen.text), give the path of that file"
                )
            }
            return newest.text
        }
        guard archive != nil else {
            throw .badData(
                moment.map { "\(directory): no backup there is early enough for \($0)" }
                    ?? "\(directory): no backup there is of timeline \(wanted)")
        }
        // An archive may begin with the first record. Otherwise reading it says what is missing.
        return (backups.first(where: isOnTimeline) ?? newest).text
    }

    /// The latest backup in the journal among those of the same data directory as `chosen`: the times in the
    /// names say nothing where a clock was wrong.
    /// - Complexity: One read of the header of each that is later.
    private static func latest(
        from chosen: BackupName, among backups: [BackupName], in directory: String, at now: Int64
    ) throws(StorageError) -> BackupName {
        let disk: SystemDisk
        do throws(DiskFailure) { disk = try SystemDisk(directory: directory, create: false) } catch {
            throw .disk(error.description)
        }
        func owner(of backup: BackupName) -> DirectoryID? {
            (try? readCheckpointHeader(backup.text, on: disk))?.directory
        }
        // A file that is no backup is refused when it is read.
        guard let wanted = owner(of: chosen) else { return chosen }
        return backups.filter { chosen.isBefore($0, at: now) && owner(of: $0) == wanted }
            .max { $0.isBefore($1, at: now) } ?? chosen
    }

    /// The newest timeline of the scheduled backups in a directory; 0 where there are none.
    /// - Throws: ``StorageError/disk(_:)``.
    package static func newestTimeline(in directory: String) throws(StorageError) -> UInt32 {
        try scheduledBackups(in: directory).map(\.timeline).max() ?? 0
    }

    private static func scheduledBackups(in directory: String) throws(StorageError) -> [BackupName] {
        do throws(DiskFailure) {
            return try SystemDisk(directory: directory, create: false).list().compactMap { BackupName($0) }
                .sorted()
        } catch {
            throw .disk(error.description)
        }
    }
}

extension JournalError {
    /// What an archive and a backup that do not fit together are reported as.
    fileprivate func ofArchive(_ archive: String, _ file: String) -> StorageError {
        guard case .corrupt(let problem) = self else { return StorageError(self) }
        switch problem.flaw {
        case .backupNotOnTimeline(let timeline, let backup, _):
            return .badData(
                "\(archive): continues with timeline \(timeline): \(problem.flaw). Restore an older backup, or --timeline \(backup)"
            )
        case .damagedHistory: return .badData("\(archive): \(problem)")
        default: return ofBackup
        }
    }
}

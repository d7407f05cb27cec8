import PandoJournal

/// Scheduled backups of a data directory that hold records which its journal does not have.
///
/// A backup holds only what is on the disk of its data directory. So such backups prove that the directory is
/// not what it was: it was set back to an earlier state (the snapshot of a machine), and acknowledged writes
/// are in these backups only. Its new backups would count as older than these, by their sequences: a restore
/// would take the state that was given up, and the new ones would be removed first. So no backup is made
/// beside them, as nothing is archived in an archive that is ahead (``JournalArchive``).
struct BackupsAhead: CustomStringConvertible {
    /// Where they are.
    let path: String
    /// The latest in the journal.
    let newest: BackupName
    /// The last record of the journal.
    let end: SequenceNumber

    /// Nil where there are none. A backup whose header cannot be read is left out.
    /// - Parameters:
    ///   - directory: The data directory, and `timeline` that of its journal.
    ///   - end: The last record of its journal.
    /// - Complexity: One read of a header for each backup that may be one.
    init?<Storage: Disk>(
        of directory: DirectoryID, _ timeline: UInt32, endingAt end: SequenceNumber,
        among names: [BackupName], on disk: Storage
    ) {
        let newest = names.filter { $0.timeline == timeline && $0.sequence > end }
            .sorted { $0.sequence > $1.sequence }
            .first { name in
                guard let header = try? readCheckpointHeader(name.text, on: disk) else { return false }
                return header.directory == directory && header.timeline == timeline && header.sequence > end
            }
        guard let newest else { return nil }
        path = disk.directory
        self.newest = newest
        self.end = end
    }

    var description: String {
        "\(path): \(newest.text) holds everything up to sequence \(newest.sequence), but the journal ends with \(end): the data directory was set back to an earlier state, and the writes behind it are in the backups only. No backup was made or removed. `pando restore \(path) --data NEW` restores the newest one, with --archive also what was archived behind it; to go on with this data directory, move its backups to another directory, or give another --backup-to"
    }
}

extension BackupThread {
    /// Why a server does not start with a data directory that was set back to an earlier state, as far as its
    /// backups show it. A directory of backups that is not there now is no reason: each backup looks again.
    /// - Parameter origin: Where the journal ended at the start.
    /// - Returns: ``StorageError/locked(_:)``; nil where there is no reason.
    static func refusal(of directory: BackupDirectory, behind origin: JournalOrigin) -> StorageError? {
        guard let disk = try? directory.open(), let names = try? disk.list() else { return nil }
        let ahead = BackupsAhead(
            of: origin.directory, origin.timeline, endingAt: origin.sequence,
            among: names.compactMap { BackupName($0) }, on: disk)
        return ahead.map { .locked("--backup-to: \($0)") }
    }
}

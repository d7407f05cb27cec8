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
        "\(path): \(newest.text) holds everything up to sequence \(newest.sequence), but the journal of the data directory ends with \(end): it was set back to an earlier state, and the later writes are in the backups only. \(backupsAheadAdvice(path))"
    }
}

/// A backup whose last record differs from the journal's record of the same sequence, which is later than
/// the backup. So the directory was set back, as with ``BackupsAhead``, and then written again up to that
/// sequence. Even a start that was refused can do that: it writes the onDisconnect writes of ended sessions.
struct BackupOfOtherRecords: CustomStringConvertible {
    /// Where it is.
    let path: String
    let name: BackupName

    /// Nil where there is none. Only the latest backup in the journal is compared: of several, the first that
    /// was made. Those behind the end are ``BackupsAhead``.
    /// - Parameters:
    ///   - directory: The data directory, and `timeline` that of its journal.
    ///   - end: The last record of its journal.
    ///   - journal: Its disk.
    /// - Complexity: One read of a header and of a segment.
    init?<Storage: Disk>(
        of directory: DirectoryID, _ timeline: UInt32, endingAt end: SequenceNumber, in journal: Storage,
        among names: [BackupName], on disk: Storage
    ) {
        let candidates = names.filter {
            $0.timeline == timeline && $0.sequence > .zero && $0.sequence <= end
        }.sorted {
            $0.sequence == $1.sequence ? $0.milliseconds < $1.milliseconds : $0.sequence > $1.sequence
        }
        for name in candidates {
            guard let header = try? readCheckpointHeader(name.text, on: disk), header.directory == directory,
                header.timeline == timeline, header.sequence == name.sequence
            else { continue }
            guard header.timestamp > 0, let time = try? time(ofRecord: header.sequence, on: journal),
                time > header.timestamp
            else { return nil }
            path = disk.directory
            self.name = name
            return
        }
        return nil
    }

    var description: String {
        "\(path): record \(name.sequence), the last one in \(name.text), is not the record \(name.sequence) of the journal, which was written after that backup was made: the data directory was set back to an earlier state, and later writes are in the backups only. \(backupsAheadAdvice(path))"
    }
}

/// What an operator does about backups with records that the journal does not have.
/// - Parameter path: Where they are.
private func backupsAheadAdvice(_ path: String) -> String {
    "No backup was made or removed. To get these writes back: pando restore \(path) --data NEW (with --archive DIR also the archived writes after the backup). To go on without them: move the backups of this data directory to another directory, or give another --backup-to"
}

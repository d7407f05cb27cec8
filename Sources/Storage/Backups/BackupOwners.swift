import PandoJournal

/// Scheduled backups, by the data directory that each is of. The header says that, not the name: an empty
/// data directory, as where a disk is not mounted, begins with timeline 1 and sequence 1 like any other.
struct BackupOwners {
    /// Of one data directory, or of those that it was restored from, and their headers. Sorted by time.
    private(set) var own: [(name: BackupName, header: CheckpointHeader)] = []
    /// Of other data directories, and whose. Sorted by time.
    private(set) var foreign: [(name: BackupName, directory: DirectoryID)] = []
    /// Those of which it is not known whose they are, and why: the header is damaged, or it cannot be read
    /// now. Sorted by time.
    private(set) var unreadable: [(name: BackupName, reason: String)] = []
    /// A header could not be read now. That is no damage: it may be read later.
    private(set) var hasReadFailures = false

    /// Reads whose backups they are.
    /// - Parameter timeline: That of the data directory.
    /// - Complexity: One read of each backup's header.
    init<Storage: Disk>(of names: [BackupName], on disk: Storage, timeline: TimelineHistory) {
        let directories = Set(timeline.ancestors.map(\.directory) + [timeline.directory])
        for name in names.sorted() {
            do throws(JournalError) {
                let header = try readCheckpointHeader(name.text, on: disk)
                if directories.contains(header.directory) {
                    own.append((name, header))
                } else {
                    foreign.append((name, header.directory))
                }
            } catch {
                if case .disk = error { hasReadFailures = true }
                unreadable.append((name, error.ofBackupHeader))
            }
        }
    }
}

extension JournalError {
    /// The advice for a damaged journal does not fit a backup.
    fileprivate var ofBackupHeader: String {
        if case .corrupt(let problem) = self { problem.description } else { description }
    }
}

import PandoJournal

/// Scheduled backups, by the data directory that each is of. The header says that, not the name: an empty
/// data directory, as where a disk is not mounted, begins with timeline 1 and sequence 1 like any other.
struct BackupOwners {
    /// Of one data directory, or of those that it was restored from. Sorted by time.
    private(set) var own: [BackupName] = []
    /// Of other data directories, and whose. Sorted by time.
    private(set) var foreign: [(name: BackupName, directory: DirectoryID)] = []

    /// Reads whose backups they are. One whose header is damaged is in neither list.
    /// - Parameter timeline: That of the data directory; nil for a server in memory, to which all belong.
    /// - Throws: ``DiskFailure``.
    /// - Complexity: One read of each backup's header.
    init<Storage: Disk>(
        of names: [BackupName], on disk: Storage, timeline: TimelineHistory?
    ) throws(DiskFailure) {
        let names = names.sorted()
        guard let timeline else {
            own = names
            return
        }
        let directories = Set(timeline.ancestors.map(\.directory) + [timeline.directory])
        for name in names {
            let directory: DirectoryID
            do throws(JournalError) {
                directory = try readCheckpointHeader(name.text, on: disk).directory
            } catch {
                if case .disk(let failure) = error { throw failure }
                continue
            }
            if directories.contains(directory) {
                own.append(name)
            } else {
                foreign.append((name, directory))
            }
        }
    }
}

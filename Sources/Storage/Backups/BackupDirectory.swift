import PandoJournal

/// A directory for backups or for the archive of the log, which one server at a time uses.
package struct BackupDirectory: Sendable {
    package let path: String
    /// Held and never read: no other server writes there.
    private let lock: SystemDisk.File

    /// Makes the directory where it does not exist, and locks it.
    /// - Parameter option: The option that names it, for messages.
    /// - Throws: ``StorageError``.
    package init(_ path: String, option: String) throws(StorageError) {
        self.path = path
        do throws(JournalError) {
            let disk: SystemDisk
            do throws(DiskFailure) { disk = try SystemDisk(directory: path, create: true) } catch {
                throw JournalError.disk(error)
            }
            lock = try Journal.acquireLock(on: disk)
        } catch {
            switch error {
            case .lockedByAnotherProcess(_, let processID):
                let process = processID.map { "process \($0)" } ?? "another process"
                throw .locked("\(option): \(path): in use by \(process)")
            default: throw StorageError.disk("\(option): \(error)")
            }
        }
    }

    /// - Throws: ``DiskFailure``.
    package func open() throws(DiskFailure) -> SystemDisk { try SystemDisk(directory: path, create: false) }

    /// The scheduled backups in it, the oldest first. Removes what a process has left unfinished.
    /// - Throws: ``DiskFailure``.
    package func backups() throws(DiskFailure) -> [BackupName] {
        let disk = try open()
        var found: [BackupName] = []
        for name in try disk.list() {
            if let backup = BackupName(name) {
                found.append(backup)
            } else if name.hasSuffix(CheckpointName.unfinishedEnd),
                BackupName(String(name.dropLast(CheckpointName.unfinishedEnd.utf8.count))) != nil
            {
                try disk.remove(name)
            }
        }
        return found.sorted()
    }
}

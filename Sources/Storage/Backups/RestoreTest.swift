import PandoJournal

/// Restores backups to test them (`--backup-verify`): the backup thread says which, and another part of the
/// server does it.
package struct RestoreTest: Sendable {
    /// What is restored, and what must come out.
    package struct Job: Equatable, Sendable {
        /// The directory and the file of the backup.
        package var directory: String
        package var file: String
        /// The archive that is replayed behind it, and the last record of it that is; nil for the backup
        /// alone.
        package var archive: Archive?
        /// Of the state that must come out (``SnapshotDigest``).
        package var digest: String
    }

    package struct Archive: Equatable, Sendable {
        package var directory: String
        package var sequence: SequenceNumber
    }

    package enum Outcome: Equatable, Sendable {
        /// What was restored is what was backed up. A sentence for the journal.
        case passed(String)
        case failed(String)
        /// The server stops.
        case cancelled
    }

    /// Restores one backup into a directory that it makes and removes.
    package let run: @Sendable (Job) -> Outcome
    /// Removes what a killed test has left in a directory of backups.
    package let clean: @Sendable (_ directory: String) -> Void

    package init(
        run: @escaping @Sendable (Job) -> Outcome, clean: @escaping @Sendable (String) -> Void
    ) {
        self.run = run
        self.clean = clean
    }
}

/// The newest backup that has passed a restore test, in a file of the directory of the backups: a start knows
/// it, too.
package struct RestoreTestRecord: Equatable {
    var backup: BackupName
    /// When it passed; seconds since 1970.
    var time: Int64

    private static let fileName = "restore-test.passed"
    private static let fileByteLimit = 4096

    init(backup: BackupName, time: Int64) {
        self.backup = backup
        self.time = time
    }

    /// - Returns: Nil where there is none that can be read.
    /// - Throws: ``DiskFailure``.
    static func read<Storage: Disk>(on disk: Storage) throws(DiskFailure) -> RestoreTestRecord? {
        guard let bytes = try readSmallFile(fileName, limit: fileByteLimit, on: disk) else { return nil }
        let parts = String(decoding: bytes, as: UTF8.self).split(separator: " ")
        guard parts.count == 2, let backup = BackupName(String(parts[0])), parts[1].last == "\n",
            let time = Int64(parts[1].dropLast())
        else { return nil }
        return RestoreTestRecord(backup: backup, time: time)
    }

    /// - Throws: ``DiskFailure``.
    func write<Storage: Disk>(on disk: Storage) throws(DiskFailure) {
        try replaceSmallFile(Self.fileName, with: Array("\(backup.text) \(time)\n".utf8), on: disk)
    }
}

extension RestoreTestRecord {
    /// Notes that the newest backup of a directory of scheduled backups has passed a restore test, as a
    /// server that has made the test does: the server reads it with its next backup.
    /// - Parameter file: The name of the backup's file.
    /// - Returns: False where the file is no scheduled backup: then nothing is noted.
    /// - Throws: ``StorageError``.
    package static func note(_ file: String, in directory: String) throws(StorageError) -> Bool {
        guard let backup = BackupName(file) else { return false }
        let now = Environment.machine.wallMilliseconds
        do throws(DiskFailure) {
            let disk = try SystemDisk(directory: directory, create: false)
            // A server may have tested a later one of the same data directory.
            if let noted = try RestoreTestRecord.read(on: disk), backup.isBefore(noted.backup, at: now),
                let owner = (try? readCheckpointHeader(backup.text, on: disk))?.directory,
                owner == (try? readCheckpointHeader(noted.backup.text, on: disk))?.directory
            {
                return true
            }
            try RestoreTestRecord(backup: backup, time: now / 1000).write(on: disk)
        } catch {
            throw StorageError(error)
        }
        return true
    }
}

import PandoJournal

/// A backup that is one file: a checkpoint.
package enum BackupFile {
    /// Reads a backup that is one file: a checkpoint. Every byte of it is checked.
    /// - Throws: ``StorageError``; `.badData` where the file is not a complete backup. Then `state` is
    ///   unchanged.
    package static func read(
        _ name: String, in directory: String, into state: inout RecoveredState
    ) throws(StorageError) -> BackupSummary {
        var recovered = state
        do throws(JournalError) {
            let disk = try DataDirectory.openDisk(directory, create: false)
            let (header, _, _) = try readCheckpoint(name, on: disk, into: &recovered)
            state = recovered
            return BackupSummary(header)
        } catch {
            throw error.ofBackup
        }
    }

    /// Checks every byte of a backup that is one file, without interpreting its records.
    /// - Throws: ``StorageError``; `.badData` where the file is not a complete backup.
    package static func check(_ name: String, on disk: SystemDisk) throws(StorageError)
        -> CheckpointHeader
    {
        var target = DiscardingTarget()
        do throws(JournalError) { return try readCheckpoint(name, on: disk, into: &target).header } catch {
            throw error.ofBackup
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

import PandoJournal

/// Compares the journal with the backups, once: a data directory may have been set back to an earlier state.
struct BackupComparison {
    private let backups: BackupDirectory
    private let origin: JournalOrigin
    private let journal: SystemDisk
    /// False as long as the directory of backups was not there.
    private(set) var isDone = false

    /// - Parameters:
    ///   - origin: Where the journal ended at the start.
    ///   - journal: The disk of the data directory.
    init(of backups: BackupDirectory, with origin: JournalOrigin, in journal: SystemDisk) {
        self.backups = backups
        self.origin = origin
        self.journal = journal
    }

    /// Compares them, unless that is done, or the directory of backups is not there now.
    /// - Returns: ``StorageError/locked(_:)`` where they contradict each other, each time again; else nil.
    mutating func contradiction() -> StorageError? {
        guard !isDone, let disk = try? backups.open(), let list = try? disk.list() else { return nil }
        let names = list.compactMap { BackupName($0) }
        let ahead = BackupsAhead(
            of: origin.directory, origin.timeline, endingAt: origin.sequence, among: names, on: disk)
        if let ahead { return .locked("--backup-to: \(ahead)") }
        let other = BackupOfOtherRecords(
            of: origin.directory, origin.timeline, endingAt: origin.sequence, in: journal, among: names,
            on: disk)
        if let other { return .locked("--backup-to: \(other)") }
        isDone = true
        return nil
    }
}

import PandoJournal
import PandoStorage

// Everything as it is between two commands, for backups.

extension CommandProcessor {
    /// Gives a snapshot to a scheduled backup, when it is on disk.
    /// - Precondition: All entries of the journal were flushed.
    func giveSnapshot(to body: @escaping @Sendable (CheckpointJob) -> Void) {
        let time = clock.now()
        let snapshot = databases.snapshot(at: time)
        if journal.isEnabled { return journal.post(snapshot, whenDurable: body) }
        body(CheckpointJob(header: header(at: time), snapshot: snapshot))
    }

    /// A backup to download. As an output it is released when all of it is durable.
    var backup: BackupBytes {
        let time = clock.now()
        return BackupBytes(header(at: time), of: databases.snapshot(at: time))
    }

    /// That of a checkpoint with all that was committed.
    private func header(at time: Int64) -> CheckpointHeader {
        CheckpointHeader(
            directory: journal.origin.directory, timeline: journal.origin.timeline,
            sequence: journal.lastSequence, timestamp: time)
    }
}

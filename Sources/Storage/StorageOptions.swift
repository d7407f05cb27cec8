import PandoJournal

/// When an acknowledged write is on disk.
package enum Durability: String, Sendable, CaseIterable {
    /// Before its acknowledgement, and before any client sees it: survives `kill -9` and power loss.
    case always
    /// Written before its acknowledgement, synced every 100 ms: survives `kill -9`; a power loss takes the
    /// writes of the last 100 ms.
    case interval
    /// Written before its acknowledgement, synced once a second: survives `kill -9`; a power loss takes the
    /// writes of the last second.
    case none
}

/// How a data directory is written.
package struct StorageOptions: Sendable {
    package var durability = Durability.always
    /// Bytes of one file of the journal.
    package var segmentByteLimit = JournalOptions.standardSegmentByteLimit
    /// Space on the disk is reserved before it is needed: the next step is reserved when fewer bytes than
    /// this are left.
    package var minimumReservedByteCount = 8 << 20
    /// Bytes of journal after which a checkpoint is written; recovery reads at most about this many.
    package var checkpointByteLimit = 256 << 20
    /// Time after which a checkpoint is written however short the journal is; zero for never.
    package var checkpointInterval: Duration = .zero
    /// Checkpoints that are kept, with the journal since the oldest of them.
    package var keptCheckpointCount = 2

    package init() {}

    /// How the journal lays out its files.
    package var journalOptions: JournalOptions {
        var options = JournalOptions()
        options.segmentByteLimit = segmentByteLimit
        return options
    }
}

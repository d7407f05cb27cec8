/// Reads a directory as recovery would, but without its lock and without changes: everything that a running
/// server has written so far. A torn tail is skipped. If the server removes files meanwhile, the reading
/// starts again.
/// - Throws: As ``Journal/open(on:newDirectoryID:timeline:options:into:)``.
package func readDirectory<Storage: Disk>(
    _ disk: Storage, into host: inout some RecoveryTarget
) throws(JournalError) -> RecoverySummary {
    try readDirectory(disk, until: nil, along: nil, into: &host)
}

/// Reads a directory whose journal goes through several timelines, such as an ``ArchivedJournal``.
/// - Parameter timeline: The last of them, with its ancestors; nil for a journal of one timeline.
func readDirectory<Storage: Disk>(
    _ disk: Storage, until moment: PointInTime?, along timeline: TimelineHistory?,
    into host: inout some RecoveryTarget
) throws(JournalError) -> RecoverySummary {
    var attemptsLeft = 10
    while true {
        let listing = try readableListing(of: disk, hasTimelines: timeline != nil)
        var recovery = DirectoryReader(disk: disk, listing: listing, moment: moment, timeline: timeline)
        if listing.segments.isEmpty, listing.checkpoints.isEmpty {
            recovery.summary.isNew = true
            return recovery.summary
        }
        do throws(JournalError) {
            _ = try recovery.read(lastMode: .read, into: &host)
            return recovery.summary
        } catch {
            attemptsLeft -= 1
            let now = try readableListing(of: disk, hasTimelines: timeline != nil)
            let hasChanged = now.segments != listing.segments || now.checkpoints != listing.checkpoints
            guard hasChanged, attemptsLeft > 0 else { throw error }
            host.startOver()
        }
    }
}

/// Reads a directory as it was at one moment, without its lock and without changes: from the newest undamaged
/// checkpoint that is not later, and the journal behind it.
/// - Returns: ``RecoverySummary/lastSequence`` is the last record that counts.
/// - Throws: As ``readDirectory(_:into:)``; ``JournalError/beforeJournal(earliest:)`` for a moment before the
///   oldest checkpoint or record.
package func readDirectory<Storage: Disk>(
    _ disk: Storage, until moment: PointInTime, into host: inout some RecoveryTarget
) throws(JournalError) -> RecoverySummary {
    try readDirectory(disk, until: moment, along: nil, into: &host)
}

/// Reads one checkpoint of any name, such as a backup: from the disk where the system can
/// (``Disk/dropCache(of:)``), since it may have just been written. Changes nothing.
/// - Parameter name: The name of the file in the directory.
/// - Throws: ``JournalError/corrupt(_:)`` for any damage, ``JournalError/disk(_:)``.
/// - Complexity: One sequential read, in the memory of one block.
package func readCheckpoint<Storage: Disk>(
    _ name: String, on disk: Storage, into host: inout some RecoveryTarget
) throws(JournalError) -> (header: CheckpointHeader, byteCount: Int, recordCount: Int) {
    var reader = try CheckpointReader.open(fileNamed: name, on: disk, fromDisk: true)
    while try reader.readBlock({ record, _ throws(EntryRejection) in try host.restore(record) }) {}
    return (reader.header, reader.byteCount, Int(clamping: reader.recordCount))
}

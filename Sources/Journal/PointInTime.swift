import PandoBytes

/// A past moment of a data directory, up to which it can be read again.
package enum PointInTime: Equatable, Sendable, CustomStringConvertible {
    /// The last record that counts. An entry that ends behind it does not count, since entries are indivisible.
    case sequence(SequenceNumber)
    /// Milliseconds since 1970. Entries of this millisecond count.
    case time(Int64)

    package var description: String {
        switch self {
        case .sequence(let sequence): "sequence \(sequence)"
        case .time(let milliseconds): "time \(milliseconds)"
        }
    }

    /// Whether everything in the checkpoint counts. The time of a checkpoint may be later than that of its last record.
    /// Then it may be skipped without need, and the one before and the log give the same state.
    func includes(_ header: CheckpointHeader) -> Bool {
        switch self {
        case .sequence(let sequence): header.sequence <= sequence
        case .time(let milliseconds): header.timestamp <= milliseconds
        }
    }

    func includes(entryEndingWith sequence: SequenceNumber, at timestamp: Int64) -> Bool {
        switch self {
        case .sequence(let last): sequence <= last
        case .time(let milliseconds): timestamp <= milliseconds
        }
    }
}

/// Reads a directory as it was at one moment, without its lock and without changes: from the newest undamaged
/// checkpoint that is not later, and the log behind it.
/// - Returns: ``RecoverySummary/lastSequence`` is the last record that counts.
/// - Throws: As ``readDirectory(_:into:)``; ``JournalError/beforeLog(earliest:)`` for a moment before the oldest
///   checkpoint or record.
package func readDirectory<Storage: Disk>(
    _ disk: Storage, until moment: PointInTime, into host: inout some RecoveryTarget
) throws(JournalError) -> RecoverySummary {
    try readUnlocked(disk, until: moment, into: &host)
}

/// Reads one checkpoint of any name, such as a backup. Changes nothing.
/// - Parameter name: The name of the file in the directory.
/// - Throws: ``JournalError/corrupt(_:)`` for any damage, ``JournalError/disk(_:)``.
/// - Complexity: One sequential read, in the memory of one block.
package func readCheckpoint<Storage: Disk>(
    _ name: String, on disk: Storage, into host: inout some RecoveryTarget
) throws(JournalError) -> (header: CheckpointHeader, byteCount: Int, recordCount: Int) {
    var reader = try CheckpointReader.open(fileNamed: name, on: disk)
    while try reader.readBlock({ record, _ throws(EntryRejection) in try host.restore(record) }) {}
    return (reader.header, reader.byteCount, Int(clamping: reader.recordCount))
}

import PandoBytes

/// A moment of a data directory's life, to which it can be read again: everything up to it, nothing behind
/// it.
package enum PointInTime: Equatable, Sendable, CustomStringConvertible {
    /// The last record that counts. An entry that goes beyond it does not count: it happened as a whole or
    /// not at all.
    case sequence(SequenceNumber)
    /// Milliseconds since 1970; what was accepted in this millisecond counts.
    case time(Int64)

    package var description: String {
        switch self {
        case .sequence(let sequence): "sequence \(sequence)"
        case .time(let milliseconds): "time \(milliseconds)"
        }
    }

    /// Whether everything in the checkpoint counts. One that was written later than its last record is passed
    /// over where it cannot be told: then the one before it and the log say it.
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

/// Reads a directory as it was at one moment, without its lock and without changing it: from the newest whole
/// checkpoint that is not later, and the log behind that.
/// - Returns: ``RecoverySummary/lastSequence`` is the last record that counts.
/// - Throws: As ``readDirectory(_:into:)``; ``JournalError/beforeLog(earliest:)`` where what is kept does not
///   reach back so far.
package func readDirectory<Storage: Disk>(
    _ disk: Storage, until moment: PointInTime, into host: inout some Recovering
) throws(JournalError) -> RecoverySummary {
    try readUnlocked(disk, until: moment, into: &host)
}

/// Reads one checkpoint, whatever its file is called: a backup. Changes nothing.
/// - Parameter name: In the disk's directory.
/// - Throws: ``JournalError/corrupt(_:)`` for anything that is not whole, to the last bit.
/// - Complexity: One sequential read, in the memory of one block.
package func readCheckpoint<Storage: Disk>(
    _ name: String, on disk: Storage, into host: inout some Recovering
) throws(JournalError) -> (header: CheckpointHeader, byteCount: Int, recordCount: Int) {
    var reader = try CheckpointReader.open(fileNamed: name, on: disk)
    while try reader.readBlock({ record, _ throws(EntryRejection) in try host.restore(record) }) {}
    return (reader.header, reader.byteCount, Int(clamping: reader.recordCount))
}

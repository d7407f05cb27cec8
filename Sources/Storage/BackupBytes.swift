import PandoBytes
import PandoJournal

/// A backup that a client downloads: the bytes of a checkpoint, encoded from a snapshot piece by piece as the
/// client reads, with no more than one record in memory.
///
/// The last piece holds the end mark of the checkpoint. A download that was cut off has none, and every
/// reader of backups refuses it.
package struct BackupBytes: Sendable {
    package let header: CheckpointHeader
    private var encoder: CheckpointEncoder
    private var records: SnapshotRecords
    private var hasBegun = false
    private var isFinished = false
    /// Called when the last bytes were taken, by the thread that takes them.
    package var onFinished: (@Sendable () -> Void)?

    /// Bytes that one call of ``next()`` encodes, about: other connections of the same loop wait meanwhile.
    private static let pieceByteCount = 16 << 10

    /// - Parameters:
    ///   - header: Its sequence is that of the last record whose effect `snapshot` holds.
    ///   - snapshot: What the backup holds.
    package init(_ header: CheckpointHeader, of snapshot: Snapshot) {
        self.header = header
        encoder = CheckpointEncoder(header)
        records = SnapshotRecords(of: snapshot, treeByteLimit: Self.pieceByteCount)
    }

    /// The name proposed to the client for the file: it contains timeline and sequence.
    package var fileName: String { "pando-\(header.timeline)-\(header.sequence).backup" }

    /// The next bytes of the file; nil after the last.
    /// - Complexity: O(16 KiB), or O(record) for a record that cannot be split.
    package mutating func next() -> [UInt8]? {
        if !hasBegun {
            hasBegun = true
            return header.bytes
        }
        guard !isFinished else { return nil }
        while encoder.pendingByteCount < Self.pieceByteCount {
            guard let record = records.next() else {
                isFinished = true
                onFinished?()
                return encoder.finish()
            }
            encoder.append(record.kind, namespace: record.namespace, payload: record.payload.rawSpan)
        }
        return encoder.endBlock()
    }
}

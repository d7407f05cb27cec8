import PandoBytes
import PandoJournal
import PandoREST

/// Where a journal stands when its host begins.
struct JournalOrigin: Sendable {
    var directory: DirectoryID
    var timeline: UInt32
    /// The last record there is.
    var sequence: SequenceNumber

    init<Storage: Disk>(_ journal: borrowing Journal<Storage>) {
        directory = journal.directory
        timeline = journal.timeline
        sequence = journal.lastAppended
    }

    /// Of a server that keeps everything in memory.
    init(memoryOf surroundings: Environment) {
        directory = DirectoryID(surroundings.randomBits(), surroundings.randomBits())
        timeline = 1
        sequence = .zero
    }
}

/// A backup on its way to who asked for it: the bytes of a checkpoint, made from a snapshot as the client
/// reads, in the memory of one record. A client that gets no end mark has no whole backup.
struct BackupBytes: ResponseBodySource {
    let header: CheckpointHeader
    private var encoder: CheckpointEncoder
    private var records: SnapshotRecords
    private var hasBegun = false
    private var isOver = false

    /// Bytes made at once: other connections of the loop wait so long.
    private static let pieceByteCount = 16 << 10

    init(_ header: CheckpointHeader, of snapshot: Snapshot) {
        self.header = header
        encoder = CheckpointEncoder(header)
        records = SnapshotRecords(of: snapshot, treeByteLimit: Self.pieceByteCount)
    }

    /// As whoever keeps it may call the file.
    var fileName: String { "pando-\(header.timeline)-\(header.sequence).backup" }

    mutating func next() -> [UInt8]? {
        if !hasBegun {
            hasBegun = true
            return header.bytes
        }
        guard !isOver else { return nil }
        while encoder.pendingByteCount < Self.pieceByteCount {
            guard let record = records.next() else {
                isOver = true
                return encoder.finish()
            }
            encoder.append(record.kind, namespace: record.namespace, payload: record.payload.rawSpan)
        }
        return encoder.endBlock()
    }
}

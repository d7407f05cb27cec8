import PandoBytes
import PandoJournal

/// An entry as a test wants to see it.
struct Entry: Equatable, CustomStringConvertible {
    struct Record: Equatable {
        var kind: RecordKind
        var namespace: UInt32
        var timestamp: Int64
        var payload: [UInt8]
    }
    var records: [Record]

    init(_ records: [Record]) { self.records = records }

    /// A delta of one record.
    init(_ text: String) {
        self.init([Record(kind: .delta, namespace: 1, timestamp: 1000, payload: Array(text.utf8))])
    }

    init(_ entry: borrowing RecoveredEntry) {
        var records: [Record] = []
        entry.forEach { record in
            records.append(
                Record(
                    kind: record.kind, namespace: record.namespace, timestamp: record.timestamp,
                    payload: copy(of: record.payload)))
        }
        self.init(records)
    }

    var description: String {
        records.map { "\($0.kind) \($0.payload.count) bytes" }.joined(separator: " + ")
    }

    var journalRecords: [JournalRecord] {
        records.map {
            JournalRecord($0.kind, namespace: $0.namespace, timestamp: $0.timestamp, payload: $0.payload)
        }
    }
}

func copy(of bytes: RawSpan) -> [UInt8] {
    var result: [UInt8] = []
    result.append(bytes)
    return result
}

let testID = DirectoryID(0x0706_0504_0302_0100, 0x0F0E_0D0C_0B0A_0908)

/// Opens, collecting what is replayed.
func openJournal<Storage: Disk>(
    on disk: Storage, after checkpoint: SequenceNumber = .zero, entries: inout [Entry]
) throws(JournalError) -> Journal<Storage> {
    var found: [Entry] = []
    let journal = try Journal.open(on: disk, newDirectoryID: testID, after: checkpoint) { entry in
        found.append(Entry(entry))
    }
    entries = found
    return journal
}

/// Opens, reads, closes.
func recover<Storage: Disk>(
    _ disk: Storage, after checkpoint: SequenceNumber = .zero
) throws(JournalError) -> (entries: [Entry], summary: RecoverySummary) {
    var entries: [Entry] = []
    let journal = try openJournal(on: disk, after: checkpoint, entries: &entries)
    return (entries, journal.recovery)
}

/// Writes these entries in batches, syncing each.
func makeDisk(_ batches: [[Entry]], syncsLast: Bool = true) throws(JournalError) -> SimulatedDisk {
    let disk = SimulatedDisk()
    var none: [Entry] = []
    var journal = try openJournal(on: disk, entries: &none)
    for (index, batch) in batches.enumerated() {
        for entry in batch { try journal.append(entry: entry.journalRecords) }
        try journal.write()
        if syncsLast || index < batches.count - 1 { try journal.sync() }
    }
    return disk
}

let firstSegment = "journal-00000001-0000000000000001.log"

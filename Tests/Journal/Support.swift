import PandoBytes
import PandoJournal
import PandoSimulatedDisk

/// An entry in the form that tests compare.
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

extension Journal {
    /// Appends an entry of one record.
    @discardableResult
    mutating func append(
        _ kind: RecordKind, namespace: UInt32, timestamp: Int64, payload: [UInt8]
    ) throws(JournalError) -> SequenceNumber {
        try append(
            entry: [JournalRecord(kind, namespace: namespace, timestamp: timestamp, payload: payload)])
    }
}

func copy(of bytes: RawSpan) -> [UInt8] {
    var result: [UInt8] = []
    result.append(bytes)
    return result
}

let testID = DirectoryID(0x0706_0504_0302_0100, 0x0F0E_0D0C_0B0A_0908)

/// A host whose state is the list of all entries: its checkpoint has a record for each.
struct History: RecoveryTarget {
    var entries: [Entry] = []
    /// How many of them came out of a checkpoint.
    var restoredCount = 0
    /// Rejects the entry with this payload.
    var rejected: [UInt8]?

    mutating func startOver() {
        entries = []
        restoredCount = 0
    }

    mutating func restore(_ record: borrowing RecoveredRecord) throws(EntryRejection) {
        guard record.kind == .tree, let entry = Entry(flat: copy(of: record.payload)) else {
            throw EntryRejection("no entry")
        }
        entries.append(entry)
        restoredCount += 1
    }

    mutating func replay(_ entry: borrowing RecoveredEntry) throws(EntryRejection) {
        let entry = Entry(entry)
        if let rejected, entry.records[0].payload == rejected { throw EntryRejection("no such path") }
        entries.append(entry)
    }
}

extension Entry {
    /// All records in one payload.
    var flat: [UInt8] {
        var bytes: [UInt8] = []
        for record in records {
            bytes.append(littleEndian: record.kind.rawValue)
            bytes.append(littleEndian: record.namespace)
            bytes.append(littleEndian: record.timestamp)
            bytes.append(varint: UInt64(record.payload.count))
            bytes += record.payload
        }
        return bytes
    }

    init?(flat bytes: [UInt8]) {
        let records = withCursor(over: bytes.rawSpan) { cursor -> [Record]? in
            var records: [Record] = []
            while !cursor.isAtEnd {
                guard let rawKind = try? cursor.readLittleEndian(UInt16.self),
                    let kind = RecordKind(rawValue: rawKind),
                    let namespace = try? cursor.readLittleEndian(UInt32.self),
                    let timestamp = try? cursor.readLittleEndian(Int64.self),
                    let range = try? cursor.readCounted()
                else { return nil }
                records.append(
                    Record(
                        kind: kind, namespace: namespace, timestamp: timestamp, payload: cursor.array(range)))
            }
            return records
        }
        guard let records else { return nil }
        self.init(records)
    }
}

/// So small that tests have many segments.
func smallOptions(_ segmentByteLimit: Int) -> JournalOptions {
    var options = JournalOptions()
    options.segmentByteLimit = segmentByteLimit
    options.reservationByteCount = segmentByteLimit
    return options
}

/// Opens, collecting what is restored and replayed.
func openJournal<Storage: Disk>(
    on disk: Storage, options: JournalOptions = .init(), entries: inout [Entry]
) throws(JournalError) -> Journal<Storage> {
    var host = History()
    let journal = try Journal.open(on: disk, newDirectoryID: testID, options: options, into: &host)
    entries = host.entries
    return journal
}

/// Opens, reads, closes.
func recover<Storage: Disk>(_ disk: Storage) throws(JournalError) -> (
    entries: [Entry], summary: RecoverySummary
) {
    var entries: [Entry] = []
    let journal = try openJournal(on: disk, entries: &entries)
    return (entries, journal.recovery)
}

func checkpointHeader(_ sequence: SequenceNumber, directory: DirectoryID = testID, timeline: UInt32 = 1)
    -> CheckpointHeader
{
    CheckpointHeader(directory: directory, timeline: timeline, sequence: sequence, timestamp: 1000)
}

/// Writes a checkpoint of these entries.
func writeCheckpoint<Storage: Disk>(
    _ header: CheckpointHeader, of entries: [Entry], on disk: Storage
) throws(DiskFailure) {
    var writer = try CheckpointWriter(header, on: disk)
    for entry in entries { try writer.append(.tree, namespace: 1, payload: entry.flat.rawSpan) }
    _ = try writer.finish()
}

/// The name and bytes of a checkpoint.
func checkpointFile(
    _ sequence: UInt64, of entries: [Entry] = [], directory: DirectoryID = testID, timeline: UInt32 = 1
) -> (name: String, bytes: [UInt8]) {
    let disk = SimulatedDisk()
    let header = checkpointHeader(SequenceNumber(sequence), directory: directory, timeline: timeline)
    try? writeCheckpoint(header, of: entries, on: disk)
    return (header.name.text, disk.contents[header.name.text] ?? [])
}

extension Journal {
    /// Writes an entry for each text, all with one sync.
    /// - Returns: The entries.
    mutating func writeAndSync(_ texts: [String]) throws(JournalError) -> [Entry] {
        let entries = texts.map { Entry($0) }
        for entry in entries { try append(entry: entry.journalRecords) }
        try write()
        try sync()
        return entries
    }
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

/// A disk that cannot read one file.
///
/// `@unchecked Sendable`: used by one thread.
final class UnreadableDisk: ForwardingDisk, @unchecked Sendable {
    let base: SimulatedDisk
    private let name: String
    /// Reads of the file that succeed each time it is opened; nil where it cannot be opened.
    private let goodReadCount: Int?
    private let errorNumber: Int32
    private var opened: SimulatedDisk.File?
    private var readCount = 0

    init(_ disk: SimulatedDisk, _ name: String, goodReadCount: Int? = nil, errorNumber: Int32 = 5) {
        base = disk
        self.name = name
        self.goodReadCount = goodReadCount
        self.errorNumber = errorNumber
    }

    func open(_ name: String, _ mode: OpenMode) throws(DiskFailure) -> SimulatedDisk.File {
        guard name == self.name else { return try base.open(name, mode) }
        guard goodReadCount != nil else { throw failure(.open) }
        let file = try base.open(name, mode)
        (opened, readCount) = (file, 0)
        return file
    }

    @unsafe func read(
        _ file: SimulatedDisk.File, at offset: Int, into buffer: UnsafeMutableRawBufferPointer
    ) throws(DiskFailure) -> Int {
        if let goodReadCount, file === opened {
            guard readCount < goodReadCount else { throw failure(.read) }
            readCount += 1
        }
        // Passed on as it came.
        return try unsafe base.read(file, at: offset, into: buffer)
    }

    private func failure(_ operation: DiskOperation) -> DiskFailure {
        DiskFailure(
            operation: operation, path: name, errorNumber: errorNumber, errorText: "simulated failure")
    }
}

let firstSegment = "journal-00000001-0000000000000001.log"

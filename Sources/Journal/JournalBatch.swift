import PandoBytes

/// Records on their way to the journal, in the very bytes that the segment will hold.
///
///     bytes     ┌ header ┬ payload ┬ padding ┐┌ header ┬ payload ┬ padding ┐┌ header ┬ …
///     entries   └──────────────────── one entry ─────────────────────────┘└── the next …
///
/// The place of each header is reserved before the payload is printed behind it, so nothing is copied between
/// the printing and the write. ``endRecord(_:namespace:timestamp:)`` fills in what is known then. Sequence,
/// durable mark and checksum follow last, when ``Journal/write()`` seals the batch.
///
/// One buffer for everything: an array for each record would cost more than the printing.
package struct JournalBatch: Sendable {
    /// A place to roll back to: see ``rollback(to:)``.
    package struct Savepoint {
        /// ``JournalBatch/byteCount`` at the savepoint. The difference to the current one is the size of what
        /// was appended since. (The caller subtracts the two properties itself: a method of another module
        /// would retain the batch during the call.)
        package let byteCount: Int
        fileprivate let recordCount: Int
    }

    /// Whole records, and behind them the header and the payload of a record that was begun. The payload is
    /// appended here.
    package var bytes: [UInt8] = []
    /// Bytes of the whole records. They take as many in the journal.
    package private(set) var byteCount = 0
    /// Whole records.
    package private(set) var recordCount = 0
    /// Where the last whole record begins. Valid while ``hasOpenEntry``.
    private var lastRecordOffset = 0
    /// Records were ended since the last end of an entry.
    private var hasOpenEntry = false

    package init() {}

    /// An empty batch with capacity for as much as another one holds: successive batches are of similar size.
    package init(withCapacityOf other: JournalBatch) {
        bytes.reserveCapacity(min(other.bytes.count, Self.reservedByteLimit))
    }

    package var isEmpty: Bool { recordCount == 0 }

    /// Whether the batch has memory that is worth reusing.
    package var hasCapacity: Bool { bytes.capacity > 0 }

    package var savepoint: Savepoint { Savepoint(byteCount: byteCount, recordCount: recordCount) }

    // MARK: Appending

    /// Begins a record: reserves its header. The caller then appends the payload to ``bytes``.
    /// - Precondition: No record is begun.
    package mutating func beginRecord() {
        precondition(bytes.count == byteCount, "the record before has not ended")
        bytes.append(atMost: JournalFormat.recordHeaderByteCount) { writer in
            for _ in 0..<JournalFormat.recordHeaderByteCount / 8 { writer.append(littleEndian: UInt64(0)) }
        }
    }

    /// Ends the record that was begun. Its payload is what was appended to ``bytes`` since.
    /// - Parameter timestamp: When the server accepted it; milliseconds since 1970.
    package mutating func endRecord(_ kind: RecordKind, namespace: UInt32, timestamp: Int64) {
        let payloadByteCount = bytes.count - byteCount - JournalFormat.recordHeaderByteCount
        precondition(payloadByteCount >= 0 && payloadByteCount <= UInt32.max, "no record was begun")
        let flags: RecordFlags = hasOpenEntry ? [] : .begin
        bytes.replace(littleEndian: UInt32(payloadByteCount), at: byteCount + RecordHeader.lengthOffset)
        bytes.replace(
            littleEndian: RecordHeader.kindWord(kind, flags, namespace),
            at: byteCount + RecordHeader.kindOffset)
        bytes.replace(littleEndian: timestamp, at: byteCount + RecordHeader.timestampOffset)
        for _ in 0..<JournalFormat.paddingByteCount(payloadByteCount: payloadByteCount) { bytes.append(0) }
        lastRecordOffset = byteCount
        hasOpenEntry = true
        byteCount = bytes.count
        recordCount += 1
        assert(byteCount % JournalFormat.alignment == 0, "a record does not begin at a multiple of 8")
    }

    /// Ends an entry: the records since the entry before are recovered together or not at all.
    /// - Precondition: There is at least one, and no record is begun.
    package mutating func endEntry() {
        precondition(hasOpenEntry && bytes.count == byteCount, "an entry has at least one whole record")
        // `commit` is in the low byte of the flags.
        bytes[lastRecordOffset + RecordHeader.flagsOffset] |= UInt8(RecordFlags.commit.rawValue)
        hasOpenEntry = false
    }

    /// Appends an entry of several records. One copy of the payloads.
    /// - Parameter records: At least one.
    package mutating func append(entry records: [JournalRecord]) {
        for record in records {
            beginRecord()
            bytes.append(record.payload.rawSpan)
            endRecord(record.kind, namespace: record.namespace, timestamp: record.timestamp)
        }
        endEntry()
    }

    /// Appends all entries of another batch. One copy of its bytes.
    mutating func append(_ other: borrowing JournalBatch) {
        precondition(isWhole && other.isWhole, "an entry has not ended")
        bytes.append(other.bytes.rawSpan)
        byteCount += other.byteCount
        recordCount += other.recordCount
    }

    /// No record and no entry is begun.
    var isWhole: Bool { !hasOpenEntry && bytes.count == byteCount }

    // MARK: Rolling back

    /// Whole records behind the savepoint.
    package func recordCount(since savepoint: Savepoint) -> Int { recordCount - savepoint.recordCount }

    /// The longest payload behind the savepoint. O(records behind it).
    package func longestPayloadByteCount(since savepoint: Savepoint) -> Int {
        var longest = 0
        forEachRecord(from: savepoint.byteCount) { offset, payloadByteCount in
            longest = max(longest, payloadByteCount)
        }
        return longest
    }

    /// Removes everything behind the savepoint, a record or an entry that was begun included.
    /// - Precondition: The savepoint was taken between two entries of this batch, and is still in it.
    package mutating func rollback(to savepoint: Savepoint) {
        precondition(savepoint.byteCount <= byteCount && savepoint.recordCount <= recordCount)
        bytes.removeLast(bytes.count - savepoint.byteCount)
        byteCount = savepoint.byteCount
        recordCount = savepoint.recordCount
        hasOpenEntry = false
        // The removed records may have been large, and the next ones may come late.
        if isEmpty, bytes.capacity > Self.keptByteLimit { bytes = [] }
    }

    /// Removes everything. The memory stays, unless it is large.
    package mutating func removeAll() {
        bytes.removeAll(keepingCapacity: bytes.capacity <= Self.keptByteLimit)
        byteCount = 0
        recordCount = 0
        hasOpenEntry = false
    }

    /// Capacity that a new batch reserves at most, and that an empty one keeps at most: arrays grow to twice
    /// of what they hold.
    private static let reservedByteLimit = 256 << 10
    private static let keptByteLimit = 512 << 10

    // MARK: Sealing

    /// Visits the whole records from an offset on.
    private func forEachRecord(from start: Int, _ body: (_ offset: Int, _ payloadByteCount: Int) -> Void) {
        var offset = start
        while offset < byteCount {
            let length = bytes.rawSpan.littleEndian(at: offset + RecordHeader.lengthOffset, as: UInt32.self)
            body(offset, Int(length))
            offset += JournalFormat.recordByteCount(payloadByteCount: Int(length))
        }
        assert(offset == byteCount, "the lengths do not lead to the end of the batch")
    }

    /// Checks that every entry may be appended. O(1) for a batch that is not larger than one payload may be.
    /// - Throws: ``JournalError/entryTooLarge(byteCount:byteLimit:)``.
    func checkSizes() throws(JournalError) {
        guard byteCount > JournalFormat.payloadByteLimit else { return }
        var longestPayload = 0
        var longestEntry = 0
        var entryStart = 0
        forEachRecord(from: 0) { offset, payloadByteCount in
            let flags = bytes.rawSpan.littleEndian(at: offset + RecordHeader.flagsOffset, as: UInt16.self)
            if RecordFlags(rawValue: flags).contains(.begin) { entryStart = offset }
            let end = offset + JournalFormat.recordByteCount(payloadByteCount: payloadByteCount)
            longestPayload = max(longestPayload, payloadByteCount)
            longestEntry = max(longestEntry, end - entryStart)
        }
        if longestPayload > JournalFormat.payloadByteLimit {
            throw .entryTooLarge(byteCount: longestPayload, byteLimit: JournalFormat.payloadByteLimit)
        }
        if longestEntry > JournalFormat.entryByteLimit {
            throw .entryTooLarge(byteCount: longestEntry, byteLimit: JournalFormat.entryByteLimit)
        }
    }

    /// Fills in sequence, durable mark and checksum of every record, right before the write: so the mark is
    /// as high as it can be.
    /// - Parameters:
    ///   - seed: The checksum of the segment's header.
    ///   - firstSequence: Of the first record.
    ///   - durable: The last record that is on disk.
    mutating func seal(seed: UInt32, firstSequence: SequenceNumber, durable: SequenceNumber) {
        precondition(isWhole, "an entry has not ended")
        precondition(durable < firstSequence, "a record cannot be on disk before it is written")
        var sequence = firstSequence
        var offset = 0
        while offset < byteCount {
            bytes.replace(littleEndian: sequence.rawValue, at: offset + RecordHeader.sequenceOffset)
            bytes.replace(littleEndian: durable.rawValue, at: offset + RecordHeader.durableOffset)
            let length = bytes.rawSpan.littleEndian(at: offset + RecordHeader.lengthOffset, as: UInt32.self)
            let end = offset + JournalFormat.recordByteCount(payloadByteCount: Int(length))
            let checksum = crc32c(
                bytes.rawSpan.extracting(offset + RecordHeader.lengthOffset..<end), continuing: seed)
            bytes.replace(littleEndian: checksum, at: offset)
            sequence = sequence.successor
            offset = end
        }
        assert(sequence.rawValue - firstSequence.rawValue == UInt64(recordCount), "records are miscounted")
    }
}
